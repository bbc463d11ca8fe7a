//! `backstop policy replay`: records that a host wrote, passed to the same policies and to others.
//!
//! `RENEW=1 cargo test --workspace --test command_line records_of_another` writes the records of `corpus/replay` again, and the chart of `host/docs/policies/replay.md`.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use backstop_engine::{Limits, Sandbox};
use backstop_tests::backstop::{command, read_records, text};
use backstop_tests::documents::top;
use backstop_tests::policies::{Rule, waits};
use backstop_tests::preview_1::component;
use backstop_tests::registry::Registry;
use backstop_tests::testing::svg_texts;
use backstop_tests_host::records::{MOST_ATTEMPTS, write};
use backstop_versions::Source;
use backstop_workbench::replay::{Candidate, Lines, Replay};
use backstop_workbench::subject::Subject;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

/// Records of another day, and the configuration that they were written under.
fn corpus() -> PathBuf {
    top().join("tests/corpus/replay")
}

/// Policies of the corpus, by the file's name.
fn policies() -> [(&'static str, String); 3] {
    let has_tenant = format!(
        "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000)) (if (result i32) (i32.load8_u (i32.const 3000)) (then (i32.const 144)) (else {}))",
        Rule::FIRST
    );
    let carts = Rule {
        classify: Some(&has_tenant),
        judge: Some(
            "(if (result i32) (i32.ge_u (i32.load offset=16 (local.get 0)) (i32.const 8)) (then (i32.const 128)) (else (i32.const 64)))",
        ),
        delay: Some("(i32.mul (i32.load offset=16 (local.get 0)) (i32.const 1500))"),
        ..Rule::default()
    };
    let breaks = Rule {
        delay: Some(
            "(if (i32.eq (i32.load offset=16 (local.get 0)) (i32.const 2)) (then unreachable)) (i32.const 5000)",
        ),
        ..Rule::default()
    };
    // No class of its own, gives up earlier, waits for other times, and traps at each third attempt.
    let changed = Rule {
        judge: Some(
            "(if (result i32) (i32.ge_u (i32.load offset=16 (local.get 0)) (i32.const 6)) (then (i32.const 128)) (else (i32.const 64)))",
        ),
        delay: Some(
            "(if (i32.eq (i32.load offset=16 (local.get 0)) (i32.const 3)) (then unreachable)) (i32.const 4500)",
        ),
        ..Rule::default()
    };
    [
        ("carts.wat", carts.text()),
        ("breaks.wat", breaks.text()),
        ("changed.wat", changed.text()),
    ]
}

fn renew() {
    let corpus = corpus();
    for (name, text) in policies() {
        std::fs::write(corpus.join(name), text).unwrap();
    }
    let records = corpus.join("decisions.jsonl");
    let _ = std::fs::remove_file(&records);
    write(&corpus.join("backstop.toml"), 48, &records);
    let text = std::fs::read_to_string(&records).unwrap();
    let here = format!("{}/./", corpus.display());
    std::fs::write(&records, text.replace(&here, "./")).unwrap();
}

/// The chart of the document: the records of full jitter, passed to equal jitter.
async fn renew_chart() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    write(&corpus().join("backstop.toml"), 12_000, &records);
    let chart = top().join("host/docs/pictures/replay.svg");
    let arguments = [
        records.to_str().unwrap(),
        "--queue",
        "full-jitter",
        "--policy",
        "equal-jitter",
        "--svg",
        chart.to_str().unwrap(),
    ];
    assert_eq!(replay(&arguments).await.status.code(), Some(8));
}

/// `backstop policy replay` in the folder of the corpus.
async fn replay(arguments: &[&str]) -> Output {
    replay_in(&corpus(), arguments).await
}

async fn replay_in(folder: &Path, arguments: &[&str]) -> Output {
    command(&[&["policy", "replay"], arguments].concat())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap()
}

/// Its exit code and its report.
async fn report_in(folder: &Path, arguments: &[&str]) -> (i32, Value) {
    let output = replay_in(folder, &[arguments, &["--json"]].concat()).await;
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    (output.status.code().unwrap(), found["report"].clone())
}

