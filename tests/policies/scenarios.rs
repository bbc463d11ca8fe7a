//! `backstop policy test`: real policies tested with scenarios, and the reports for people, programs and CI systems.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use backstop_tests::backstop::{command, program, run, text};
use backstop_tests::documents::{blocks, document, top};
use backstop_tests::policies::{Rule, waits};
use backstop_tests::testing::{delays, folder, test};
use backstop_workbench::scenario::Suite;
use quick_junit::{NonSuccessKind, Report, TestCaseStatus};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

const WRONG: &str = r#"
settings = { base = "2s" }

[[scenario]]
name = "the class and the delay are others"
failure = { preset = "http-503", random = 0.5, attempt = 3 }
expect = { class = "throttled", verdict = "retry", delay = "9s" }

[[scenario]]
name = "the range and the mean are others"
failure = { attempt = 3 }
expect = { delay = { min = "1s", max = "8s", mean = ["5s", "6s"] }, over = 1000 }

[[scenario]]
name = "the second wait is another, and the end comes early"
settings = { max-attempts = 4 }
failure = { random = 0.5 }
sequence = [{ delay = "1s" }, { delay = "3s" }, {}, {}, { verdict = "dead-letter" }]

[[scenario]]
name = "it goes on for longer"
settings = { max-attempts = 5 }
expect = { attempts = 4, verdict = "dead-letter" }

[[scenario]]
name = "the settings are accepted"
expect = { refused = "unknown setting" }

[[scenario]]
name = "this one is right"
failure = { random = 0 }
expect = { delay = "0s" }
"#;

async fn wrong(more: &[&str]) -> (TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let scenarios = folder.path().join("wrong.toml");
    std::fs::write(&scenarios, WRONG).unwrap();
    let arguments = [
        "policy",
        "test",
        "full-jitter",
        "--no-checks",
        "--scenarios",
    ];
    let output = run(&[&arguments[..], &[scenarios.to_str().unwrap()], more].concat()).await;
    (folder, output)
}

#[tokio::test]
async fn expected_values_are_next_to_found_ones() {
    let (_folder, output) = wrong(&[]).await;
    assert_eq!(output.status.code(), Some(7));
    let shown = text(&output.stdout);
    for lines in [
        "✗ the class and the delay are others",
        "wrong.toml:4\n",
        "evaluated with attempt 3, 0s old: HTTP 503: service unavailable (HTTP 503); random 0.500",
        "    ✗ class    throttled  transient\n      verdict  retry      retry\n    ✗ delay    9s         4s\n",
        "    ✗ delay  1s to 8s  0s with random 0; so 125 of 1000\n    ✗ mean   5s to 6s  3s999ms over 1000\n",
        "    ✗ attempt 2 delay  3s               2s\n    ✗ attempt 4        1 more after it  the last: dead-letter: max-attempts of 4 reached: HTTP 503\n",
        "    ✗ attempts  4         more: retry in ",
        "    ✗ refused  … unknown setting …  the settings are accepted\n",
        "✓ this one is right\n",
        "1 passed, 5 failed in ",
    ] {
        assert!(shown.contains(lines), "{lines:?} is not in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour but on a terminal");
    assert!(text(&output.stderr).contains("5 of 6 tests failed"));
}

#[tokio::test]
async fn a_junit_report_has_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.xml");
    let (_folder, output) = wrong(&["--junit", path.to_str().unwrap()]).await;
    assert_eq!(output.status.code(), Some(7));
    let report = Report::deserialize_from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (6, 5, 0));
    let [suite] = report.test_suites.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(suite.name.as_str(), "full-jitter scenarios");
    let first = &suite.test_cases[0];
    assert_eq!(first.extra["line"].as_str(), "4");
    let TestCaseStatus::NonSuccess {
        kind: NonSuccessKind::Failure,
        message: Some(message),
        description: Some(description),
        ..
    } = &first.status
    else {
        panic!("{first:?}")
    };
    assert_eq!(
        message.as_str(),
        "class: expected throttled, got transient; delay: expected 9s, got 4s"
    );
    assert!(description.as_str().contains("✗ delay    9s         4s"));
    let last = suite.test_cases.last().unwrap();
    assert!(matches!(last.status, TestCaseStatus::Success { .. }));
}

