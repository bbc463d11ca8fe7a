//! Policies that say that something is down: in the sandbox, in every language, in scenarios and in records.

use std::path::Path;
use std::sync::Arc;

use backstop_core::decision::{
    Action, Answer, Bounds, ErrorClass, FallbackKind, InvalidAnswer, LONGEST_DELAY, Reach,
};
use backstop_core::examples::ordinary_failure;
use backstop_core::failure::{Failure, Milliseconds};
use backstop_decider::{Decider, Journey};
use backstop_engine::{
    Component, EvaluationError, Limits, Part, Parts, Phase, Policy, Role, Sandbox,
};
use backstop_records::Recorder;
use backstop_tests::backstop::{command, read_records, text};
use backstop_tests::policies::{NOT_DOWN, Rule, down_for, waits};
use backstop_tests::toolchain::Author;
use backstop_versions::{LivePolicy, PolicySpec, Source};
use backstop_workbench::Language;
use serde_json::{Value, json};

const MINUTES: u32 = 60_000;

fn part(sandbox: &Sandbox, text: &str) -> Part {
    Part {
        component: Component::load(sandbox, "part", text.as_bytes()).unwrap(),
        settings: Default::default(),
    }
}

fn answer(rule: Rule<'_>) -> Result<Answer, EvaluationError> {
    let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
    let policy = Policy::single(&sandbox, part(&sandbox, &rule.text()));
    policy.evaluate(&ordinary_failure(), &Arc::default()).answer
}

#[test]
fn a_policy_says_with_any_verdict_how_long_something_is_down() {
    let five = down_for(5 * MINUTES);
    for (judge, said, expected) in [
        (Rule::FIRST, None, None),
        (Rule::FIRST, Some(NOT_DOWN), None),
        (Rule::FIRST, Some(&*down_for(0)), None),
        (Rule::FIRST, Some(&*five), Some(5 * MINUTES)),
        // A dead letter with a reason.
        ("(i32.const 128)", Some(&*five), Some(5 * MINUTES)),
        (
            Rule::FIRST,
            Some(&*down_for(LONGEST_DELAY.0)),
            Some(LONGEST_DELAY.0),
        ),
    ] {
        let answer = answer(Rule {
            judge: Some(judge),
            down_for: said,
            ..Rule::default()
        });
        assert_eq!(answer.unwrap().down_for, expected.map(Milliseconds));
    }
}

#[test]
fn an_outage_beyond_14_days_and_a_trap_are_faults_of_the_policy() {
    let broken = |body: &str| {
        let rule = Rule {
            down_for: Some(body),
            ..Rule::default()
        };
        answer(rule).unwrap_err()
    };
    let long = Milliseconds(LONGEST_DELAY.0 + 1);
    let error = broken(&down_for(long.0));
    assert_eq!(
        error,
        EvaluationError::InvalidAnswer(InvalidAnswer::Outage(long))
    );
    assert_eq!(error.kind(), FallbackKind::InvalidAnswer);
    assert_eq!(
        error.to_string(),
        "answered an outage of 14d1ms, more than the 14d that SQS keeps a message"
    );
    assert!(matches!(
        broken("unreachable"),
        EvaluationError::Trapped(_, Phase::DownFor)
    ));
}

#[test]
fn a_composed_policy_has_a_part_for_outages() {
    let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
    let outage = Rule {
        down_for: Some(&down_for(7)),
        ..Rule::default()
    };
    let parts = Parts {
        backoff: Some(part(&sandbox, &waits(3))),
        outage: Some(part(&sandbox, &outage.text())),
        ..Parts::default()
    };
    let policy = Policy::composed(&sandbox, parts).unwrap();
    let evaluation = policy.evaluate(&ordinary_failure(), &Arc::default());
    let expected = Answer {
        class: ErrorClass::Transient,
        action: Action::Retry {
            delay: Milliseconds(3),
        },
        down_for: Some(Milliseconds(7)),
    };
    assert_eq!(evaluation.answer, Ok(expected));
    let misplaced = Parts {
        outage: Some(part(&sandbox, &waits(3))),
        ..Parts::default()
    };
    let misplaced = Policy::composed(&sandbox, misplaced).unwrap_err();
    assert_eq!(misplaced.role, Role::Outage);
}