/// A copy of the corpus with a part of its configuration replaced.
fn changed(from: &str, to: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(corpus()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let path = folder.path().join("backstop.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    assert!(config.contains(from), "{from}");
    std::fs::write(&path, config.replace(from, to)).unwrap();
    folder
}

fn pinned(queue: &str) -> Vec<Value> {
    let mut records = read_records(&corpus().join("decisions.jsonl"));
    records.retain(|record| record["queue"] == queue);
    records
}

/// Keys that are missing in `apart` count as 0.
fn apart(report: &Value, why: &str) -> u64 {
    report["not-comparable"][why].as_u64().unwrap_or_default()
}

fn records_in(report: &Value, what: &str, new: &str) -> u64 {
    let changes = report["changes"].as_array().unwrap();
    let found = changes
        .iter()
        .find(|change| change["what"] == what && (new.is_empty() || change["new"] == new));
    found.map_or(0, |change| change["records"].as_u64().unwrap())
}

#[tokio::test]
async fn records_of_another_machine_and_day_replay_without_a_difference() {
    if std::env::var_os("RENEW").is_some() {
        renew();
        renew_chart().await;
    }
    let (code, report) =
        report_in(&corpus(), &["decisions.jsonl", "--config", "backstop.toml"]).await;
    assert_eq!((code, &report["different"]), (0, &0.into()), "{report:#}");
    assert_eq!(report["records"], 7 * 48);
    // If a queue limit decided, the record does not show whether the policy was broken.
    let hidden = pinned("breaks")
        .iter()
        .filter(|record| record["by"] == "bound" && record["failure"]["attempt"] == 2)
        .count();
    assert_eq!(hidden, 0, "the policy breaks before the bound");
    assert_eq!(report["not-comparable"], serde_json::json!({}));
    let by: std::collections::BTreeSet<_> = read_records(&corpus().join("decisions.jsonl"))
        .iter()
        .map(|record| record["by"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        by.iter().map(String::as_str).collect::<Vec<_>>(),
        ["bound", "fallback", "policy", "shortened"],
        "the corpus has every kind of decision"
    );
}

#[tokio::test]
async fn thousands_of_records_replay_without_a_difference() {
    let folder = changed("# The queues", "# The queues");
    let records = folder.path().join("many.jsonl");
    write(&folder.path().join("backstop.toml"), 600, &records);
    let many = records.to_str().unwrap();
    let (code, report) = report_in(folder.path(), &[many, "--config", "backstop.toml"]).await;
    assert_eq!((code, &report["different"]), (0, &0.into()), "{report:#}");
    assert_eq!(report["same"], 7 * 600);
    // One component by its name, with the settings of the records.
    for queue in [
        "full-jitter",
        "equal-jitter",
        "decorrelated-jitter",
        "linear",
    ] {
        let arguments = [many, "--policy", queue, "--queue", queue];
        let (code, report) = report_in(folder.path(), &arguments).await;
        assert_eq!((code, &report["same"]), (0, &600.into()), "{report:#}");
        assert_eq!(report["other-queues"]["carts"], 600);
    }
}

#[tokio::test]
async fn a_policy_that_draws_random_bytes_replays_without_a_difference() {
    // One bit of the recorded random number would change all of them.
    let core = r#"(module
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (memory (export "memory") 4)
        (global $next (mut i32) (i32.const 8192))
        (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1))) (i32.sub (i32.const 0) (local.get $align))))
            (global.set $next (i32.add (local.get $at) (local.get $size)))
            (local.get $at))
        (func (export "backstop:policy/backoff@0.1.0#delay") (param i32) (result i32)
            (drop (call $random (i32.const 340) (i32.const 4)))
            (i32.and (i32.load (i32.const 340)) (i32.const 0xffffff))))"#;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("backstop.toml");
    let queue = "[queues.draws]\nurl = \"local:draws\"\nhandler = { exec = [\"true\"] }\npolicy = \"./draws.wasm\"\n";
    std::fs::write(&config, queue).unwrap();
    let module = wat::parse_str(core).unwrap();
    std::fs::write(folder.path().join("draws.wasm"), component(module)).unwrap();
    write(&config, 600, &folder.path().join("decisions.jsonl"));
    let arguments = ["decisions.jsonl", "--policy", "./draws.wasm"];
    let (code, report) = report_in(folder.path(), &arguments).await;
    assert_eq!((code, &report["same"]), (0, &600.into()), "{report:#}");
}

