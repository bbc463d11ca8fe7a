use std::sync::atomic::{AtomicU32, Ordering};

use std::time::Duration;

use super::*;
use crate::config::HandlerConfig;
use crate::hold::HoldMode;
use crate::run::RunError;

async fn succeed(_: Arc<Message>) -> Result<(), Error> {
    Ok(())
}

/// The configuration of a file with this text.
fn of_file(text: &str) -> Config {
    Config::parse(text, Path::new("backstop.toml")).unwrap()
}

#[test]
fn the_builder_fills_the_same_form_as_a_file() {
    let host = Backstop::queue("local:orders")
        .policy("linear")
        .set("base", "2s")
        .set("cap", "1h")
        .shadow("full-jitter")
        .set_shadow("base", "3s")
        .scenarios("scenarios.toml")
        .dead_letter_queue("local:dead")
        .dead_letter_queue_of("permanent", "local:invalid")
        .max_attempts(9)
        .max_age(Duration::from_secs(86_400))
        .allow_discard(false)
        .max_in_flight(7)
        .maintenance_window("0 2 * * SUN", "Europe/Berlin", Duration::from_secs(7_200))
        .max_bytes_in_flight(2 << 20)
        .visibility_timeout(Duration::from_secs(45))
        .attempt_timeout(Duration::from_secs(60))
        .linger(Duration::from_millis(20))
        .grace(Duration::from_secs(5))
        .http("http://127.0.0.1:8080/")
        .http_proxy("http://127.0.0.1:3128/")
        .http_health("/healthz")
        .http_content_type("text/plain")
        .and_queue("local:invoices")
        .named("bills")
        .classifier("full-jitter", [("codes", "x")])
        .backoff("linear", [("base", "1s")])
        .exec(["./work.sh", "--fast"])
        .decisions("decisions.jsonl")
        .metrics("127.0.0.1:9464")
        .traces("otlp")
        .admin("0.0.0.0:9465")
        .admin_token_file("token")
        .admin_hosts(["backstop.internal"])
        .endpoint_url("http://127.0.0.1:4566")
        .cache("cache")
        .refresh(Duration::from_secs(30))
        .poll(Duration::from_secs(2))
        .plain_http(["registry.internal:5000"])
        .token_servers(["auth.internal"])
        .rollback(3, Duration::from_secs(90));
    let expected = of_file(
        r#"
        metrics = "127.0.0.1:9464"
        traces = "otlp"
        admin = "0.0.0.0:9465"
        admin-token-file = "token"
        admin-hosts = ["backstop.internal"]
        endpoint-url = "http://127.0.0.1:4566"
        decisions = { record = "decisions.jsonl" }
        [policies]
        cache = "cache"
        refresh = "30s"
        poll = "2s"
        plain-http = ["registry.internal:5000"]
        token-servers = ["auth.internal"]
        rollback = { broken = 3, within = "90s" }
        [queues.bills]
        url = "local:invoices"
        handler = { exec = ["./work.sh", "--fast"] }
        [queues.bills.policy]
        classifier = { use = "full-jitter", settings = { codes = "x" } }
        backoff = { use = "linear", settings = { base = "1s" } }
        [queues.orders]
        url = "local:orders"
        handler = { http = "http://127.0.0.1:8080/", proxy = "http://127.0.0.1:3128/", content-type = "text/plain", health = "/healthz" }
        policy = "linear"
        settings = { base = "2s", cap = "1h" }
        shadow = "full-jitter"
        shadow-settings = { base = "3s" }
        scenarios = "scenarios.toml"
        dead-letter-queue = { permanent = "local:invalid", default = "local:dead" }
        max-attempts = 9
        max-age = "1d"
        allow-discard = false
        max-in-flight = 7
        pause = [{ at = "0 2 * * SUN", zone = "Europe/Berlin", for = "2h" }]
        max-bytes-in-flight = "2MiB"
        visibility-timeout = "45s"
        attempt-timeout = "60s"
        linger = "20ms"
        grace = "5s"
        "#,
    );
    assert_eq!(host.into_config().unwrap(), expected);
}

