//! Posts each message to a URL, with the headers of the Elastic Beanstalk worker daemon. 2xx is success.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Proxy, Response, Url};
use tokio::time::{Instant, timeout_at};

use super::headers::{ContentType, headers};
use super::{Handler, error_payload, reach};
use backstop_core::failure::{Error, MESSAGE_BYTES};
use backstop_core::network;
use backstop_core::retry_after::retry_after;
use backstop_queue::{Message, short_name};

/// The most bytes that are read of an error's body.
const BODY_BYTES: usize = 64 << 10;

/// How long an error's body is read. The status already says that the attempt failed; an endless body must not turn that into a timeout.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest that connecting may take. It is shorter if an attempt may take no longer than that: an attempt that ends before there is a connection looks like one that the worker has seen.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a health path may take to answer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection stays open without a request. Servers close idle connections, too: gunicorn after 2 seconds, Node.js and uvicorn after 5. A request that meets such a close fails like one whose worker has died, and is an attempt.
const IDLE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Where and how messages are posted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpOptions {
    /// The worker's URL.
    pub url: String,
    /// The proxy, if there is one. Proxies of the environment are ignored: one that responds in place of the worker, such as with an error page, would cause unhandled messages to be deleted.
    pub proxy: Option<String>,
    /// The type of the bodies.
    pub content_type: ContentType,
    /// Where the worker says whether it is ready, as a path of the same server or a URL: any 2xx says so. Without it, a worker is ready that accepts connections.
    pub health: Option<String>,
}

/// Posts messages to a URL.
#[derive(Debug)]
pub struct Http {
    client: Client,
    /// Connects, and sends nothing.
    probe: Client,
    url: Url,
    health: Option<Url>,
    content_type: ContentType,
    queue: String,
    /// Whether it is known that the path is right, or was said that it may be wrong.
    is_path_clear: AtomicBool,
}

/// The handler can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The worker's URL is not an HTTP URL.
    #[error("`{url}` is not an HTTP URL: expected one such as http://127.0.0.1:8080/")]
    Url {
        /// The configured text.
        url: String,
    },
    /// The health path is none, nor an HTTP URL.
    #[error(
        "the health path `{health}` is neither a path of the worker nor an HTTP URL: expected one such as /healthz"
    )]
    Health {
        /// The configured text.
        health: String,
    },
    /// The proxy's URL is not an HTTP URL.
    #[error("`{url}` is not the URL of a proxy: expected one such as http://proxy.internal:3128")]
    Proxy {
        /// The configured text.
        url: String,
    },
    /// The HTTP client could not be created.
    #[error("can't set up an HTTP client")]
    Client(#[source] reqwest::Error),
}

impl Http {
    /// A handler that posts the messages of `queue` in attempts of at most this duration.
    pub fn new(
        options: &HttpOptions,
        queue: &str,
        attempt_timeout: Duration,
    ) -> Result<Self, HttpError> {
        let url = web_url(&options.url).ok_or_else(|| HttpError::Url {
            url: options.url.clone(),
        })?;
        let health = options.health.as_deref().map(|health| {
            health_url(&url, health).ok_or_else(|| HttpError::Health {
                health: health.to_owned(),
            })
        });
        let proxy = options.proxy.as_deref().map(|proxy| {
            let invalid = || HttpError::Proxy {
                url: proxy.to_owned(),
            };
            Proxy::all(web_url(proxy).ok_or_else(invalid)?).map_err(|_| invalid())
        });
        let proxy = proxy.transpose()?;
        let connect_timeout = CONNECT_TIMEOUT.min(attempt_timeout / 2);
        let builder = || client(proxy.as_ref(), connect_timeout);
        Ok(Self {
            client: builder().build().map_err(HttpError::Client)?,
            probe: reach::client(builder(), connect_timeout).map_err(HttpError::Client)?,
            url,
            health: health.transpose()?,
            content_type: options.content_type.clone(),
            queue: short_name(queue).to_owned(),
            is_path_clear: AtomicBool::new(false),
        })
    }

    /// Says once that the path may be wrong: of a server that knows no such path, and not of a worker that describes its error, or has done a message before.
    fn doubt_path(&self, error: &Error) {
        let is_unknown = matches!(error.code.as_str(), "HTTP 404" | "HTTP 405");
        if is_unknown && !self.is_path_clear.swap(true, Relaxed) {
            tracing::warn!(
                queue = self.queue,
                "the worker answers {} at {}: is the path right? The policy decides about its messages as about every failure",
                error.code.trim_start_matches("HTTP "),
                without_secrets(&self.url)
            );
        }
    }

    /// Asks the worker whether it is ready.
    async fn ask(&self, health: &Url) -> Result<Result<(), Error>, reqwest::Error> {
        let request = self.client.get(health.clone()).timeout(HEALTH_TIMEOUT);
        let status = request.send().await?.status();
        if status.is_success() {
            return Ok(Ok(()));
        }
        let text = format!("the worker is not ready, says {}", health.path());
        Ok(Err(Error::unavailable(
            format!("HTTP {}", status.as_u16()),
            text,
        )
        .status(status.as_u16())))
    }
}