#[tokio::test]
async fn records_of_a_run_replay_without_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..40)
        .map(|number| format!("{{\"n\": {number}}}\n"))
        .collect();
    std::fs::write(folder.path().join("lines"), lines).unwrap();
    let run = [
        "run",
        "--queue-url",
        "local:try",
        "--policy",
        "full-jitter",
        "--set",
        "base=20ms",
        "--set",
        "max-attempts=4",
        "--exec",
        "false",
        "--messages",
        "lines",
        "--decisions",
        "decisions.jsonl",
    ];
    let ran = command(&run).current_dir(&folder).output().await.unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let arguments = ["decisions.jsonl", "--policy", "full-jitter"];
    let (code, report) = report_in(folder.path(), &arguments).await;
    assert_eq!((code, &report["same"]), (0, &160.into()), "{report:#}");
    let settings = ["--set", "base=21ms", "--set", "max-attempts=4"];
    let (code, report) = report_in(folder.path(), &[&arguments[..], &settings].concat()).await;
    assert_eq!(code, 8);
    assert_eq!(report["verdicts"][0]["records"], 40, "the last attempts");
    assert!(records_in(&report, "longer", "") > 60, "{report:#}");
}

#[test]
fn the_result_does_not_depend_on_the_pool_of_instances_or_the_number_of_threads() {
    let records = corpus().join("decisions.jsonl");
    let report_of = |sandbox: Sandbox, threads| {
        let source = Source::path(corpus().join("changed.wat"));
        let subject = Subject::load(&sandbox, &source, "changed").unwrap();
        let replay = Replay {
            new: &Candidate::AsRecorded(subject),
            old: None,
            queue: Some("carts"),
            samples: 5,
        };
        let mut lines = Lines::of(vec![records.clone()]);
        let report = replay.run(&mut lines, threads, |_| {}).unwrap();
        assert!(report.different > 30);
        serde_json::to_string(&report).unwrap()
    };
    let pooled = Sandbox::new(Limits::default()).unwrap();
    let first = report_of(pooled, 1);
    for threads in [1, 5] {
        let on_demand = Sandbox::on_demand(Limits::default()).unwrap();
        assert_eq!(report_of(on_demand, threads), first);
    }
}