/// What is added to the template of a language, before a text of its source: it says that something is down for the codes `maintenance`, `moment` and `forever`.
fn says_outages(language: Language) -> (&'static str, &'static str) {
    match language {
        Language::Rust => (
            "    fn judge(",
            include_str!("../corpus/outage/down_for.rs.txt"),
        ),
        Language::JavaScript => (
            "export const backoff",
            include_str!("../corpus/outage/down_for.js.txt"),
        ),
        Language::TypeScript => (
            "export const backoff",
            include_str!("../corpus/outage/down_for.ts.txt"),
        ),
        Language::Python => (
            "class Backoff(",
            include_str!("../corpus/outage/down_for.py.txt"),
        ),
        Language::Go => (
            "// Delay computes",
            include_str!("../corpus/outage/down_for.go.txt"),
        ),
        Language::C => (
            "// The delay. ",
            include_str!("../corpus/outage/down_for.c.txt"),
        ),
    }
}

async fn says_that_something_is_down(language: Language) {
    let author = Author::new(&language.to_string()).await;
    let (before, added) = says_outages(language);
    author.change(language.source(), before, &format!("{added}{before}"));
    if language == Language::TypeScript {
        author.change("policy.ts", "DeadLettering, S", "DeadLettering, Outage, S");
    }
    if language != Language::Rust {
        author.change(
            "policy.toml",
            "\"dead-lettering\"]",
            "\"dead-lettering\", \"outage\"]",
        );
    }
    let built = author.backstop(&["policy", "build"]).await;
    assert!(
        built.status.success(),
        "{language}: {}",
        text(&built.stderr)
    );
    let subject = author.component();
    let subject = subject.to_str().unwrap();
    for (code, expected) in [
        ("maintenance", json!(5 * MINUTES)),
        ("moment", Value::Null),
        ("card_declined", Value::Null),
    ] {
        let run = author
            .backstop(&["policy", "run", subject, "--code", code, "--json"])
            .await;
        let found: Value = serde_json::from_slice(&run.stdout)
            .unwrap_or_else(|_| panic!("{language}: {}", text(&run.stderr)));
        assert_eq!(found["down-for"], expected, "{language} {code}: {found}");
        assert_eq!(found["broken"], Value::Null, "{language} {code}: {found}");
    }
    let run = author
        .backstop(&["policy", "run", subject, "--code", "forever"])
        .await;
    let shown = text(&run.stdout);
    assert!(
        shown.contains("answered an outage of 49d"),
        "{language}: {shown}"
    );
}

#[tokio::test]
async fn a_policy_in_rust_says_that_something_is_down() {
    says_that_something_is_down(Language::Rust).await;
}

#[tokio::test]
async fn a_policy_in_javascript_says_that_something_is_down() {
    says_that_something_is_down(Language::JavaScript).await;
}

#[tokio::test]
async fn a_policy_in_typescript_says_that_something_is_down() {
    says_that_something_is_down(Language::TypeScript).await;
}

#[tokio::test]
async fn a_policy_in_python_says_that_something_is_down() {
    says_that_something_is_down(Language::Python).await;
}

#[tokio::test]
async fn a_policy_in_go_says_that_something_is_down() {
    says_that_something_is_down(Language::Go).await;
}

#[tokio::test]
async fn a_policy_in_c_says_that_something_is_down() {
    says_that_something_is_down(Language::C).await;
}

