//! `backstop policy test`: real policies, good and hostile, put to scenarios and to the standard checks.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use backstop::author::scenario::Suite;
use backstop_tests::backstop::{command, program, run, text};
use backstop_tests::policies::{Rule, waits};
use quick_junit::{NonSuccessKind, Report, TestCaseStatus};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

const BUILTIN: [&str; 4] = [
    "full-jitter",
    "equal-jitter",
    "linear",
    "decorrelated-jitter",
];

/// The attempt that a policy by hand is asked about.
const ATTEMPT: &str = "(i32.load offset=16 (local.get 0))";

fn top() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    top.canonicalize().unwrap()
}

fn document() -> String {
    std::fs::read_to_string(top().join("host/docs/scenarios.md")).unwrap()
}

/// The fenced blocks of a language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let blocks = document.split("```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .map(str::to_owned)
        .collect()
}

/// A folder with a policy of this text, and these scenarios beside it.
fn folder(policy: &str, scenarios: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.wat");
    std::fs::write(&path, policy).unwrap();
    if !scenarios.is_empty() {
        std::fs::write(folder.path().join("scenarios.toml"), scenarios).unwrap();
    }
    (folder, path.to_str().unwrap().to_owned())
}

/// The text of a policy whose delay is worked out so.
fn delays(body: &str) -> String {
    Rule {
        delay: Some(body),
        ..Rule::default()
    }
    .text()
}

/// Runs `backstop policy test --json`; its exit code and what it said of each test.
async fn test(arguments: &[&str]) -> (i32, Vec<Value>) {
    let output = run(&[&["policy", "test", "--json"], arguments].concat()).await;
    let lines = text(&output.stdout);
    let said = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (output.status.code().unwrap(), said.collect())
}