#[tokio::test]
async fn a_changed_setting_shows_the_records_that_it_changes_and_no_others() {
    let linear = pinned("linear");
    let has = |wanted: &dyn Fn(u64, &Value) -> bool| -> u64 {
        let wanted =
            |record: &&Value| wanted(record["failure"]["attempt"].as_u64().unwrap(), record);
        linear.iter().filter(wanted).count() as u64
    };
    let folder = changed(r#"base = "10s", max"#, r#"base = "20s", max"#);
    let arguments = ["decisions.jsonl", "--config", "backstop.toml"];
    let (code, report) = report_in(folder.path(), &arguments).await;
    // The delay that a service requests is longer than both.
    let longer = has(&|attempt, record| {
        let requested = record["failure"]["error"]["retry-after"]
            .as_u64()
            .unwrap_or(0);
        record["verdict"] == "retry" && attempt * 20_000 > requested
    });
    assert_eq!(code, 8);
    assert_eq!(report["different"], longer, "{report:#}");
    assert_eq!(records_in(&report, "longer", ""), longer);
    assert!(longer > 10);

    let folder = changed("max-attempts = 6", "max-attempts = 4");
    let (code, report) = report_in(folder.path(), &arguments).await;
    let earlier = has(&|attempt, record| record["verdict"] == "retry" && attempt >= 4);
    let reasons = has(&|_, record| {
        let reason = record["reason"].as_str().unwrap_or_default();
        reason.starts_with("max-attempts of 6")
    });
    assert_eq!(code, 8);
    assert_eq!(records_in(&report, "verdict", "dead-letter"), earlier);
    assert_eq!(records_in(&report, "reason", ""), reasons);
    assert_eq!(report["different"], earlier + reasons);
    assert!(earlier >= 5 && reasons >= 5, "{earlier} {reasons}");
    let share = (earlier + reasons) as f64 / (7.0 * 48.0) * 100.0;
    for (allowed, expected) in [(share + 0.1, 0), (share - 0.1, 8)] {
        let allowed = format!("{allowed}%");
        let arguments = [&arguments[..], &["--allow", &allowed]].concat();
        assert_eq!(report_in(folder.path(), &arguments).await.0, expected);
    }
}

#[tokio::test]
async fn a_changed_policy_is_shown_with_tables_bars_and_samples() {
    let arguments = [
        "decisions.jsonl",
        "--policy",
        "./changed.wat",
        "--queue",
        "carts",
        "--samples",
        "1",
    ];
    let output = replay(&arguments).await;
    assert_eq!(output.status.code(), Some(8));
    insta::assert_snapshot!("replay", text(&output.stdout));
    assert_eq!(
        text(&output.stderr),
        "error: the policy breaks on 4 of 48 failures that were answered before\n"
    );
    // New breakage is never allowed.
    let all = replay(&[&arguments[..], &["--allow", "100%"]].concat()).await;
    assert_eq!(all.status.code(), Some(8));
}

#[tokio::test]
async fn the_command_to_inspect_a_sample_gives_the_answer_of_the_replay() {
    let arguments = [
        "decisions.jsonl",
        "--policy",
        "linear",
        "--queue",
        "full-jitter",
    ];
    let output = replay(&arguments).await;
    let shown = text(&output.stdout);
    let command = shown.lines().find_map(|line| line.strip_prefix("explain"));
    let backstop = backstop_tests::backstop::program("backstop");
    let command = command
        .unwrap_or_else(|| panic!("{shown}"))
        .replace("backstop policy", &format!("{} policy", backstop.display()));
    let looked = tokio::process::Command::new("sh")
        .args(["-c", &command])
        .current_dir(corpus())
        .env("NO_COLOR", "1")
        .output()
        .await
        .unwrap();
    let new = shown.lines().find_map(|line| line.strip_prefix("    new"));
    let (_, verdict) = new.unwrap().split_once(", ").unwrap();
    let looked = text(&looked.stdout);
    assert!(
        looked.contains(&format!("verdict   {verdict}\n")),
        "{verdict}: {looked}"
    );
}

#[tokio::test]
async fn a_record_is_evaluated_with_its_parts_of_the_payload() {
    let carts = pinned("carts");
    let class = |record: &Value| record["class"]["other"] == "cart";
    let record = carts.iter().find(|record| class(record)).unwrap();
    let mut child = command(&["policy", "run", "./carts.wat", "--failure", "-", "--json"])
        .current_dir(corpus())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(record.to_string().as_bytes())
        .await
        .unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(class(&found), "{found:#}");
    assert_eq!(found["payload"], record["payload"]);
}

#[tokio::test]
async fn two_policies_are_compared_independently_of_recorded_decisions() {
    let with = |against: &'static str, policy: &'static str| {
        let arguments = [
            "decisions.jsonl",
            "--queue",
            "full-jitter",
            "--policy",
            policy,
            "--against",
            against,
        ];
        async move { report_in(&corpus(), &arguments).await }
    };
    let (code, report) = with("linear", "linear").await;
    assert_eq!((code, &report["same"]), (0, &48.into()));
    let (code, report) = with("linear", "equal-jitter").await;
    assert_eq!(code, 8);
    let shorter = records_in(&report, "shorter", "");
    let longer = records_in(&report, "longer", "");
    assert_eq!(report["different"], shorter + longer);
    assert!(
        report["old-delays"]["records"].as_u64().unwrap() > 30,
        "no bound is between two policies"
    );
    let (_, report) = with("./breaks.wat", "./changed.wat").await;
    assert_eq!(records_in(&report, "fixed", ""), 3);
    assert_eq!(records_in(&report, "breaks", ""), 4);
}

#[tokio::test]
async fn a_released_policy_is_compared_at_its_location() {
    let registry = Registry::start();
    let place = format!("oci://{}/carts:1.0.0", registry.address());
    let folder = tempfile::tempdir().unwrap();
    let released = wat::parse_file(corpus().join("carts.wat")).unwrap();
    std::fs::write(folder.path().join("carts.wasm"), released).unwrap();
    let pushed = command(&["policy", "push", "carts.wasm", &place])
        .current_dir(&folder)
        .output()
        .await
        .unwrap();
    assert!(pushed.status.success(), "{}", text(&pushed.stderr));
    for (policy, expected) in [("./carts.wat", 0), ("./changed.wat", 8)] {
        let arguments = [
            "decisions.jsonl",
            "--queue",
            "carts",
            "--policy",
            policy,
            "--against",
            &place,
        ];
        let (code, report) = report_in(&corpus(), &arguments).await;
        assert_eq!(code, expected, "{report:#}");
    }
}

#[tokio::test]
async fn reads_that_records_do_not_contain_are_counted_and_reported() {
    // The records of linear have no payload; carts.wat reads /tenant.
    let arguments = [
        "decisions.jsonl",
        "--queue",
        "linear",
        "--policy",
        "./carts.wat",
    ];
    let output = replay(&arguments).await;
    let shown = text(&output.stdout);
    let expected = "48 not compared: the policy reads /tenant of the payload, which the records do not contain";
    assert!(shown.contains(expected), "{shown}");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("none of the 48 records could be compared"));
    let (_, report) = report_in(&corpus(), &arguments).await;
    assert_eq!(apart(&report, "not-recorded"), 48);
    assert_eq!(report["not-recorded"]["/tenant"], 48);
    assert_eq!(report["different"], 0);
}

