use std::num::NonZeroU32;
use std::time::Duration;

use super::*;
use crate::decision::Bounds;
use crate::failure::Milliseconds;
use crate::handler::ContentType;
use crate::hold::HoldMode;
use crate::maintenance::Window;
use crate::policy::{PartSpec, Parts, PolicySpec, Source};
use crate::queue::VisibilityTimeout;
use crate::record::Rotation;
use backstop_core::backoff::Backoff;
use backstop_core::breaker::BreakerSettings;
use backstop_core::settings::Settings;

const ORDERS: &str = r#"
[queues.orders]
url = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
handler = { http = "http://127.0.0.1:8080/" }
"#;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/backstop/backstop.toml"))
}

fn rejection(text: &str) -> String {
    format!("{:#}", anyhow::Error::from(parse(text).unwrap_err()))
}

#[test]
fn a_queue_needs_a_url_and_a_handler_and_has_defaults_for_the_rest() {
    let config = parse(ORDERS).unwrap();
    assert_eq!(
        (config.limits, config.decisions, config.endpoint_url),
        (Limits::default(), None, None)
    );
    let [queue] = config.queues.as_slice() else {
        panic!("one queue")
    };
    assert_eq!(queue.name, "orders");
    assert_eq!(
        queue.decider.policy,
        PolicySpec::from(Source::builtin("full-jitter"))
    );
    assert_eq!(
        (queue.decider.bounds, &queue.options),
        (Bounds::default(), &Options::default())
    );
}

/// One key of each kind. That every key is read is tested with the example of `configuration.md`.
#[test]
fn values_are_read_in_their_units() {
    let config = parse(
        r#"
        endpoint-url = "http://127.0.0.1:4566"
        admin = "[::1]:9465"
        admin-token-file = "token"
        decisions = { record = "decisions.jsonl", records = "all" }
        limits = { fuel = 1000, time = "1s", memory = "16MiB", log = "1KiB", strings = 4096 }

        [queues.orders]
        url = "local:orders"
        dead-letter-queue = "local:dead"
        handler = { exec = ["./work.sh", "--fast"] }
        policy = "orders.wasm"
        settings = { base = "2s", max-attempts = 5, respect-retry-after = false, permanent = ["BadOrder", "HTTP 4*"], transient = [] }
        max-attempts = 9
        max-age = "3d"
        allow-discard = false
        max-in-flight = 7
        max-polls = 3
idle-poll = "20s"
depth-poll = "1m"
rate = "50/m"
pause = [{ at = "0 2 * * SUN", zone = "Europe/Berlin", for = "2h", why = "inventory" }]
breaker = { by = "attribute:tenant", minimum = 3, after = "9s", longest-pause = "2s" }
limit-each = { by = "/tenant", rate = "20/s", max-in-flight = 5 }
        hold = "resend"
        envelope-key-file = "keys"
        max-bytes-in-flight = "32MiB"
        visibility-timeout = "45s"
        attempt-timeout = "1m"
        linger = "20ms"
        grace = "5s"
        "#,
    )
    .unwrap();
    let admin = config.admin.unwrap();
    assert_eq!(admin.address, "[::1]:9465".parse().unwrap());
    assert_eq!(admin.token_file, Some("/etc/backstop/token".into()));
    assert_eq!(
        config.decisions,
        Some(Destination::File {
            path: "/etc/backstop/decisions.jsonl".into(),
            rotation: Rotation::default(),
        })
    );
    assert_eq!(config.recorded, crate::record::Recorded::All);
    assert_eq!(
        (config.limits.fuel, config.limits.memory, config.limits.log),
        (1_000, 16 << 20, 1 << 10)
    );
    let queue = config.queues.first().unwrap();
    let settings = [
        ("base", "2s"),
        ("max-attempts", "5"),
        ("permanent", "BadOrder,HTTP 4*"),
        ("respect-retry-after", "false"),
        ("transient", ""),
    ];
    let expected = PolicySpec::Single(PartSpec {
        source: Source::path("/etc/backstop/orders.wasm"),
        settings: settings.into(),
    });
    assert_eq!(queue.decider.policy, expected);
    assert_eq!(
        queue.handler,
        HandlerConfig::Exec(
            "/etc/backstop/./work.sh".to_owned(),
            vec!["--fast".to_owned()]
        )
    );
    assert_eq!(
        queue.decider.bounds.max_attempts.map(NonZeroU32::get),
        Some(9)
    );
    assert_eq!(
        queue.decider.bounds.max_age,
        Some(Milliseconds(259_200_000))
    );
    assert!(!queue.decider.bounds.allow_discard);
    #[allow(clippy::needless_update, reason = "a new key needs no line here")]
    let options = Options {
        max_in_flight: 7,
        max_polls: 3,
        idle_poll: Duration::from_secs(20),
        depth_poll: Duration::from_secs(60),
        rate: Some("50/m".parse().unwrap()),
        pause: vec![
            Window::new(
                "0 2 * * SUN",
                "Europe/Berlin",
                Duration::from_secs(7_200),
                Some("inventory".to_owned()),
            )
            .unwrap(),
        ],
        breaker: Some(BreakerOptions {
            by: InCommon::Attribute("tenant".to_owned()),
            settings: BreakerSettings::default()
                .minimum(3)
                .shortest_outage(Duration::from_secs(9))
                .pauses(Backoff::milliseconds(2_000, 2_000))
                .most(7),
        }),
        limit_each: Some(EachOptions {
            by: InCommon::Pointer("/tenant".to_owned()),
            rate: Some("20/s".parse().unwrap()),
            max_in_flight: Some(5),
        }),
        hold: HoldMode::Resend,
        envelope_key_file: Some("/etc/backstop/keys".into()),
        max_bytes_in_flight: 32 << 20,
        visibility_timeout: Some(VisibilityTimeout::rounded_up(Duration::from_secs(45))),
        attempt_timeout: Duration::from_secs(60),
        linger: Duration::from_millis(20),
        grace: Duration::from_secs(5),
        ..Options::default()
    };
    assert_eq!(queue.options, options);
}