#[tokio::test]
async fn texts_of_a_policy_do_not_control_the_terminal() {
    // `\07` in `because` would ring the bell.
    let policy = Rule {
        judge: Some("(i32.const 128)"),
        ..Rule::default()
    };
    let policy = policy.text().replace("because", "bec\\07use");
    let (_folder, path) = folder(
        &policy,
        "[[scenario]]\nname = 'it retries'\nexpect = { verdict = 'retry' }",
    );
    let shown = text(&run(&["policy", "test", &path, "--no-checks"]).await.stdout);
    assert!(shown.contains("dead-letter: bec\\u{7}use"), "{shown}");
}

#[tokio::test]
async fn a_mistake_is_explained_with_what_is_expected() {
    let (folder, path) = folder(
        &waits(1),
        "[[scenario]]\nname = 'odd'\nexpect = { wait = '1s' }",
    );
    let nowhere = folder.path().join("nowhere.toml");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (arguments, code, expected) in [
        (
            &[path.as_str()][..],
            3,
            "scenario `odd`: line 3, column 12: expect: unknown key `wait`, expected one of `class`",
        ),
        (
            &[&path, "--scenarios", nowhere.to_str().unwrap()],
            3,
            "can't read the scenarios",
        ),
        (
            &["linear", "--filter", "no such thing"],
            2,
            "no scenario or check has `no such thing` in its name",
        ),
        (&["linear", "--no-checks"], 2, "there is nothing to run"),
        (&["linear", "--watch"], 2, "there is nothing to watch"),
        (
            &["no-such-policy"],
            4,
            "there is no built-in policy `no-such-policy`",
        ),
        (
            &[empty.to_str().unwrap()],
            4,
            "is not a policy's folder: it has no policy.toml; create one with `backstop policy new",
        ),
    ] {
        let output = run(&[&["policy", "test"], arguments].concat()).await;
        let printed_text = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed_text}");
        assert!(
            printed_text.contains(expected),
            "{expected:?} is not in:\n{printed_text}"
        );
    }
}

#[tokio::test]
async fn a_named_failure_is_evaluated_and_changed_by_flags() {
    let command_line = ["policy", "run", "linear", "--json", "--preset", "http-429"];
    let more = ["--status", "503", "--detail", "a=b"];
    let printed_text = run(&[&command_line[..], &more].concat()).await;
    let printed_text: Value = serde_json::from_slice(&printed_text.stdout).unwrap();
    assert_eq!(printed_text["action"]["delay"], 30_000);
    let error = &printed_text["failure"]["error"];
    assert_eq!(
        (&error["code"], &error["status"]),
        (&"HTTP 429".into(), &503.into())
    );
    assert_eq!(error["details"].as_array().unwrap().len(), 2);
    let listed = text(&run(&["policy", "test", "--presets"]).await.stdout);
    assert!(
        listed.contains("lambda-timeout        Sandbox.Timedout"),
        "{listed}"
    );
}