#[test]
fn the_builder_sets_the_limits_and_the_retry_handler_of_a_file() {
    let host = Backstop::queue("local:orders")
        .exec(["true"])
        .limits_fuel(7_000_000)
        .limits_time(Duration::from_secs(3))
        .limits_memory(32 << 20)
        .limits_table_elements(9)
        .limits_instances(8)
        .limits_log(1 << 10)
        .limits_strings(2 << 10)
        .limits_payload(3 << 10)
        .limits_component(4 << 20)
        .limits_compile_time(Duration::from_secs(60))
        .limits_compile_cpu(Duration::from_secs(30))
        .limits_compile_memory(1 << 30)
        .lambda_retry_queue("local:retries")
        .lambda_dead_letter_queue("local:dead")
        .lambda_dead_letter_queue_of("permanent", "local:invalid")
        .lambda_policy("linear")
        .lambda_set("base", "30s")
        .lambda_scenarios("required.toml")
        .lambda_shadow("full-jitter")
        .lambda_set_shadow("base", "10s")
        .lambda_max_attempts(9)
        .lambda_max_age(Duration::from_secs(86_400))
        .lambda_allow_discard(false)
        .lambda_hold(HoldMode::Resend)
        .lambda_envelope_key_file("key")
        .lambda_margin(Duration::from_secs(7))
        .lambda_metrics(true)
        .lambda_handler("retry-handler")
        .lambda_functions(["orders", "invoices"]);
    let expected = of_file(
        r#"
        [limits]
        fuel = 7_000_000
        time = "3s"
        memory = "32MiB"
        table-elements = 9
        instances = 8
        log = "1KiB"
        strings = "2KiB"
        payload = "3KiB"
        component = "4MiB"
        compile = { time = "60s", cpu = "30s", memory = "1GiB" }
        [queues.orders]
        url = "local:orders"
        handler = { exec = "true" }
        [lambda]
        retry-queue = "local:retries"
        dead-letter-queue = { permanent = "local:invalid", default = "local:dead" }
        policy = "linear"
        settings = { base = "30s" }
        scenarios = "required.toml"
        shadow = "full-jitter"
        shadow-settings = { base = "10s" }
        max-attempts = 9
        max-age = "1d"
        allow-discard = false
        hold = "resend"
        envelope-key-file = "key"
        margin = "7s"
        metrics = true
        handler = "retry-handler"
        functions = ["orders", "invoices"]
        "#,
    );
    assert_eq!(host.into_config().unwrap(), expected);
    for (host, expected) in [
        (
            Backstop::queue("local:orders").limits_memory(5 << 30),
            "limits_memory: expected at most 4GiB",
        ),
        (
            Backstop::queue("local:orders").lambda_max_attempts(0),
            "lambda_max_attempts: expected",
        ),
    ] {
        let error = host.exec(["true"]).into_config().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn an_error_names_the_method_or_the_flag() {
    let hour = Duration::from_secs(3_600);
    let errors = |start: fn(&'static str) -> Backstop| {
        [
            start("local:orders").max_attempts(0),
            start("orders"),
            start("local:orders").max_age(1_000 * hour),
            start("local:orders").policy("ful-jitter"),
            start("local:orders").metrics("9464"),
            start("local:orders").admin("localhost:9465"),
            start("local:orders").admin_token_file("token"),
            start("local:orders")
                .admin("127.0.0.1:9465")
                .admin_hosts(["http://backstop.internal"]),
            start("local:orders").refresh(Duration::ZERO),
            start("local:orders").named("first").lambda("no function"),
            start("local:orders")
                .exec(["true"])
                .http_proxy("http://127.0.0.1:3128/"),
            start("local:orders")
                .http("http://127.0.0.1/")
                .http_content_type("json"),
            start("local:orders").max_attempts(0).named("first"),
        ]
        .map(|host| host.handle_if_none().into_config().unwrap_err().to_string())
    };
    let by_methods = errors(Backstop::queue);
    let by_flags = errors(Backstop::queue_by_flags);
    for (error, expected) in by_methods.iter().chain(&by_flags).zip([
        "max_attempts of queue `orders`: expected",
        "queue: `orders` is not the URL of a queue",
        "max_age of queue `orders`: expected",
        "policy of queue `orders`",
        "metrics: `9464` is not an address",
        "admin: `localhost:9465` is not an address",
        "admin_token_file: expected `admin` too",
        "admin_hosts: `http://backstop.internal` is not the name of a host",
        "refresh: expected 1s to 1d",
        "lambda of queue `first`: `no function` is not a function",
        "http_proxy of queue `orders`: expected together with",
        "http_content_type of queue `orders`: `json` is not a content type",
        "max_attempts of queue `first`: expected",
        "--max-attempts: expected",
        "--queue-url: `orders` is not the URL of a queue",
        "--max-age: expected",
        "--policy",
        "--metrics: `9464` is not an address",
        "--admin: `localhost:9465` is not an address",
        "--admin-token-file: expected `admin` too",
        "--admin-hosts: `http://backstop.internal` is not the name of a host",
        "--refresh: expected 1s to 1d",
        "--lambda: `no function` is not a function",
        "--http-proxy: expected together with",
        "--http-content-type: `json` is not a content type",
        "--max-attempts: expected",
    ]) {
        assert!(error.starts_with(expected), "{error}");
    }
}

impl Backstop {
    /// A handler, unless there is one.
    fn handle_if_none(self) -> Self {
        let mut queues = self.raw.queues.values();
        if queues.any(|queue| queue.handler.is_some()) {
            return self;
        }
        self.handler(succeed)
    }
}

#[test]
fn two_queues_need_two_names_and_each_a_handler() {
    let twice = Backstop::queue("local:orders").handler(succeed);
    let twice = twice.and_queue("https://sqs.eu-west-1.amazonaws.com/1/orders");
    let error = twice.handler(succeed).into_config().unwrap_err();
    assert!(
        error.to_string().contains("two queues are called `orders`"),
        "{error}"
    );
    let none = Backstop::queue("local:orders").into_config().unwrap_err();
    let expected = "handler of queue `orders`: expected exactly one of";
    assert!(none.to_string().starts_with(expected), "{none}");
}

#[test]
fn the_queues_of_a_file_get_their_functions_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let text = "[queues.a]\nurl = \"local:a\"\n[queues.b]\nurl = \"local:b\"\nhandler = { exec = \"true\" }\n";
    std::fs::write(&path, text).unwrap();
    let host = || Backstop::from_file(&path).unwrap();
    let config = host().handler_of("a", succeed).into_config().unwrap();
    let [a, b] = config.queues.as_slice() else {
        panic!("{config:?}");
    };
    assert!(matches!(a.handler, HandlerConfig::Function(_)));
    assert!(matches!(b.handler, HandlerConfig::Exec(..)));
    let error = host().handler_of("c", succeed).into_config().unwrap_err();
    assert!(
        error.to_string().contains("there is no queue `c`"),
        "{error}"
    );
    let error = host().into_config().unwrap_err();
    assert!(
        error.to_string().contains(": queues.a.handler: expected"),
        "{error}"
    );
    assert!(Backstop::file_by_flags(&path).is_err());
}

#[tokio::test]
async fn several_queues_are_handled_by_functions_of_one_program() {
    let handled = Arc::new(AtomicU32::new(0));
    let count = |amount| {
        let handled = Arc::clone(&handled);
        move |_: Arc<Message>| {
            let handled = Arc::clone(&handled);
            async move {
                handled.fetch_add(amount, Ordering::Relaxed);
                Ok(())
            }
        }
    };
    let host = Backstop::queue("local:orders")
        .messages(["one", "two"])
        .handler(count(1));
    let host = host
        .and_queue("local:invoices")
        .messages(["three"])
        .handler(count(10));
    let ended = host.cache("off").run().await.unwrap();
    assert_eq!(handled.load(Ordering::Relaxed), 12);
    assert_eq!(ended.get("orders").unwrap().succeeded, 2);
    assert_eq!(ended.get("invoices").unwrap().succeeded, 1);
}

#[tokio::test]
async fn messages_are_for_queues_in_memory() {
    let host = Backstop::queue("http://127.0.0.1:9/1/orders").messages(["one"]);
    let error = host.handler(succeed).run().await.unwrap_err();
    assert!(matches!(error, RunError::NotLocal(_)), "{error}");
}