#[tokio::test]
async fn decisions_that_are_not_repeatable_are_counted_separately() {
    let record = |by: &str, cause: &str, attempt: u64| {
        let mut record = pinned("breaks")[0].clone();
        record["by"] = by.into();
        record["cause"] = cause.into();
        record["failure"]["attempt"] = attempt.into();
        record["verdict"] = "retry".into();
        record["delay"] = 1.into();
        record["class"] = "transient".into();
        if by == "bound" {
            record["verdict"] = "dead-letter".into();
            record["reason"] = cause.into();
            record.as_object_mut().unwrap().remove("delay");
        }
        record.to_string()
    };
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        record("fallback", "the policy was stopped after 2s in delay", 1),
        record("fallback", "the policy is not at work: no such file", 1),
        record("fallback", "the host failed while it asked the policy", 1),
        record("bound", "the queue's max-age of 1m reached", 2),
        record("bound", "the queue's max-age of 1m reached", 1),
        record("fallback", "the policy failed in delay: another trap", 2),
    ];
    std::fs::write(folder.path().join("d.jsonl"), lines.join("\n")).unwrap();
    let policy = corpus().join("breaks.wat");
    let arguments = ["d.jsonl", "--policy", policy.to_str().unwrap()];
    let (code, report) = report_in(folder.path(), &arguments).await;
    assert_eq!((code, &report["same"]), (0, &2.into()), "{report:#}");
    for (why, expected) in [("out-of-time", 1), ("no-policy", 2), ("bound", 1)] {
        assert_eq!(apart(&report, why), expected, "{report:#}");
    }
}

