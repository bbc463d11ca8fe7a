use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;

use super::*;
use crate::policy::{PartSpec, PolicySpec, Source};
use backstop_core::settings::Settings;

fn config(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    Config::of_lambda(&|name| variables.get(name).map(|value| (*value).to_owned()))
}

fn lambda(variables: &[(&str, &str)]) -> LambdaConfig {
    config(variables).unwrap().lambda.unwrap()
}

fn part(policy: &PolicySpec) -> &PartSpec {
    match policy {
        PolicySpec::Single(part) => part,
        PolicySpec::Composed(_) => panic!("in parts"),
    }
}

#[test]
fn nothing_needs_to_be_set() {
    assert_eq!(config(&[]).unwrap().limits.time, TIME);
    let lambda = lambda(&[]);
    assert_eq!(
        lambda.decider.bounds.max_attempts,
        Some(UNHINDERED_ATTEMPTS)
    );
    assert_eq!(lambda.decider.bounds.max_age, Some(LONGEST_DELAY));
    assert_eq!(
        part(&lambda.decider.policy).source,
        Source::builtin("full-jitter")
    );
    assert_eq!(lambda.margin, Duration::from_secs(5));
    assert!(!lambda.metrics);
}

#[test]
fn the_environment_overrides_the_file_of_the_package() {
    let package = tempfile::tempdir().unwrap();
    let root = package.path().to_str().unwrap();
    fs::write(package.path().join("mine.wasm"), "").unwrap();
    fs::write(
        package.path().join("backstop.toml"),
        r#"
        [lambda]
        retry-queue = "https://sqs.eu-west-1.amazonaws.com/1/retries"
        policy = "mine.wasm"
        settings = { a = 1 }
        max-attempts = 5
        max-age = "3d"
        margin = "2s"
        functions = ["orders"]
        "#,
    )
    .unwrap();
    let root = ("LAMBDA_TASK_ROOT", root);
    let of_file = lambda(&[root]);
    let path = package.path().join("mine.wasm");
    assert_eq!(part(&of_file.decider.policy).source, Source::path(path));
    assert_eq!(
        part(&of_file.decider.policy).settings,
        Settings::from([("a", "1")])
    );
    assert_eq!(of_file.decider.bounds.max_attempts.unwrap().get(), 5);
    assert_eq!(
        (of_file.margin, of_file.functions.len()),
        (Duration::from_secs(2), 1)
    );

    let both = lambda(&[
        root,
        ("BACKSTOP_POLICY", "linear"),
        (
            "BACKSTOP_SETTINGS",
            "base=30s, permanent=CardDeclined, HTTP 4*, cap=6h",
        ),
        ("BACKSTOP_MAX_ATTEMPTS", "20"),
        ("BACKSTOP_MAX_AGE", "12h"),
        ("BACKSTOP_ALLOW_DISCARD", "false"),
        (
            "BACKSTOP_DEAD_LETTER_QUEUE_URL",
            "https://sqs.eu-west-1.amazonaws.com/1/dead, permanent=local:invalid",
        ),
        ("BACKSTOP_FUNCTIONS", "a, b"),
        ("AWS_LAMBDA_FUNCTION_NAME", "retry-handler"),
    ]);
    assert_eq!(part(&both.decider.policy).source, Source::builtin("linear"));
    let settings = Settings::from([
        ("base", "30s"),
        ("permanent", "CardDeclined,HTTP 4*"),
        ("cap", "6h"),
    ]);
    assert_eq!(part(&both.decider.policy).settings, settings);
    assert_eq!(both.decider.bounds.max_attempts.unwrap().get(), 20);
    assert!(of_file.decider.bounds.allow_discard && !both.decider.bounds.allow_discard);
    assert_eq!(
        both.decider.bounds.max_age.unwrap().as_duration(),
        Duration::from_secs(43_200)
    );
    assert!(both.retry_queue.unwrap().ends_with("/retries"));
    let dead_letters = Some("https://sqs.eu-west-1.amazonaws.com/1/dead");
    assert_eq!(
        both.dead_letter_queues,
        DeadLetterQueues::from(dead_letters).with("permanent", "local:invalid")
    );
    assert_eq!(
        (both.functions.len(), both.handler.as_deref()),
        (2, Some("retry-handler"))
    );
    // The file's settings belong to the file's policy.
    let other = lambda(&[root, ("BACKSTOP_POLICY", "linear")]);
    assert_eq!(part(&other.decider.policy).settings, Settings::new());
}

#[test]
fn a_policy_in_the_package_is_found_if_the_file_is_elsewhere() {
    let (package, layer) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = package.path().join("mine.wasm");
    fs::write(&path, "").unwrap();
    let file = layer.path().join("backstop.toml");
    fs::write(&file, "[lambda]\npolicy = \"mine.wasm\"").unwrap();
    let root = ("LAMBDA_TASK_ROOT", package.path().to_str().unwrap());
    let config = ("BACKSTOP_CONFIG", file.to_str().unwrap());
    assert_eq!(
        part(&lambda(&[root, config]).decider.policy).source,
        Source::path(path)
    );
}

