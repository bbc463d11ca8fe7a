//! `backstop policy run`, `inspect`, `compile` and `bench`: an author's view of a policy, without a queue.

use std::process::Stdio;

use backstop_tests::backstop::{command, run, text};
use backstop_tests::documents::top;
use backstop_tests::policies::{Rule, waits};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

fn example(name: &str) -> String {
    let examples = top().join("examples");
    examples.join(name).to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_policy_is_evaluated_for_a_failure_from_flags() {
    let flags = [
        "policy",
        "run",
        "full-jitter",
        "--set",
        "base=2s",
        "--code",
        "ThrottlingException",
        "--status",
        "429",
        "--attempt",
        "3",
        "--random",
        "0.5",
    ];
    let shown = text(&run(&flags).await.stdout);
    for line in [
        "class     throttled",
        "verdict   retry in 4s",
        "attempt 3, 0s old: ThrottlingException (HTTP 429); random 0.500",
    ] {
        assert!(shown.contains(line), "{line:?} is not in:\n{shown}");
    }
    let shown = run(&[&flags[..], &["--json"]].concat()).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["action"]["delay"], 4_000);
    assert!(shown["fuel"].as_u64().unwrap() > 1_000);
}

#[tokio::test]
async fn a_status_is_one_of_http() {
    for (status, is_one) in [("100", true), ("999", true), ("99", false), ("5000", false)] {
        let output = run(&["policy", "run", "linear", "--status", status]).await;
        assert_eq!(output.status.success(), is_one, "{status}");
        let shown = text(&output.stderr);
        let expected = "expected a whole number from 100 to 999";
        assert_eq!(shown.contains(expected), !is_one, "{shown}");
    }
}