/// A policy that waits a second and says this, as a file in this folder.
fn file(folder: &Path, name: &str, said: Option<&str>) -> String {
    let rule = Rule {
        delay: Some("(i32.const 1000)"),
        down_for: said,
        ..Rule::default()
    };
    let path = folder.join(name);
    std::fs::write(&path, rule.text()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_scenario_expects_an_outage_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let says = file(folder.path(), "says.wat", Some(&down_for(5 * MINUTES)));
    let silent = file(folder.path(), "silent.wat", None);
    let scenarios = folder.path().join("scenarios.toml");
    std::fs::write(
        &scenarios,
        r#"
        [[scenario]]
        name = "it is down for five minutes"
        expect = { verdict = "retry", down-for = "5m" }
        [[scenario]]
        name = "it is down for some minutes"
        sequence = [{ down-for = { min = "1m", max = "9m" } }]
        [[scenario]]
        name = "nothing is down"
        expect = { down-for = "0s" }
        "#,
    )
    .unwrap();
    for (policy, passed, told) in [
        (&says, 2, "✗ down-for  0s        5m"),
        (&silent, 1, "✗ down-for  5m        none"),
    ] {
        let path = scenarios.to_str().unwrap();
        let tested = ["policy", "test", policy, "--scenarios", path, "--no-checks"];
        let tested = command(&tested).output().await.unwrap();
        let shown = text(&tested.stdout);
        assert!(shown.contains(&format!("{passed} passed")), "{shown}");
        assert!(shown.contains(told), "{shown}");
    }
    std::fs::write(
        &scenarios,
        "[[scenario]]\nname = \"mean\"\nexpect = { down-for = { mean = [\"1s\", \"2s\"] }, over = 9 }",
    )
    .unwrap();
    let path = scenarios.to_str().unwrap();
    let refused = command(&["policy", "test", &says, "--scenarios", path]);
    let refused = { refused }.output().await.unwrap();
    let shown = text(&refused.stderr);
    assert!(shown.contains("`down-for` has no mean"), "{shown}");
}

/// Decides about three failures with the policy of this file, within these bounds, and returns the records.
fn record(policy: &str, bounds: Bounds, records: &Path) -> Vec<Value> {
    let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
    let policy = LivePolicy::load(&sandbox, PolicySpec::from(Source::path(policy))).unwrap();
    let recorder = Recorder::to_file(records).unwrap();
    let decider = Decider::new("orders", policy, bounds).observed_by(Arc::clone(&recorder) as _);
    for attempt in 1..=3_u32 {
        let failure = Failure {
            attempt: attempt.try_into().unwrap(),
            ..ordinary_failure()
        };
        let reach = Reach::visibility(LONGEST_DELAY, failure.age);
        decider.decide_now(&failure, &Arc::default(), Journey::direct(reach));
    }
    recorder.close();
    read_records(records)
}

#[tokio::test]
async fn an_outage_is_recorded_replayed_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let says = file(folder.path(), "says.wat", Some(&down_for(5 * MINUTES)));
    let longer = file(folder.path(), "longer.wat", Some(&down_for(6 * MINUTES)));
    let silent = file(folder.path(), "silent.wat", None);
    let path = folder.path().join("decisions.jsonl");
    let bounds = Bounds {
        max_attempts: 3.try_into().ok(),
        ..Bounds::default()
    };
    let records = record(&says, bounds, &path);
    let verdicts: Vec<_> = records.iter().map(|it| it["verdict"].clone()).collect();
    assert_eq!(verdicts, ["retry", "retry", "dead-letter"]);
    // It stands, too, where a bound of the queue decides about the message.
    assert!(records.iter().all(|it| it["down-for"] == 5 * MINUTES));
    let others = folder.path().join("others.jsonl");
    let quiet = record(&silent, bounds, &others);
    assert!(quiet.iter().all(|it| it.get("down-for").is_none()));

    let path = path.to_str().unwrap();
    let others = others.to_str().unwrap();
    for (records, policy, changed) in [
        (path, &says, None),
        (path, &longer, Some(json!({"old": "", "new": "longer"}))),
        (path, &silent, Some(json!({"old": "down", "new": "none"}))),
        (others, &says, Some(json!({"old": "none", "new": "down"}))),
    ] {
        let replayed = ["policy", "replay", records, "--policy", policy, "--json"];
        let replayed = command(&replayed).output().await.unwrap();
        let found: Value = serde_json::from_slice(&replayed.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&replayed.stderr)));
        let changes = &found["report"]["changes"];
        let Some(expected) = changed else {
            assert_eq!(replayed.status.code(), Some(0), "{found}");
            assert_eq!(*changes, json!([]));
            continue;
        };
        assert_eq!(replayed.status.code(), Some(8), "{found}");
        let change = &changes[0];
        assert_eq!(change["what"], "outage", "{found}");
        assert_eq!(
            (&change["old"], &change["new"]),
            (&expected["old"], &expected["new"])
        );
        assert_eq!(changes[0]["records"], 3);
    }
    let id = ordinary_failure().message_id;
    let why = ["why", &id, path, "--policy", &longer];
    let why = command(&why).output().await.unwrap();
    let shown = text(&why.stdout);
    for told in [
        "the policy says that what is behind it is down for 5m",
        "today: transient: retry in 1s, down for 6m",
    ] {
        assert!(shown.contains(told), "{told:?} is not in:\n{shown}");
    }
}