#[test]
fn an_invalid_value_is_rejected_by_its_name() {
    let fifo = "https://sqs.eu-west-1.amazonaws.com/1/retries.fifo";
    for (name, value, expected) in [
        (
            "BACKSTOP_RETRY_QUEUE_URL",
            fifo,
            "BACKSTOP_RETRY_QUEUE_URL: expected a standard queue",
        ),
        (
            "BACKSTOP_RETRY_QUEUE_URL",
            "retries",
            "BACKSTOP_RETRY_QUEUE_URL: `retries` is not the URL",
        ),
        (
            "BACKSTOP_DEAD_LETTER_QUEUE_URL",
            fifo,
            "BACKSTOP_DEAD_LETTER_QUEUE_URL: expected a standard",
        ),
        (
            "BACKSTOP_DEAD_LETTER_QUEUE_URL",
            "permanent=dead",
            "BACKSTOP_DEAD_LETTER_QUEUE_URL permanent: `dead` is not the URL",
        ),
        (
            "BACKSTOP_DEAD_LETTER_QUEUE_URL",
            "local:a,default=local:b",
            "BACKSTOP_DEAD_LETTER_QUEUE_URL: names two queues for the class `default`",
        ),
        (
            "BACKSTOP_DEAD_LETTER_QUEUE_URL",
            "=local:b",
            "BACKSTOP_DEAD_LETTER_QUEUE_URL: `=local:b` names no class",
        ),
        (
            "BACKSTOP_MAX_ATTEMPTS",
            "0",
            "BACKSTOP_MAX_ATTEMPTS: expected a whole number from 1 to 4294967295",
        ),
        (
            "BACKSTOP_MAX_ATTEMPTS",
            "many",
            "BACKSTOP_MAX_ATTEMPTS: expected a whole number from 1",
        ),
        (
            "BACKSTOP_MAX_AGE",
            "15d",
            "BACKSTOP_MAX_AGE: expected 1ms to 14d",
        ),
        ("BACKSTOP_MAX_AGE", "soon", "BACKSTOP_MAX_AGE"),
        (
            "BACKSTOP_ALLOW_DISCARD",
            "no",
            "BACKSTOP_ALLOW_DISCARD: `no` is neither true nor false",
        ),
        (
            "BACKSTOP_FUNCTIONS",
            " , ",
            "BACKSTOP_FUNCTIONS: names no function",
        ),
        (
            "BACKSTOP_MARGIN",
            "0s",
            "BACKSTOP_MARGIN: expected 1s to 60s",
        ),
        (
            "BACKSTOP_SETTINGS",
            "base",
            "BACKSTOP_SETTINGS: `base` is not a setting",
        ),
        ("BACKSTOP_POLICY", "fulljitter", "BACKSTOP_POLICY"),
        (
            "BACKSTOP_FUNCTIONS",
            "orders, arn:aws:sqs:eu-west-1:1:orders",
            "BACKSTOP_FUNCTIONS: `arn:aws:sqs:eu-west-1:1:orders` is not a function: expected a name or an ARN",
        ),
        (
            "BACKSTOP_CONFIG",
            "/no/such/file.toml",
            "can't read the configuration",
        ),
    ] {
        let error = config(&[(name, value)]).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{name}: {error}");
    }
    // An empty variable counts as unset: templates produce them.
    assert_eq!(
        lambda(&[("BACKSTOP_MAX_AGE", ""), ("BACKSTOP_POLICY", "")]),
        lambda(&[])
    );
}

#[test]
fn an_unknown_variable_is_recognised() {
    let set = [
        "BACKSTOP_POLICY",
        "BACKSTOP_POLICI",
        "backstop_policy",
        "BACKSTOP",
        "AWS_REGION",
        "PATH",
    ];
    let unknown = unknown_variables(set.map(str::to_owned));
    assert_eq!(unknown, ["BACKSTOP_POLICI", "BACKSTOP"]);
    for name in variables() {
        // An empty one counts as unset: every name is known, whatever value it expects.
        assert!(config(&[(name, " ")]).is_ok(), "{name}");
    }
    let read = RefCell::new(BTreeSet::new());
    let variable = |name: &str| {
        read.borrow_mut().insert(name.to_owned());
        None
    };
    Config::of_lambda(&variable).unwrap();
    assert_eq!(unknown_variables(read.into_inner()), [""; 0]);
}

#[test]
fn a_shadow_has_the_live_settings_unless_it_has_its_own() {
    let package = tempfile::tempdir().unwrap();
    let root = package.path().to_str().unwrap();
    fs::write(package.path().join("mine.wasm"), "").unwrap();
    let variables = [
        ("LAMBDA_TASK_ROOT", root),
        ("BACKSTOP_SETTINGS", "base=1s"),
        ("BACKSTOP_SHADOW", "mine.wasm"),
        ("BACKSTOP_SHADOW_SETTINGS", "base=2s"),
    ];
    for (set, expected) in [(3, "1s"), (4, "2s")] {
        let shadow = lambda(&variables[..set]).decider.shadow.unwrap();
        let path = package.path().join("mine.wasm");
        assert_eq!(part(&shadow).source, Source::path(path));
        let settings = Settings::from([("base", expected)]);
        assert_eq!(part(&shadow).settings, settings);
    }
    assert_eq!(lambda(&variables[..2]).decider.shadow, None);
}

#[test]
fn a_function_compiles_within_three_quarters_of_its_memory_by_default() {
    let default = crate::policy::Limits::default().compile.memory;
    for (mebibytes, memory) in [
        ("128", 96 << 20),
        ("1024", 768 << 20),
        ("10240", default),
        ("some", default),
    ] {
        let config = config(&[("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", mebibytes)]).unwrap();
        assert_eq!(config.limits.compile.memory, memory, "{mebibytes}");
    }
}