#[tokio::test]
async fn lines_that_are_not_records_are_reported_and_skipped() {
    let pinned = std::fs::read_to_string(corpus().join("decisions.jsonl")).unwrap();
    let mut lines: Vec<_> = pinned.lines().take(30).collect();
    let torn = &lines[0][..300];
    lines.insert(3, torn);
    lines.insert(5, "");
    lines.insert(7, r#"{"level":"INFO","message":"ready"}"#);
    lines.extend(["ready to serve", "  ", "[]", "{}", "\u{1b}[2J"]);
    let given = lines.join("\r\n");
    let mut child = command(&["policy", "replay", "-", "--policy", "full-jitter"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The corpus begins with the queue assembled: any policy will do, because only the reads matter.
    let mut input = child.stdin.take().unwrap();
    input.write_all(given.as_bytes()).await.unwrap();
    drop(input);
    let shown = text(&child.wait_with_output().await.unwrap().stdout);
    for expected in [
        "records    30 of",
        "unreadable standard input:4 is cut short after 300 bytes",
        "unreadable standard input:8 is not a decision record: missing field",
        "unreadable standard input:34 is not JSON: expected value, at byte 1",
        "unreadable 1 more lines",
    ] {
        assert!(shown.contains(expected), "{expected:?} is not in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'));
}

#[tokio::test]
async fn a_chart_shows_both_distributions_of_delays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("delays.svg");
    let arguments = [
        "decisions.jsonl",
        "--queue",
        "full-jitter",
        "--policy",
        "equal-jitter",
        "--svg",
        path.to_str().unwrap(),
    ];
    let output = replay(&arguments).await;
    let shown = text(&output.stdout);
    assert!(
        shown.ends_with(&format!("chart      {}\n", path.display())),
        "{shown}"
    );
    let drawn = std::fs::read_to_string(&path).unwrap();
    let document = roxmltree::Document::parse(&drawn).unwrap();
    let found = svg_texts(&document);
    assert!(found.iter().any(|text| text == "recorded"), "{found:?}");
    assert!(found.iter().any(|text| text.starts_with("equal-jitter (")));
    let medians = found.iter().filter(|text| text.starts_with("median "));
    assert_eq!(medians.count(), 2);
}

#[tokio::test]
async fn a_mistake_is_explained_with_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("empty.jsonl", ""),
        ("log.txt", "ready\n"),
        ("p.wat", &waits(5)),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let records = corpus().join("decisions.jsonl");
    let config = corpus().join("backstop.toml");
    let (records, config) = (records.to_str().unwrap(), config.to_str().unwrap());
    let mistakes: [(&[&str], i32, &str); 12] = [
        (&[records], 2, "--policy"),
        (&["--policy", "linear"], 2, "<RECORDS>"),
        (
            &[records, "--policy", "linear", "--config", config],
            2,
            "cannot be used with",
        ),
        (
            &["none.jsonl", "--policy", "linear"],
            3,
            "none.jsonl: there is no such file; expected decision records",
        ),
        (
            &[".", "--policy", "linear"],
            3,
            "it is a folder; expected a file",
        ),
        (&["empty.jsonl", "--policy", "linear"], 2, "it is empty"),
        (
            &["log.txt", "--policy", "linear"],
            2,
            "1 of its lines are not decision records; log.txt:1 is not JSON",
        ),
        (
            &[records, "--policy", "linear", "--queue", "odd"],
            2,
            "its records are from the queues assembled, breaks, carts",
        ),
        (
            &[records, "--config", config, "--queue", "odd"],
            2,
            "has no queue `odd`",
        ),
        (
            &[records, "--policy", "linear", "--allow", "3"],
            2,
            "such as 1% or 0.5%",
        ),
        (
            &[records, "--policy", "linear", "--set", "bas=1s"],
            4,
            "unknown setting `bas`",
        ),
        (
            &[records, "--policy", "lineal"],
            4,
            "there is no built-in policy `lineal`",
        ),
    ];
    for (arguments, code, expected) in mistakes {
        let output = replay_in(folder.path(), arguments).await;
        let printed_text = text(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {printed_text}"
        );
        assert!(
            printed_text.contains(expected),
            "{expected:?} is not in:\n{printed_text}"
        );
    }
    // Settings of the records that another policy does not accept.
    let arguments = [records, "--queue", "carts", "--policy", "p.wat"];
    let (_, report) = report_in(folder.path(), &arguments).await;
    assert_eq!(report["broken"], serde_json::json!({}));
    assert_eq!(report["records"], u64::from(4 * (MOST_ATTEMPTS + 2)));
}