/// Parses an HTTP URL with a host.
fn web_url(url: &str) -> Option<Url> {
    Url::parse(url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// The URL of a health path: a path of the server at `url`, or a URL of its own.
fn health_url(url: &Url, health: &str) -> Option<Url> {
    if health.starts_with('/') && !health.starts_with("//") {
        url.join(health).ok()
    } else {
        web_url(health)
    }
}

#[async_trait]
impl Handler for Http {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(headers(&self.queue, &self.content_type, message))
            .body(message.body.to_string());
        let response = request
            .send()
            .await
            .map_err(|error| connection_error(&error, &self.url))?;
        if response.status().is_success() {
            self.is_path_clear.store(true, Relaxed);
            return Ok(());
        }
        let error = status_error(response).await;
        self.doubt_path(&error);
        Err(error)
    }

    /// The connection broke.
    fn has_ended(&self, error: &Error) -> bool {
        let codes = ["ECONNABORTED", "ECONNRESET", "EPIPE"];
        error.status.is_none() && codes.contains(&error.code.as_str())
    }

    /// The worker says that it is ready or, without a health path, accepts connections, with TLS for `https`.
    ///
    /// If this host lacks what a new connection takes, it passes: an idle connection may still do.
    async fn is_reachable(&self) -> Result<(), Error> {
        let answer = match &self.health {
            Some(health) => self.ask(health).await,
            None => reach::reach(&self.probe, &self.url).await.map(Ok),
        };
        let asked = self.health.as_ref().unwrap_or(&self.url);
        match answer {
            Ok(answer) => answer,
            Err(error) if io_error(&error).and_then(network::lack).is_some() => Ok(()),
            Err(error) => {
                let is_connected = !error.is_connect();
                let mut error = connection_error(&error, asked);
                if is_connected {
                    error.message = at(&error.message, asked);
                }
                error.unavailable = true;
                Err(error)
            }
        }
    }
}

/// The client, which connects directly or through this proxy.
fn client(proxy: Option<&Proxy>, connect_timeout: Duration) -> ClientBuilder {
    let client = Client::builder().no_proxy();
    let client = match proxy {
        Some(proxy) => client.proxy(proxy.clone()),
        None => client,
    };
    client
        .user_agent(concat!("backstop/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
}

/// The error of a response that is not 2xx: its status, its headers, and its body as text or as an error in Lambda's format.
async fn status_error(response: Response) -> Error {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = start_of_body(response).await;
    let mut error =
        error_payload::error(&body).unwrap_or_else(|| Error::new(format!("HTTP {status}"), body));
    error.status = Some(status);
    error.retry_after = retry_after(|name| headers.get(name)?.to_str().ok());
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.to_string(), value.to_str().ok()?.to_owned()))
    };
    error.details.extend(headers.iter().filter_map(text));
    error
}

/// The start of the body, limited by [`BODY_BYTES`] and [`BODY_TIMEOUT`].
async fn start_of_body(mut response: Response) -> String {
    let mut body = Vec::new();
    let until = Instant::now() + BODY_TIMEOUT;
    while body.len() < BODY_BYTES {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let bytes_left = BODY_BYTES - body.len();
                body.extend(chunk.iter().take(bytes_left));
            }
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let body = String::from_utf8_lossy(&body);
    let mut body = body.trim().to_owned();
    if error_payload::error(&body).is_none() {
        backstop_core::text::cut(&mut body, MESSAGE_BYTES);
    }
    body
}

/// The error of a request without a response. Its code is the name of the errno, as in Node, or `EPROTO` if the other side does not speak HTTP or trusted TLS.
///
/// Without a connection, the worker cannot have seen the message, and the text names its address. A connection that broke later may have carried it.
fn connection_error(error: &reqwest::Error, url: &Url) -> Error {
    let causes = || std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let is_malformed = causes().any(is_malformed);
    let text = causes()
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    let code = match io_error(error).and_then(io_code) {
        _ if is_malformed => "EPROTO",
        Some(code) => code,
        _ if error.is_timeout() => "ETIMEDOUT",
        _ if text.contains("lookup") => "ENOTFOUND",
        _ if error.is_connect() => "ECONNREFUSED",
        _ => "ECONNRESET",
    };
    if !error.is_connect() {
        return Error::new(code, text);
    }
    Error::unavailable(code, at(&text, url))
}

/// A text with the address that it is about.
fn at(text: &str, url: &Url) -> String {
    format!("{text} at {}", without_secrets(url))
}

/// The URL without a user, a password and a query, which may be secrets.
fn without_secrets(url: &Url) -> Url {
    let mut shown = url.clone();
    // They fail only for URLs without a host.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.set_fragment(None);
    shown
}

fn io_error(error: &reqwest::Error) -> Option<&std::io::Error> {
    std::iter::successors(std::error::Error::source(error), |cause| cause.source())
        .find_map(|cause| cause.downcast_ref())
}

fn io_code(error: &std::io::Error) -> Option<&'static str> {
    network::lack(error).or_else(|| network::code(error.kind()))
}

/// Whether the other side does not speak the protocol: hyper can't parse its response, or rustls rejects its handshake.
fn is_malformed(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
        return hyper.is_parse();
    }
    cause.downcast_ref::<std::io::Error>().is_some_and(|io| {
        // `source` skips an I/O error that is wrapped in another.
        let is_inner_malformed = io.get_ref().is_some_and(|inner| is_malformed(inner));
        io.kind() == std::io::ErrorKind::InvalidData || is_inner_malformed
    })
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
