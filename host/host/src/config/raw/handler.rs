//! The table `handler` of a queue.

use serde::de::IgnoredAny;

use super::*;

table! {
    /// What handles the messages of a queue.
    Handler at "queues.NAME.handler", "a table with `http`, `exec` or `lambda`, such as { http = \"http://127.0.0.1:8080/\" }";

    /// Posts each message to this URL, in place of a function. Any 2xx is success.
    http: Option<String> => http(String) {
        flag: Some(Flag::new("http", "URL", "POST each message to this URL; 2xx is success")),
    }

    /// The proxy through which [`http`](Self::http) posts.
    proxy: Option<String> => http_proxy(String) {
        flag: Some(Flag::new("http-proxy", "URL", "Send the requests of --http through this proxy [default: none; HTTP_PROXY and similar variables are ignored]").requires("http")),
    }

    /// The type of the bodies that [`http`](Self::http) posts.
    content_type: Option<String> = "application/json" => http_content_type(String) {
        flag: Some(Flag::new("http-content-type", "TYPE", "The content type of the requests of --http").requires("http")),
    }

    /// Where the worker of [`http`](Self::http) says whether it is ready: a path of the same server, or a URL. Any 2xx says so.
    health: Option<String> => http_health(String) {
        flag: Some(Flag::new("http-health", "PATH|URL", "Ask the worker of --http here whether it is ready, before the first message and while it is unavailable: 2xx is ready [default: it is if it accepts connections]").requires("http")),
    }

    /// Runs this program for each message, in place of a function. The body is its standard input; exit status 0 is success.
    exec: Option<Command> => exec(Command) {
        flag: Some(Flag::new("exec", "COMMAND", "Run this command for each message, with the body on its standard input; exit status 0 is success. Quote the command: --exec './work.sh --fast'")),
    }

    /// Invokes this Lambda function with each message, in place of a function of this program.
    lambda: Option<String> => lambda(String) {
        flag: Some(Flag::new("lambda", "NAME|ARN", "Invoke this Lambda function with each message and wait for its response")),
    }

    /// The function of a program.
    #[serde(skip)]
    function: Option<FunctionHandler> {
        is_in_files: false,
        method: "handler",
    }
}

/// A file in which each queue has a handler; anything else is ignored.
#[derive(Deserialize)]
pub(crate) struct WithHandlers {
    #[serde(default, rename = "queues")]
    _queues: BTreeMap<String, WithHandler>,
}

#[derive(Deserialize)]
struct WithHandler {
    #[serde(rename = "handler")]
    _handler: IgnoredAny,
}
