use super::super::documented::expect_row;
use super::*;
use crate::queue::Connections;

const RETRIES: &str = "https://sqs.eu-west-1.amazonaws.com/1/retries";

/// A deployment without a fault.
const GOOD: [(&str, &str); 6] = [
    ("BACKSTOP_RETRY_QUEUE_URL", RETRIES),
    ("BACKSTOP_POLICY", "linear"),
    ("BACKSTOP_SETTINGS", "base=2s"),
    ("BACKSTOP_FUNCTIONS", "orders,invoices:live"),
    ("BACKSTOP_MAX_AGE", "3d"),
    ("LOG_LEVEL", "info"),
];

/// The verdicts and texts for the good environment with these variables over it.
async fn with(changes: &[(&str, &str)]) -> Vec<(Severity, String)> {
    let connections = Connections::default();
    let queue = connections.by_url("local:retries").await;
    let queue = Description {
        arn: "arn:aws:sqs:eu-west-1:1:retries".to_owned(),
        ..queue.describe().await.unwrap()
    };
    let pairs = GOOD.iter().chain(changes);
    let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let variables: BTreeMap<_, _> = pairs.collect();
    let deployed = Config::of_deployed(None, &variables);
    let mut findings = Findings::about("handler retry");
    let environment = Environment {
        handler: "arn:aws:lambda:eu-west-1:1:function:retry",
        variables: &variables,
        deployed: &deployed,
        has_file: false,
        retry_queue: Some(&queue),
        functions: &["orders".to_owned()],
    };
    check(&mut findings, &environment);
    let found = findings.found.into_iter();
    found.map(|it| (it.severity, it.text)).collect()
}

#[tokio::test]
async fn a_valid_environment_is_good_and_the_package_is_not_claimed_to_be() {
    let found = with(&[]).await;
    assert_eq!((found.len(), found[0].0), (1, Good), "{found:?}");
    let said = "has 5 settings, and all are valid; a backstop.toml in its package or a layer is not checked";
    assert!(found[0].1.contains(said), "{found:?}");
}

#[tokio::test]
async fn each_mistake_is_found_by_name_with_what_to_set() {
    for (name, value, severity, advice) in [
        (
            "BACKSTOP_MAX_AGE",
            "soon",
            Wrong,
            "does not start: BACKSTOP_MAX_AGE: ",
        ),
        (
            "BACKSTOP_MAX_ATTEMPTS",
            "0",
            Wrong,
            "BACKSTOP_MAX_ATTEMPTS: expected a whole number from 1 to 4294967295",
        ),
        (
            "BACKSTOP_POLICY",
            "full-jiter",
            Wrong,
            "does not start: BACKSTOP_POLICY: ",
        ),
        (
            "BACKSTOP_MAXATTEMPTS",
            "5",
            Warning,
            "ignores the variable BACKSTOP_MAXATTEMPTS: the setting is BACKSTOP_MAX_ATTEMPTS",
        ),
        (
            "BACKSTOP_PROFILE",
            "5",
            Warning,
            "BACKSTOP_PROFILE, which is no setting",
        ),
        (
            "BACKTSOP_MARGIN",
            "5s",
            Warning,
            "the setting is BACKSTOP_MARGIN",
        ),
        (
            "BACKSTOP_RETRY_QUEUE_URL",
            "https://sqs.eu-west-1.amazonaws.com/1/retires",
            Wrong,
            "reads from arn:aws:sqs:eu-west-1:1:retries",
        ),
        (
            "BACKSTOP_RETRY_QUEUE_URL",
            "https://sqs.eu-west-2.amazonaws.com/1/retries",
            Wrong,
            "reads from arn",
        ),
        (
            "BACKSTOP_FUNCTIONS",
            "invoices",
            Wrong,
            "does not have orders",
        ),
        (
            "BACKSTOP_FUNCTIONS",
            "orders:live",
            Wrong,
            "does not have orders",
        ),
        (
            "BACKSTOP_FUNCTIONS",
            "orders,retry",
            Wrong,
            "names the handler itself",
        ),
        (
            "BACKSTOP_DECISIONS",
            "decisions.jsonl",
            Wrong,
            "BACKSTOP_DECISIONS is /var/task/decisions.jsonl",
        ),
        (
            "BACKSTOP_CACHE",
            "cache",
            Wrong,
            "BACKSTOP_CACHE is /var/task/cache",
        ),
        (
            "BACKSTOP_CONFIG",
            "my.toml",
            Unknown,
            "not checked: the file my.toml",
        ),
        (
            "BACKSTOP_ENVELOPE_KEY_FILE",
            "keys",
            Unknown,
            "not checked: the file keys",
        ),
    ] {
        let found = with(&[(name, value)]).await;
        assert_eq!(found.len(), 1, "{name}={value}: {found:?}");
        expect_row(severity, &found[0].1);
        assert!(
            found[0].0 == severity && found[0].1.contains(advice),
            "{name}={value}: {found:?}"
        );
    }
}

#[tokio::test]
async fn what_is_right_in_another_spelling_is_right() {
    for (name, value) in [
        (
            "BACKSTOP_RETRY_QUEUE_URL",
            "http://127.0.0.1:4566/1/retries",
        ),
        (
            "BACKSTOP_RETRY_QUEUE_URL",
            "https://eu-west-1.queue.amazonaws.com/1/retries",
        ),
        (
            "BACKSTOP_FUNCTIONS",
            "arn:aws:lambda:eu-west-1:1:function:orders",
        ),
        ("BACKSTOP_FUNCTIONS", ""),
        ("BACKSTOP_DECISIONS", "stdout"),
        ("BACKSTOP_DECISIONS", "/tmp/decisions.jsonl"),
        ("BACKSTOP_CACHE", "off"),
        ("BACKSTOP_CACHE", "/mnt/cache"),
    ] {
        let found = with(&[(name, value)]).await;
        assert!(
            found.len() == 1 && found[0].0 == Good,
            "{name}={value}: {found:?}"
        );
    }
}

#[tokio::test]
async fn all_mistakes_are_found_at_once() {
    let found = with(&[
        ("BACKSTOP_MAX_AGE", "soon"),
        ("BACKSTOP_HOLD", "later"),
        ("BACKSTOP_MARGINS", "5s"),
        ("BACKSTOP_FUNCTIONS", "invoices"),
        ("BACKSTOP_DECISIONS", "decisions.jsonl"),
    ])
    .await;
    assert_eq!(found.len(), 5, "{found:?}");
}