#[tokio::test]
async fn a_recorded_failure_gets_the_recorded_decision() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "one\n").unwrap();
    let arguments = [
        "run",
        "--queue-url",
        "local:try",
        "--exec",
        "false",
        "--set",
        "base=5ms",
        "--max-attempts",
        "3",
        "--decisions",
        "-",
        "--messages",
        lines.to_str().unwrap(),
    ];
    let records = text(&run(&arguments).await.stdout);
    // The last one is the death, an event.
    assert_eq!(records.lines().count(), 4);
    for record in records.lines().take(2) {
        let mut child = command(&[
            "policy",
            "run",
            "full-jitter",
            "--set",
            "base=5ms",
            "--failure",
            "-",
            "--json",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(record.as_bytes())
            .await
            .unwrap();
        let output = child.wait_with_output().await.unwrap();
        let printed_text: Value = serde_json::from_slice(&output.stdout).unwrap();
        let recorded: Value = serde_json::from_str(record).unwrap();
        assert_eq!(printed_text["action"]["delay"], recorded["delay"]);
        assert_eq!(
            (&printed_text["failure"], &printed_text["class"]),
            (&recorded["failure"], &recorded["class"])
        );
    }
}

#[tokio::test]
async fn a_file_is_inspected() {
    let shown = text(
        &run(&["policy", "inspect", &example("first-policy.wat")])
            .await
            .stdout,
    );
    for line in [
        "exports    backstop:policy/backoff@0.1.0",
        "default    backstop:policy/classifier@0.1.0: the host's own",
        "uses       123 of 50000000 fuel",
    ] {
        assert!(shown.contains(line), "{line:?} is not in:\n{shown}");
    }
    let shown = run(&["policy", "inspect", "linear", "--json"]).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["exports"].as_array().unwrap().len(), 4);
    assert_eq!(shown["imports"]["stubbed"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn invalid_policies_and_failures_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.wat");
    std::fs::write(&path, waits(1)).unwrap();
    let path = path.to_str().unwrap();
    let wrong = folder.path().join("failure.json");
    std::fs::write(&wrong, r#"{"attempt": 0}"#).unwrap();
    for (arguments, code, expected) in [
        (
            ["policy", "run", "no-such-policy", "--attempt", "1"],
            4,
            "there is no built-in policy `no-such-policy`",
        ),
        (
            ["policy", "run", path, "--set", "a=1"],
            4,
            "does not export backstop:policy/settings",
        ),
        (
            ["policy", "run", path, "--random", "1"],
            2,
            "from 0 to below 1",
        ),
        (
            ["policy", "run", path, "--failure", wrong.to_str().unwrap()],
            1,
            "expected the JSON of a failure, or a decision record",
        ),
        (
            ["policy", "compile", path, "--arch", "mips"],
            2,
            "arm64, x86-64",
        ),
    ] {
        let output = run(&arguments).await;
        let printed_text = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed_text}");
        assert!(
            printed_text.contains(expected),
            "{expected:?} is not in:\n{printed_text}"
        );
    }
}

#[tokio::test]
async fn a_policy_is_compiled_for_each_processor() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("compiled");
    for (arch, name) in [("arm64", "arm64"), ("x86-64", "x86_64")] {
        let arguments = [
            "policy",
            "compile",
            "linear",
            "full-jitter",
            "--arch",
            arch,
            "--output",
        ];
        let ended = run(&[&arguments[..], &[output.to_str().unwrap()]].concat()).await;
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        let files = std::fs::read_dir(&output).unwrap().flatten();
        let ending = format!(".{name}.compiled");
        let of_arch = files.filter(|file| file.file_name().to_str().unwrap().ends_with(&ending));
        assert_eq!(of_arch.count(), 2);
    }
}

#[tokio::test]
async fn costs_are_measured_and_a_policy_near_a_limit_gives_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hungry.wat");
    // About thirty of fifty million units of fuel.
    let hungry = Rule {
        delay: Some(
            "(local $n i32) (local.set $n (i32.const 5000000)) (loop $l (local.set $n (i32.sub (local.get $n) (i32.const 1))) (br_if $l (local.get $n))) (i32.const 1)",
        ),
        ..Rule::default()
    };
    std::fs::write(&path, hungry.text()).unwrap();
    let path = path.to_str().unwrap();
    let arguments = ["policy", "bench", "linear", path, "--for", "20ms"];
    let shown = run(&arguments).await;
    let (out, err) = (text(&shown.stdout), text(&shown.stderr));
    assert!(shown.status.success(), "{err}");
    assert!(out.contains("linear "), "{out}");
    assert!(
        err.contains("hungry.wat uses ") && err.contains(" % of the fuel limit"),
        "{err}"
    );
    let shown = run(&[&arguments[..], &["--json"]].concat()).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let near: Vec<_> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["near"])
        .collect();
    assert_eq!(near, [&serde_json::json!([]), &serde_json::json!(["fuel"])]);
    let of_linear = &shown[0];
    assert!(of_linear["fresh"]["median-us"].as_f64().unwrap() > 0.0);
    assert!(of_linear["live"]["times"].as_u64().unwrap() >= 10);

    let refused = run(&["policy", "bench", "linear", "--set", "bass=1s"]).await;
    assert_eq!(refused.status.code(), Some(4));
    assert!(text(&refused.stderr).contains("unknown setting `bass`"));
}

#[tokio::test]
async fn every_import_that_is_refused_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("greedy.wat");
    let greedy = r#"(component (import "wasi:http/types@0.2.0" (instance)) (import "odd:disk/files" (instance)))"#;
    std::fs::write(&path, greedy).unwrap();
    let inspected = run(&["policy", "inspect", path.to_str().unwrap()]).await;
    let printed_text = text(&inspected.stderr);
    assert_eq!(inspected.status.code(), Some(4), "{printed_text}");
    let both =
        "it imports `wasi:http/types@0.2.0`, `odd:disk/files`, which a policy is not granted";
    assert!(printed_text.contains(both), "{printed_text}");
}

/// Some editors write one.
#[tokio::test]
async fn a_policy_s_text_may_start_with_a_byte_order_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.wat");
    std::fs::write(&path, format!("\u{feff}{}", waits(1234))).unwrap();
    let shown = run(&["policy", "run", path.to_str().unwrap()]).await;
    let (out, err) = (text(&shown.stdout), text(&shown.stderr));
    assert!(out.contains("retry in 1s234ms"), "{out}{err}");
}
