//! The settings `permanent`, `transient` and `throttled` of the compiled built-in policies.

use backstop_core::policy::{NAMES, PolicyError, SettingsError, by_name};
use backstop_tests::backstop::{run, text};
use backstop_tests::documents::{document, names_in_tables};
use serde_json::Value;

const LISTS: [&str; 6] = [
    "--set",
    "permanent=OutOfStock, HTTP 4*",
    "--set",
    "transient=HTTP 409,ValidationException,CardLocked",
    "--set",
    "throttled=*Busy",
];

/// The decision of a policy about an error.
async fn decided(policy: &str, lists: &[&str], error: &[&str]) -> Value {
    let arguments = [&["policy", "run", policy, "--json"], lists, error].concat();
    let output = run(&arguments).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_listed_code_has_the_class_of_its_list_in_every_built_in_policy() {
    for policy in NAMES {
        for (error, class, verdict) in [
            (&["--code", "OutOfStock"][..], "permanent", "dead-letter"),
            (
                &["--code", "com.example.OutOfStock"],
                "permanent",
                "dead-letter",
            ),
            (
                &["--code", "HTTP 429", "--status", "429"],
                "permanent",
                "dead-letter",
            ),
            (
                &["--code", "HTTP 409", "--status", "409"],
                "transient",
                "retry",
            ),
            (&["--code", "ValidationException"], "transient", "retry"),
            (
                &["--code", "CardLocked", "--status", "422"],
                "transient",
                "retry",
            ),
            (
                &["--code", "VeryBusy", "--status", "400"],
                "throttled",
                "retry",
            ),
            // In no list.
            (
                &["--code", "AccessDeniedException"],
                "permanent",
                "dead-letter",
            ),
            (&["--code", "SlowDown"], "throttled", "retry"),
        ] {
            let found = decided(policy, &LISTS, error).await;
            let decision = (found["class"].as_str(), found["action"]["verdict"].as_str());
            assert_eq!(decision, (Some(class), Some(verdict)), "{policy} {error:?}");
        }
        // What is empty chooses nothing.
        let empty = [
            "--set",
            "permanent=",
            "--set",
            "transient=",
            "--set",
            "throttled=",
        ];
        let found = decided(policy, &empty, &["--code", "SlowDown"]).await;
        assert_eq!(found["class"], "throttled", "{policy}");
    }
}

#[tokio::test]
async fn a_code_in_two_lists_is_rejected_and_both_are_named() {
    for policy in NAMES {
        let lists = ["--set", "permanent=A,Busy", "--set", "throttled=B,Busy"];
        let arguments = [&["policy", "run", policy][..], &lists, &["--code", "A"]].concat();
        let output = run(&arguments).await;
        assert_eq!(output.status.code(), Some(4), "{policy}");
        let expected = "`Busy` is in `permanent` and in `throttled`: expected a code in one list";
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
    }
}

#[tokio::test]
async fn a_simulation_shows_that_a_listed_code_ends_at_the_first_attempt() {
    let simulated = async |lists: &[&str]| -> Value {
        let error = ["--code", "OutOfStock", "--messages", "20", "--json"];
        let arguments = [&["policy", "simulate", "linear"], lists, &error].concat();
        let output = run(&arguments).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let limit = ["--set", "max-attempts=4"];
    let limited = simulated(&limit).await;
    let attempts = |found: &Value| found["timetable"]["ended"][0]["attempts"]["latest"].clone();
    assert_eq!(attempts(&limited), 4);
    let listed = simulated(&[&limit[..], &["--set", "permanent=OutOf*"]].concat()).await;
    assert_eq!(attempts(&listed), 1);
}

/// A few hundred codes leave most of a decision's fuel.
#[tokio::test]
async fn lists_may_be_long() {
    let list = |name: &str| {
        let codes: Vec<_> = (0..100).map(|n| format!("{name}{n}Exception")).collect();
        format!("{name}={}", codes.join(","))
    };
    let lists = ["permanent", "transient", "throttled"].map(list);
    let lists: Vec<_> = lists
        .iter()
        .flat_map(|list| ["--set", list.as_str()])
        .collect();
    let found = decided("linear", &lists, &["--code", "permanent99Exception"]).await;
    assert_eq!(found["class"], "permanent");
    let fuel = found["fuel"].as_u64().unwrap();
    assert!(fuel < 10_000_000, "{fuel}");
}

#[test]
fn every_setting_of_a_built_in_policy_is_in_a_table_of_the_document() {
    let documented = names_in_tables(&document("host/docs/policies/policies.md"));
    for name in NAMES {
        let unknown = by_name(name, &[("no-such-setting", "")].into()).unwrap_err();
        let PolicyError::Settings(SettingsError::Unknown { expected, .. }) = unknown else {
            panic!("{unknown}");
        };
        for setting in expected {
            assert!(documented.contains(*setting), "{name}: {setting}");
        }
    }
}