#[test]
fn each_class_may_have_a_dead_letter_queue_of_its_own() {
    let of = |value: &str| parse(&format!("{ORDERS}dead-letter-queue = {value}\n"));
    let queues = |value: &str| {
        let config = of(value).unwrap();
        config.queues.first().unwrap().dead_letter_queues.clone()
    };
    assert_eq!(
        queues(r#"{ permanent = "local:invalid", cart = "local:carts", default = "local:dead" }"#),
        DeadLetterQueues::from(Some("local:dead"))
            .with("permanent", "local:invalid")
            .with("cart", "local:carts")
    );
    assert_eq!(
        queues(r#"{ permanent = "local:invalid" }"#).default,
        None,
        "that of the redrive policy"
    );
    let same =
        queues(r#"{ a = "local:dead", b = "local:b", c = "local:b", default = "local:dead" }"#);
    assert_eq!(same.urls().collect::<Vec<_>>(), ["local:dead", "local:b"]);
    for (value, expected) in [
        ("{}", "queues.orders.dead-letter-queue: names no queue"),
        (
            r#"{ permanent = "invalid" }"#,
            "queues.orders.dead-letter-queue.permanent: `invalid` is not the URL of a queue",
        ),
        (r#"{ "" = "local:x" }"#, "a class has no name"),
        ("5", "the URL of a queue, or a table of URLs by class"),
        ("{ permanent = 5 }", "expected a text in quotes"),
    ] {
        let error = format!("{:#}", anyhow::Error::from(of(value).unwrap_err()));
        assert!(error.contains(expected), "{value}: {error}");
    }
}

#[test]
fn only_an_http_handler_has_a_proxy_a_content_type_and_a_health_path() {
    let of = |handler: &str| {
        let config = format!("[queues.orders]\nurl = \"local:orders\"\nhandler = {handler}\n");
        parse(&config)
    };
    let config = of(
        r#"{ http = "http://worker:8080/", proxy = "http://proxy.internal:3128", content-type = "text/plain", health = "/healthz" }"#,
    )
    .unwrap();
    assert_eq!(
        config.queues.first().unwrap().handler,
        HandlerConfig::Http(HttpOptions {
            url: "http://worker:8080/".to_owned(),
            proxy: Some("http://proxy.internal:3128".to_owned()),
            content_type: ContentType::parse("text/plain").unwrap(),
            health: Some("/healthz".to_owned()),
        })
    );
    for (handler, message) in [
        (
            r#"{ exec = "cat", proxy = "http://proxy.internal:3128" }"#,
            "line 3, column 27: queues.orders.handler.proxy: expected together with `http` only: no other handler has a proxy",
        ),
        (
            r#"{ exec = "cat", content-type = "text/plain" }"#,
            "line 3, column 27: queues.orders.handler.content-type: expected together with `http` only: no other handler has a content type",
        ),
        (
            r#"{ exec = "cat", health = "/healthz" }"#,
            "line 3, column 27: queues.orders.handler.health: expected together with `http` only: no other handler has a health path",
        ),
        (
            r#"{ http = "http://worker:8080/", content-type = "json" }"#,
            "line 3, column 43: queues.orders.handler.content-type: `json` is not a content type: expected one such as application/json or text/plain; charset=utf-8",
        ),
        (
            r#"{ http = "http://worker:8080/", content-type = "text/plain\nhost: x" }"#,
            "line 3, column 43: queues.orders.handler.content-type: `text/plain\nhost: x` is not a content type: expected one such as application/json or text/plain; charset=utf-8",
        ),
    ] {
        let error = of(handler).unwrap_err().to_string();
        assert_eq!(error, format!("/etc/backstop/backstop.toml: {message}"));
    }
}

#[test]
fn a_composed_policy_has_parts_with_their_own_settings() {
    let config = parse(&format!(
        "{ORDERS}policy = {{ classifier = \"./c.wasm\", backoff = {{ use = \"linear\", settings = {{ base = \"2s\" }} }} }}"
    ))
    .unwrap();
    let expected = PolicySpec::Composed(Parts {
        classifier: Some(PartSpec {
            source: Source::path("/etc/backstop/./c.wasm"),
            settings: Settings::new(),
        }),
        backoff: Some(PartSpec {
            source: Source::builtin("linear"),
            settings: [("base", "2s")].into(),
        }),
        dead_lettering: None,
        outage: None,
    });
    assert_eq!(config.queues.first().unwrap().decider.policy, expected);
}

#[test]
fn an_invalid_value_is_rejected_with_its_key_and_what_is_expected() {
    for (line, parts) in [
        (
            "max-age = \"0s\"",
            &["queues.orders.max-age", "expected 1ms to 14d"][..],
        ),
        (
            "max-age = \"15d\"",
            &["queues.orders.max-age", "expected 1ms to 14d"],
        ),
        (
            "max-attempts = 0",
            &["queues.orders.max-attempts", "from 1"],
        ),
        (
            "max-in-flight = 0",
            &["queues.orders.max-in-flight", "1 to 100000"],
        ),
        (
            "visibility-timeout = \"13h\"",
            &["queues.orders.visibility-timeout", "1s to 12h"],
        ),
        (
            "attempt-timeout = \"13h\"",
            &["queues.orders.attempt-timeout", "1s to 12h"],
        ),
        (
            "attempt-timeout = \"0s\"",
            &["queues.orders.attempt-timeout", "1s to 12h"],
        ),
        ("linger = \"1m\"", &["queues.orders.linger", "at most 5s"]),
        (
            "visibility-timeout = \"2s\"\nlinger = \"1s\"",
            &["queues.orders.linger", "a third of visibility-timeout"],
        ),
        (
            "grace = 5",
            &["backstop.toml", "line 5", "a duration with its unit"],
        ),
        (
            "grace = \"5\"",
            &["line 5", "not the text \"5\"", "a duration with its unit"],
        ),
        ("gracious = \"5s\"", &["line 5", "unknown key `gracious`"]),
        (
            "policy = \"ful-jitter\"",
            &[
                "queues.orders.policy",
                "no built-in policy `ful-jitter`",
                "full-jitter",
            ],
        ),
        ("policy = 5", &["line 5", "a policy's name or path"]),
        (
            "policy = {}",
            &["queues.orders.policy", "at least one of `classifier`"],
        ),
        (
            "policy = { clasifier = \"linear\" }",
            &["line 5", "unknown key `clasifier`"],
        ),
        (
            "settings = { base = {} }",
            &[
                "line 5",
                "a text, a number, true or false, or a list of texts",
            ],
        ),
        (
            "policy = { backoff = \"linear\" }\nsettings = { base = \"1s\" }",
            &["queues.orders.settings", "each part"],
        ),
        (
            "dead-letter-queue = \"orders-dlq\"",
            &["queues.orders.dead-letter-queue", "not the URL of a queue"],
        ),
        ("[limits]\nmemory = \"64MB\"", &["line 6", "64MiB"]),
        (
            "[limits]\nmemory = \"5GiB\"",
            &["limits.memory", "at most 4GiB"],
        ),
        (
            "[queues.b]\nurl = \"local:b\"\nhandler = {}",
            &["queues.b.handler", "exactly one of"],
        ),
        (
            "[queues.b]\nurl = \"local:b\"\nhandler = { exec = [] }",
            &["queues.b.handler.exec", "expected a program"],
        ),
        (
            "[queues.b]\nurl = \"local:b\"",
            &["line 5", "the key `handler` is missing"],
        ),
        (
            "[queues.b]\nurl = \"local:\"\nhandler = { lambda = \"f\" }",
            &["queues.b.url", "not the URL of a queue"],
        ),
    ] {
        let rejection = rejection(&format!("{ORDERS}{line}"));
        for part in parts {
            assert!(
                rejection.contains(part),
                "{line}: {part:?} is not in: {rejection}"
            );
        }
    }
}

#[test]
fn a_configuration_without_queues_is_rejected() {
    assert!(rejection("").contains("[queues.orders]"));
}

#[test]
fn each_limit_of_the_compiling_child_is_set_on_its_own() {
    let with = |table: &str| parse(&format!("limits.compile = {table}\n{ORDERS}"));
    let limits = with(r#"{ time = "90s", memory = "512MiB" }"#)
        .unwrap()
        .limits;
    let defaults = Limits::default();
    assert_eq!(limits.compile.time, Duration::from_secs(90));
    assert_eq!(limits.compile.memory, 512 << 20);
    assert_eq!(limits.compile.cpu, defaults.compile.cpu);
    for none in [r#"{ time = "0s" }"#, r#"{ cpu = "0s" }"#, "{ memory = 0 }"] {
        let rejected = with(none).unwrap_err().to_string();
        assert!(
            rejected.contains("limits.compile: expected values above zero"),
            "{rejected}"
        );
    }
    assert!(with(r#"{ times = "9s" }"#).is_err());
}

#[test]
fn an_invalid_value_is_named_with_its_file_and_line() {
    let text = format!("admin = \"odd\"\n{ORDERS}");
    let rejected = parse(&text).unwrap_err().to_string();
    assert!(
        rejected.contains("backstop.toml: line 1, column 1: admin: `odd`"),
        "{rejected}"
    );
    let text = format!("{ORDERS}\nmax-attempts = 0\n");
    let line = text.lines().count();
    let rejected = parse(&text).unwrap_err().to_string();
    let expected = format!("line {line}, column 1: queues.orders.max-attempts: expected");
    assert!(rejected.contains(&expected), "{rejected}");
    // What overrides the file is not in it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    std::fs::write(&path, format!("admin = \"127.0.0.1:9465\"\n{ORDERS}")).unwrap();
    let host = crate::Backstop::file_by_flags(&path).unwrap();
    let rejected = host.admin("odd").into_config().unwrap_err().to_string();
    assert!(rejected.starts_with("--admin: `odd`"), "{rejected}");
}

#[test]
fn the_former_spelling_of_rollback_is_a_mistake_that_names_the_right_key() {
    let with = |key: &str| {
        parse(&format!(
            "policies = {{ {key} = {{ broken = 0 }} }}\n{ORDERS}"
        ))
    };
    assert_eq!(with("rollback").unwrap().policies.roll_back.broken, 0);
    let rejected = with("roll-back").unwrap_err().to_string();
    assert!(
        rejected.contains("`roll-back`") && rejected.contains("`rollback`"),
        "{rejected}"
    );
}

#[test]
fn a_policy_is_signed_for_a_name_only_together_with_keys() {
    let keys = "[policies]\nrequire-signature = [\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]\n";
    let queue = |name: &str| format!("{ORDERS}signed-for = \"{name}\"\n");
    let config = parse(&format!("{}{keys}", queue("team/orders"))).unwrap();
    let names: Vec<_> = config.deciders().map(|(_, it)| &it.signed_for).collect();
    assert_eq!(names, [&Some("team/orders".to_owned())]);
    for (text, expected) in [
        (
            queue("orders"),
            "queues.orders.signed-for: expected together with `policies.require-signature`",
        ),
        (
            "[lambda]\nsigned-for = \"orders\"\n".to_owned(),
            "lambda.signed-for: expected together with",
        ),
        (
            format!("{}{keys}", queue("")),
            "queues.orders.signed-for: `` is not the name of a policy",
        ),
        (
            format!("{}{keys}", queue("a b")),
            "`a b` is not the name of a policy: expected 1 to 100 letters",
        ),
    ] {
        let found = rejection(&text);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn servers_that_may_get_credentials_are_read() {
    let text =
        format!("{ORDERS}[policies]\ntoken-servers = [\"auth.internal\", \"10.0.0.7:8443\"]\n");
    let registries = parse(&text).unwrap().policies.registries;
    assert_eq!(registries.token_servers, ["auth.internal", "10.0.0.7:8443"]);
}

#[cfg(feature = "idempotency")]
#[test]
fn ids_that_are_idempotency_keys_need_keys_of_envelopes_or_messages_that_are_not_sent_again() {
    let hold = |more: &str| {
        let config = parse(&format!("{ORDERS}{more}\n"));
        config.map(|config| config.queues.first().unwrap().options.hold)
    };
    let by_id = "idempotency = { table = \"t\" }\n";
    let by_key = "idempotency = { table = \"t\", key = \"/id\" }\n";
    let resend = "hold = \"resend\"\n";
    let keys = "envelope-key-file = \"keys\"\n";
    assert_eq!(hold(by_id).unwrap(), HoldMode::Visibility);
    assert_eq!(hold(by_key).unwrap(), HoldMode::Auto);
    assert_eq!(hold(&format!("{by_id}{keys}")).unwrap(), HoldMode::Auto);
    assert_eq!(
        hold(&format!("{by_id}{resend}{keys}")).unwrap(),
        HoldMode::Resend
    );
    let error = hold(&format!("{by_id}{resend}")).unwrap_err().to_string();
    for part in ["queues.orders.idempotency", "`key`", "`envelope-key-file`"] {
        assert!(error.contains(part), "{error}");
    }
}

/// The default that an entry of the list has is the one that the code has.
#[test]
fn the_default_of_every_key_is_the_one_of_the_code() {
    let queue = "[queues.q]\nurl = \"local:q\"\n";
    let handled = format!("{queue}handler = {{ exec = \"true\" }}\n");
    let mut checked = 0;
    for key in keys().filter(|key| !key.default.is_empty()) {
        let before = match key.table {
            "queues.NAME" => handled.clone(),
            "queues.NAME.handler" => {
                format!("{queue}[queues.q.handler]\nhttp = \"http://127.0.0.1:1/\"\n")
            }
            "queues.NAME.breaker" => format!("{handled}[queues.q.breaker]\nby = \"queue\"\n"),
            "queues.NAME.idempotency" if cfg!(not(feature = "idempotency")) => continue,
            "queues.NAME.idempotency" => {
                format!("{handled}[queues.q.idempotency]\ntable = \"t\"\n")
            }
            "lambda" => "[lambda]\n".to_owned(),
            "decisions" => format!("{handled}[decisions]\nrecord = \"d.jsonl\"\n"),
            table => format!("{handled}[{table}]\n"),
        };
        let parsed = |text: &str| Config::parse(text, Path::new("backstop.toml")).unwrap();
        let (name, default) = (key.name(), key.default);
        let is_boolean = ["true", "false"].contains(&default);
        let is_bare = is_boolean || default.bytes().all(|byte| byte.is_ascii_digit());
        let value = if is_bare {
            default.to_owned()
        } else {
            format!("{default:?}")
        };
        let with = parsed(&format!("{before}{name} = {value}\n"));
        assert_eq!(with, parsed(&before), "{}.{name}", key.table);
        checked += 1;
    }
    assert!(checked > 25, "{checked}");
}

/// A name that is on the list twice would make one of the two unreachable.
#[test]
fn every_flag_and_every_method_sets_one_key() {
    let flags: Vec<_> = keys().filter_map(|key| Some(key.flag?.name)).collect();
    let methods: Vec<_> = keys()
        .map(|key| key.method)
        .filter(|it| !it.is_empty())
        .collect();
    for names in [flags, methods] {
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
    for key in keys().filter(|key| key.flag.is_some()) {
        let refused = key.check("1s").err().unwrap_or_default();
        assert!(!refused.contains("has no text"), "{key:?}");
    }
}

/// Sets a flag of a host with the file `folder/backstop.toml`.
fn with_flag(folder: &Path, flag: &str, texts: &[&str]) -> Result<Config, String> {
    let path = folder.join("backstop.toml");
    std::fs::write(&path, format!("admin = \"0.0.0.0:9465\"\n{ORDERS}")).unwrap();
    let host = crate::Backstop::file_by_flags(&path).unwrap();
    let key = keys().find(|key| key.flag.is_some_and(|it| it.name == flag));
    let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
    let host = key.unwrap().apply(host, &texts)?;
    Ok(host.into_config().unwrap())
}

#[test]
fn the_path_of_a_flag_is_one_of_the_working_directory_and_not_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let config = with_flag(folder.path(), "admin-token-file", &["token"]).unwrap();
    let found = format!("{:?}", config.admin.unwrap());
    let expected = std::env::current_dir().unwrap().join("token");
    assert!(found.contains(&format!("{expected:?}")), "{found}");
}

#[test]
fn a_flag_with_two_dead_letter_queues_for_a_class_is_refused_as_a_variable_is() {
    let folder = tempfile::tempdir().unwrap();
    let of = |texts: &[&str]| with_flag(folder.path(), "dead-letter-queue", texts);
    let queues = of(&["local:a", "permanent=local:b"]).unwrap().queues;
    let queues = &queues.first().unwrap().dead_letter_queues;
    assert_eq!(queues.of(Some("permanent")), Some("local:b"));
    assert_eq!(queues.of(None), Some("local:a"));
    let expected = "--dead-letter-queue: names two queues for the class `default`: expected one";
    assert_eq!(of(&["local:a", "default=local:b"]).unwrap_err(), expected);
}