fn of<'a>(said: &'a [Value], name: &str) -> &'a Value {
    let found = said.iter().find(|test| test["test"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {said:#?}"))
}

/// The names of the tests that failed.
fn failed(said: &[Value]) -> Vec<&str> {
    let failed = said.iter().filter(|test| test["passed"] == false);
    failed.map(|test| test["test"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_four_policies_do_what_their_scenarios_say_and_stand_the_checks() {
    for name in BUILTIN {
        let scenarios = top().join("policies").join(name).join("scenarios.toml");
        let count = Suite::read(&scenarios).unwrap().scenarios.len();
        let arguments = [
            name,
            "--scenarios",
            scenarios.to_str().unwrap(),
            "--cases",
            "500",
        ];
        let (code, said) = test(&arguments).await;
        assert_eq!((code, failed(&said)), (0, Vec::new()), "{name}: {said:#?}");
        assert_eq!(said.len(), count + 6 + 1, "{name}");
        assert_eq!(said.last().unwrap()["summary"]["passed"], count + 6);
        assert!(said.iter().all(|test| test["warnings"].is_null()));
    }
}

/// Each is found among generated failures, and made as small as it gets.
#[tokio::test]
async fn what_a_policy_does_not_stand_is_found_and_made_small() {
    let trap_at_seven =
        format!("(if (i32.eq {ATTEMPT} (i32.const 7)) (then (unreachable))) (i32.const 1)");
    let trap_from_37 =
        format!("(if (i32.ge_u {ATTEMPT} (i32.const 37)) (then (unreachable))) (i32.const 1)");
    // The age stands behind the attempt.
    let loop_when_old = "(if (i32.ge_u (i32.load offset=20 (local.get 0)) (i32.const 100000)) (then (loop $l (br $l)))) (i32.const 1)";
    let nonsense_from_20 = format!(
        "(if (result i32) (i32.ge_u {ATTEMPT} (i32.const 20)) (then (i32.const -1)) (else (i32.const 1)))"
    );
    let days = format!(
        "(if (result i32) (i32.ge_u {ATTEMPT} (i32.const 3)) (then (i32.const 86400000)) (else (i32.const 1)))"
    );
    for (body, check, told, failure) in [
        (
            trap_at_seven.as_str(),
            "no failure makes it trap",
            "unreachable",
            "failure = { attempt = 7 }",
        ),
        (
            &trap_from_37,
            "no failure makes it trap",
            "unreachable",
            "failure = { attempt = 37 }",
        ),
        (
            loop_when_old,
            "it ends within its limits",
            "ran out of fuel",
            "failure = { age = \"1m40s\" }",
        ),
        (
            &nonsense_from_20,
            "every answer makes sense",
            "49d17h2m47s295ms",
            "failure = { attempt = 20 }",
        ),
        (
            &days,
            "no delay is longer than 12h",
            "retry in 1d",
            "failure = { attempt = 3 }",
        ),
    ] {
        let (folder, policy) = folder(&delays(body), "");
        let (code, said) = test(&[&policy, "--cases", "150"]).await;
        assert_eq!(code, 7);
        let found = of(&said, check);
        assert_eq!(found["passed"], false, "{check}: {found:#}");
        let got = found["rows"][0]["got"].as_str().unwrap();
        assert!(got.contains(told), "{told:?} is not in {got:?}");
        let scenario = found["found"]["scenario"].as_str().unwrap();
        assert!(scenario.contains(&format!("\n{failure}\n")), "{scenario}");

        // What is to be kept fails for the same reason, and so does the case by its number.
        std::fs::write(folder.path().join("scenarios.toml"), scenario).unwrap();
        let (code, again) = test(&[&policy, "--no-checks"]).await;
        assert_eq!((code, again.len()), (7, 2), "{again:#?}");
        let same = again[0]["rows"][0]["got"].as_str().unwrap();
        assert!(got.ends_with(same), "{same:?} is not the end of {got:?}");
        std::fs::remove_file(folder.path().join("scenarios.toml")).unwrap();
        let case = found["found"]["case"].to_string();
        let (_, again) = test(&[&policy, "--filter", check, "--seed", "0", "--cases", &case]).await;
        assert_eq!(again[0]["found"], found["found"]);
    }
}

#[tokio::test]
async fn a_policy_that_traps_on_an_authors_own_words_is_found_by_them() {
    // Traps where the payload has something at /tenant that is not the text that it looks for.
    let classify = format!(
        "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000)) (if (i32.eq (i32.load8_u (i32.const 3000)) (i32.const 1)) (then (if (i32.ne (i32.load offset=8 (i32.const 3000)) (i32.const 5)) (then (unreachable))))) {}",
        Rule::FIRST
    );
    let policy = Rule {
        classify: Some(&classify),
        ..Rule::default()
    };
    let scenarios = "[[scenario]]\nname = 'known'\npayload = { tenant = 't-1' }\nexpect = {}\n";
    let (folder, path) = folder(&policy.text(), scenarios);
    let (code, said) = test(&[&path, "--cases", "300"]).await;
    assert_eq!((code, failed(&said)), (7, vec!["no failure makes it trap"]));
    let kept = of(&said, "no failure makes it trap")["found"]["scenario"]
        .as_str()
        .unwrap();
    assert!(kept.contains(r#"payload = "{\"tenant\":null}""#), "{kept}");
    std::fs::remove_file(folder.path().join("scenarios.toml")).unwrap();
    let (code, _) = test(&[&path, "--cases", "300"]).await;
    assert_eq!(
        code, 0,
        "without the author's words there is nothing to find"
    );
}

#[tokio::test]
async fn what_a_policy_keeps_between_answers_is_warned_of() {
    // Waits a second more each time; the page at the start of its memory is its own.
    let counts = "(i32.store (i32.const 32) (i32.add (i32.load (i32.const 32)) (i32.const 1000))) (i32.load (i32.const 32))";
    let (_folder, path) = folder(&delays(counts), "");
    let (code, said) = test(&[&path, "--filter", "same answer"]).await;
    assert_eq!(
        code, 0,
        "each decision has a fresh instance: the answers are the same"
    );
    let warning = said[0]["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("it keeps something from one answer to the next"),
        "{warning}"
    );
    assert!(
        said[0]["about"]
            .as_str()
            .unwrap()
            .ends_with("and once without")
    );
}

#[tokio::test]
async fn more_than_half_of_a_limit_is_warned_of() {
    // 640 pages of 64 KiB are 40 MiB of 64, 200 of them there from the start.
    let greedy = "(drop (memory.grow (i32.const 440))) (i32.const 1)";
    let (_folder, path) = folder(&delays(greedy), "");
    let (code, said) = test(&[&path, "--filter", "limits", "--cases", "100"]).await;
    assert_eq!(code, 0);
    assert!(
        said[0]["about"]
            .as_str()
            .unwrap()
            .contains("62.5 % of its memory"),
        "{said:#?}"
    );
    assert!(
        said[0]["warnings"][0]
            .as_str()
            .unwrap()
            .contains("more than half")
    );
}

#[tokio::test]
async fn refused_settings_are_told_once() {
    let (code, said) = test(&["linear", "--set", "bass=1s"]).await;
    assert_eq!((code, said.len()), (7, 2), "{said:#?}");
    let got = of(&said, "a host takes it")["rows"][0]["got"]
        .as_str()
        .unwrap();
    assert!(got.contains("unknown setting `bass`"), "{got}");
}

#[tokio::test]
async fn a_longer_delay_is_allowed_where_the_scenarios_say_so() {
    let (_folder, path) = folder(&waits(3 * 86_400_000), "longest-delay = '3d'");
    let (code, said) = test(&[&path, "--cases", "50"]).await;
    assert_eq!(code, 0, "{said:#?}");
    assert_eq!(of(&said, "no delay is longer than 3d")["passed"], true);
}

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
name = "the settings are taken"
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
async fn what_was_expected_stands_beside_what_was_found() {
    let (_folder, output) = wrong(&[]).await;
    assert_eq!(output.status.code(), Some(7));
    let shown = text(&output.stdout);
    for lines in [
        "✗ the class and the delay are others",
        "wrong.toml:4\n",
        "asked about attempt 3, 0s old: HTTP 503: service unavailable (HTTP 503); random 0.500",
        "    ✗ class    throttled  transient\n      verdict  retry      retry\n    ✗ delay    9s         4s\n",
        "    ✗ delay  1s to 8s  0s with random 0; so 125 of 1000\n    ✗ mean   5s to 6s  3s999ms over 1000\n",
        "    ✗ attempt 2 delay  3s               2s\n    ✗ attempt 4        1 more after it  the last: dead-letter: max-attempts of 4 reached: HTTP 503\n",
        "    ✗ attempts  4         more: retry in ",
        "    ✗ refused  … unknown setting …  the settings are taken\n",
        "✓ this one is right\n",
        "1 passed, 5 failed in ",
    ] {
        assert!(shown.contains(lines), "{lines:?} is not in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour but on a terminal");
    assert!(text(&output.stderr).contains("5 of 6 tests failed"));
}

#[tokio::test]
async fn a_junit_report_says_the_same() {
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
async fn a_policy_does_nothing_to_the_terminal_that_it_is_shown_on() {
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
async fn a_mistake_is_told_with_what_would_be_right() {
    let (folder, path) = folder(
        &waits(1),
        "[[scenario]]\nname = 'odd'\nexpect = { dely = '1s' }",
    );
    let nowhere = folder.path().join("nowhere.toml");
    for (arguments, code, expected) in [
        (
            &[path.as_str()][..],
            3,
            "scenario `odd`: line 3, column 12: unknown field `dely`, expected one of `class`",
        ),
        (
            &[&path, "--scenarios", nowhere.to_str().unwrap()],
            3,
            "can't read the scenarios",
        ),
        (
            &["linear", "--filter", "no such thing"],
            2,
            "no scenario and no check has `no such thing` in its name",
        ),
        (&["linear", "--no-checks"], 2, "there is nothing to run"),
        (&["linear", "--watch"], 2, "there is nothing to watch"),
        (
            &["no-such-policy"],
            4,
            "there is no built-in policy `no-such-policy`",
        ),
        (
            &[folder.path().to_str().unwrap()],
            1,
            "is no policy project: can't read",
        ),
    ] {
        let output = run(&[&["policy", "test"], arguments].concat()).await;
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
}

#[tokio::test]
async fn a_failure_by_its_name_is_asked_about_and_changed_by_flags() {
    let asked = ["policy", "run", "linear", "--json", "--preset", "http-429"];
    let more = ["--status", "503", "--detail", "a=b"];
    let said = run(&[&asked[..], &more].concat()).await;
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["action"]["delay"], 30_000);
    let error = &said["failure"]["error"];
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
async fn a_project_is_tested_by_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("build")).unwrap();
    std::fs::write(folder.path().join("policy.toml"), "name = \"orders\"\n").unwrap();
    std::fs::write(folder.path().join("build/orders.wasm"), waits(5)).unwrap();
    std::fs::write(
        folder.path().join("scenarios.toml"),
        "[[scenario]]\nname = 'it waits'\nexpect = { delay = '5ms' }",
    )
    .unwrap();
    let output = command(&["policy", "test", "--no-checks"])
        .current_dir(&folder)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("✓ it waits"));
}

#[tokio::test]
async fn watching_tests_again_when_something_changes_and_survives_a_mistake() {
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
    // One round for each change; what is waited for is a line, never a time.
    let scenarios = scenarios.to_str().unwrap();
    for (change, shown) in [
        (None, Some("✓ it waits")),
        (Some((path.as_str(), waits(6))), Some("✗ it waits")),
        (Some((scenarios, scenario("6ms"))), Some("✓ it waits")),
        (Some((scenarios, "odd".to_owned())), None),
        (Some((scenarios, scenario("7ms"))), Some("✗ it waits")),
    ] {
        if let Some((file, content)) = change {
            // As an editor does it: written beside, and moved over.
            let beside = folder.path().join("beside");
            std::fs::write(&beside, content).unwrap();
            std::fs::rename(&beside, file).unwrap();
        }
        if let Some(shown) = shown {
            while !stdout
                .next_line()
                .await
                .unwrap()
                .unwrap()
                .starts_with(shown)
            {}
        }
        let mut told = String::new();
        while !told.contains("waiting for changes in ") {
            told.push_str(&stderr.next_line().await.unwrap().unwrap());
        }
        assert_eq!(told.contains("error: "), shown.is_none(), "{told}");
    }
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
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
    let blocks = blocks(&document(), "toml");
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let (folder, path) = folder(&cart.text(), &block);
        let scenarios = folder.path().join("scenarios.toml");
        // What looks into the body is asked of a policy that does.
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
        let (code, said) = test(&arguments).await;
        assert_eq!(code, 0, "{block}\n{said:#?}");
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
    let blocks = blocks(&document(), "sh");
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
    let document = document();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn every_key_and_every_field_is_documented_and_no_other() {
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
    let (_, mut said) = test(&[&path, "--cases", "10"]).await;
    drop(folder);
    let counts = "(i32.store (i32.const 32) (i32.add (i32.load (i32.const 32)) (i32.const 1))) (i32.load (i32.const 32))";
    let (_folder, path) = self::folder(&delays(counts), "");
    said.extend(test(&[&path, "--filter", "same answer"]).await.1);
    let fields = said
        .iter()
        .flat_map(|line| line.as_object().unwrap().keys().cloned());
    known.extend(fields);
    assert_eq!(documented(), known);
}