#[tokio::test]
async fn watching_runs_tests_after_changes_and_survives_a_mistake() {
    let scenario =
        |delay: &str| format!("[[scenario]]\nname = 'it waits'\nexpect = {{ delay = '{delay}' }}");
    let (folder, path) = folder(&waits(5), &scenario("5ms"));
    let mut child = command(&["policy", "test", &path, "--no-checks", "--watch"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let scenarios = folder.path().join("scenarios.toml");
    // One round for each change. The test waits for lines and never for a time.
    let scenarios = scenarios.to_str().unwrap();
    for (change, shown) in [
        (None, Some("✓ it waits")),
        (Some((path.as_str(), waits(6))), Some("✗ it waits")),
        (Some((scenarios, scenario("6ms"))), Some("✓ it waits")),
        (Some((scenarios, "odd".to_owned())), None),
        (Some((scenarios, scenario("7ms"))), Some("✗ it waits")),
    ] {
        if let Some((file, content)) = change {
            // As editors do: write another file, then rename it.
            let beside = folder.path().join("beside");
            std::fs::write(&beside, content).unwrap();
            std::fs::rename(&beside, file).unwrap();
        }
        // A change may be seen in two steps, and be tested twice.
        let awaited = match shown {
            Some(_) => "waiting for changes in ",
            None => "error: ",
        };
        let round = async {
            if let Some(shown) = shown {
                while !stdout
                    .next_line()
                    .await
                    .unwrap()
                    .unwrap()
                    .starts_with(shown)
                {}
            }
            while !stderr.next_line().await.unwrap().unwrap().contains(awaited) {}
        };
        let ended = tokio::time::timeout(Duration::from_secs(120), round).await;
        ended.unwrap_or_else(|_| panic!("no round within two minutes: {shown:?}, {awaited}"));
    }
    let id = i32::try_from(child.id().unwrap()).unwrap();
    // Not SIGINT, which is ignored if the tests run in the background.
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    assert!(!child.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_scenarios_in_the_document_pass() {
    let cart = format!(
        "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000)) (if (result i32) (i32.load8_u (i32.const 3000)) (then (call $log (i32.const 1) (i32.const 2056) (i32.const 4)) (i32.const 144)) (else {}))",
        Rule::FIRST
    );
    let cart = Rule {
        classify: Some(&cart),
        ..Rule::default()
    };
    let blocks = blocks(&document("host/docs/policies/scenarios.md"), "toml");
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let (folder, path) = folder(&cart.text(), &block);
        let scenarios = folder.path().join("scenarios.toml");
        // Scenarios with a payload need a policy that reads it.
        let policy = if block.contains("payload =") {
            path.as_str()
        } else {
            "full-jitter"
        };
        let arguments = [
            policy,
            "--no-checks",
            "--scenarios",
            scenarios.to_str().unwrap(),
        ];
        let (code, printed_text) = test(&arguments).await;
        assert_eq!(code, 0, "{block}\n{printed_text:#?}");
    }
}

#[tokio::test]
async fn the_commands_in_the_document_run() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["examples", "policies"] {
        std::os::unix::fs::symlink(top().join(name), folder.path().join(name)).unwrap();
    }
    let mut path = vec![program("backstop").parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let blocks = blocks(&document("host/docs/policies/scenarios.md"), "sh");
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        let output = tokio::process::Command::new("sh")
            .args(["-e", "-c", &block])
            .current_dir(&folder)
            .env("PATH", std::env::join_paths(&path).unwrap())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{block}\n{}", text(&output.stderr));
    }
    assert!(folder.path().join("report.xml").exists());
}

/// The names in the first column of every table of the document.
fn documented() -> BTreeSet<String> {
    let document = document("host/docs/policies/scenarios.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn all_keys_and_fields_and_no_others_are_documented() {
    let mut known = BTreeSet::new();
    for text in [
        "odd = 1",
        "failure = { odd = 1 }",
        "[[scenario]]\nodd = 1",
        "[[scenario]]\nname = 'x'\nexpect = { odd = 1 }",
        "[[scenario]]\nname = 'x'\nsequence = [{ odd = 1 }]",
    ] {
        let told = Suite::parse(text, Path::new("x")).unwrap_err().to_string();
        let told = told.lines().next().unwrap().to_owned();
        let names = told.split("expected one of").nth(1).unwrap();
        known.extend(names.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    let (folder, path) = folder(
        &delays("(unreachable)"),
        "[[scenario]]\nname = 'x'\nexpect = {}",
    );
    let (_, mut printed_text) = test(&[&path, "--cases", "10"]).await;
    drop(folder);
    let counts = "(i32.store (i32.const 32) (i32.add (i32.load (i32.const 32)) (i32.const 1))) (i32.load (i32.const 32))";
    let (_folder, path) = self::folder(&delays(counts), "");
    printed_text.extend(test(&[&path, "--filter", "same answer"]).await.1);
    let fields = printed_text
        .iter()
        .flat_map(|line| line.as_object().unwrap().keys().cloned());
    known.extend(fields);
    assert_eq!(documented(), known);
}
