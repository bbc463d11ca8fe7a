//! `backstop policy simulate`: timetables and contention.

use std::path::Path;

use backstop_tests::backstop::{command, run, text};
use backstop_tests::documents::{document, top};
use backstop_tests::policies::{Rule, down_for, waits};
use backstop_tests::testing::svg_texts;
use serde_json::Value;

/// The output of a command that succeeds.
async fn simulated(arguments: &[&str]) -> String {
    let output = run(&[&["policy", "simulate"], arguments].concat()).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        output.stderr.is_empty(),
        "progress is shown on a terminal alone: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

async fn as_json(arguments: &[&str]) -> Value {
    serde_json::from_str(&simulated(&[arguments, &["--json"]].concat()).await).unwrap()
}

/// A policy's file in its own folder.
fn policy(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.wat");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

const LINEAR: [&str; 7] = [
    "linear",
    "--set",
    "base=10s",
    "--set",
    "max-attempts=4",
    "--messages",
    "50",
];

#[tokio::test]
async fn a_timetable_shows_when_attempts_come_and_how_messages_end() {
    let shown = simulated(&LINEAR).await;
    let (policy, rest) = shown.split_once('\n').unwrap();
    assert!(policy.starts_with("policy     linear ("), "{policy}");
    insta::assert_snapshot!("timetable", rest);
    let found = as_json(&LINEAR).await;
    let timetable = &found["timetable"];
    let medians: Vec<_> = timetable["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["since-first-failure"]["median"].as_u64().unwrap())
        .collect();
    assert_eq!(medians, [10_000, 30_000, 60_000]);
    assert_eq!(timetable["ended"][0]["verdict"], "dead-letter");
    assert_eq!(timetable["ended"][0]["messages"], 50);
    assert_eq!(timetable["evaluation"], "live");
    assert_eq!(found["policy"][0]["name"], "linear");
}

#[tokio::test]
async fn a_timetable_as_csv_has_a_line_for_each_attempt() {
    let shown = simulated(&[&LINEAR[..], &["--csv"]].concat()).await;
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("attempt,messages,delay-earliest-ms,"));
    assert_eq!(
        lines[3],
        "4,50,30000,30000,30000,30000,30000,60000,60000,60000,60000,60000"
    );
    assert_eq!(lines.len(), 4);
}

#[tokio::test]
async fn the_flags_of_a_failure_and_of_the_queue_reach_the_policy() {
    let throttled = as_json(&[
        "full-jitter",
        "--code",
        "ThrottlingException",
        "--retry-after",
        "90s",
        "--max-attempts",
        "3",
        "--messages",
        "20",
        "--attempt-takes",
        "7s",
    ])
    .await;
    let rows = &throttled["timetable"]["attempts"];
    assert_eq!(rows[0]["delay"]["earliest"], 90_000);
    assert_eq!(rows[1]["since-first-failure"]["earliest"], 187_000);
    let reason = throttled["timetable"]["ended"][0]["reason"]
        .as_str()
        .unwrap();
    assert_eq!(
        reason,
        "the queue's max-attempts of 3 reached: ThrottlingException"
    );
    let permanent = as_json(&["full-jitter", "--code", "Odd", "--status", "404"]).await;
    assert_eq!(permanent["timetable"]["attempts"], Value::Array(Vec::new()));
    assert_eq!(
        permanent["timetable"]["ended"][0]["reason"],
        "permanent: Odd"
    );
}

#[tokio::test]
async fn the_same_seed_gives_the_same_result_and_another_seed_another() {
    let timetable = ["equal-jitter", "--max-attempts", "6", "--messages", "99"];
    let contention = ["--contention", "--clients", "12", "--runs", "5"];
    for arguments in [&timetable[..], &contention] {
        let with = |more: &'static [&'static str]| {
            let arguments = [arguments, more].concat();
            async move { simulated(&[&arguments[..], &["--json"]].concat()).await }
        };
        let first = with(&["--threads", "1"]).await;
        assert_eq!(with(&["--threads", "5"]).await, first);
        assert_ne!(with(&["--seed", "1"]).await, first);
    }
}

#[tokio::test]
async fn the_fallback_decides_for_a_broken_policy_and_that_is_reported() {
    // The probe has no second attempt.
    let breaks_once = Rule {
        delay: Some(
            "(if (i32.eq (i32.load offset=16 (local.get 0)) (i32.const 2)) (then unreachable)) (i32.const 5000)",
        ),
        ..Rule::default()
    };
    let (_folder, path) = policy(&breaks_once.text());
    let shown = simulated(&[&path, "--messages", "10", "--max-attempts", "3"]).await;
    let expected = "the fallback made 10 decisions instead";
    assert!(
        shown.contains(expected) && shown.contains("failed in delay"),
        "{expected:?} is not in:\n{shown}"
    );
}

#[tokio::test]
async fn a_policy_with_state_is_evaluated_in_fresh_instances() {
    let counts = Rule {
        delay: Some(
            "(global.set $asked (i32.add (global.get $asked) (i32.const 1000))) (global.get $asked)",
        ),
        ..Rule::default()
    };
    let counts = counts.text().replace(
        "(func $recurse",
        "(global $asked (mut i32) (i32.const 0)) (func $recurse",
    );
    let (_folder, path) = policy(&counts);
    let found = as_json(&[&path, "--messages", "3", "--max-attempts", "5"]).await;
    assert_eq!(found["timetable"]["evaluation"], "fresh");
    for row in found["timetable"]["attempts"].as_array().unwrap() {
        assert_eq!(row["delay"]["latest"], 1_000);
    }
    let found = as_json(&["--contention", &path, "--clients", "4", "--runs", "2"]).await;
    let asked: Vec<_> = found["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["evaluation"])
        .collect();
    assert_eq!(asked, ["live", "live", "fresh"]);
}

#[tokio::test]
async fn contention_compares_policies_with_both_baselines() {
    let arguments = [
        "--contention",
        "full-jitter:base=10ms,cap=2s",
        "linear:max-attempts=2",
        "--set",
        "base=5ms",
        "--clients",
        "1,5,40",
        "--runs",
        "8",
    ];
    insta::assert_snapshot!("contention", simulated(&arguments).await);
    let found = as_json(&arguments).await;
    let cells = found["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4 * 3);
    let mean = |policy: &str, clients: u64, what: &str| {
        let is_it = |cell: &&Value| {
            cell["policy"].as_str().unwrap().starts_with(policy) && cell["clients"] == clients
        };
        let cell = cells.iter().find(is_it).unwrap();
        cell[what]["mean"].as_f64().or(cell[what].as_f64()).unwrap()
    };
    for policy in ["none", "exponential", "full-jitter", "linear"] {
        assert_eq!(mean(policy, 1, "calls"), 1.0);
        assert!(
            (34.0..46.0).contains(&mean(policy, 1, "time")),
            "four messages of 10 ms"
        );
        assert!(mean(policy, 40, "calls") > 40.0);
    }
    assert!(mean("full-jitter", 40, "calls") < mean("exponential", 40, "calls"));
    assert!(mean("linear", 40, "gave-up") > 1.0);
    assert_eq!(mean("full-jitter", 40, "gave-up"), 0.0);
    let csv = simulated(&[&arguments[..], &["--csv"]].concat()).await;
    assert_eq!(csv.lines().count(), 1 + 4 * 3);
    assert!(
        csv.contains("\n\"full-jitter (base=10ms, cap=2s)\",1,"),
        "{csv}"
    );
}

#[tokio::test]
async fn charts_are_svg_with_text_and_png_of_twice_the_size() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, png) = (folder.path().join("c.svg"), folder.path().join("c.png"));
    let files = [
        "--svg",
        svg.to_str().unwrap(),
        "--png",
        png.to_str().unwrap(),
    ];
    let timetable = [
        "full-jitter",
        "--max-attempts",
        "5",
        "--messages",
        "100",
        "--code",
        "A<&B",
    ];
    let contention = ["--contention", "--clients", "5,10", "--runs", "2"];
    let texts: [&[&str]; 2] = [
        &[
            "When a message that always fails is retried",
            "attempt",
            "median",
            "full-jitter: 100 messages that fail with A<&B. Bars go from the 5th to the 95th percentile; dots are medians.",
        ],
        &[
            "What contention costs, policy by policy",
            "none",
            "exponential",
            "decorrelated-jitter (base=5ms, cap=2s)",
            "clients",
        ],
    ];
    for (arguments, texts) in [&timetable[..], &contention].into_iter().zip(texts) {
        let shown = simulated(&[arguments, &files].concat()).await;
        assert!(
            shown.contains(&format!("chart      {}\n", svg.display())),
            "{shown}"
        );
        let drawn = std::fs::read_to_string(&svg).unwrap();
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let found = svg_texts(&document);
        for text in texts {
            assert!(
                found.iter().any(|found| found == text),
                "{text:?} is not in {found:?}"
            );
        }
        let size = |name: &str| -> u32 {
            document
                .root_element()
                .attribute(name)
                .unwrap()
                .parse()
                .unwrap()
        };
        let file = std::io::BufReader::new(std::fs::File::open(&png).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(
            reader.info().size(),
            (2 * size("width"), 2 * size("height"))
        );
        let white = pixels.iter().filter(|channel| **channel == 0xff).count();
        assert!(
            white > pixels.len() / 2 && white < pixels.len() * 99 / 100,
            "drawn on white"
        );
    }
}

#[tokio::test]
async fn the_commands_of_the_document_run() {
    let document = document("host/docs/policies/simulate.md");
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(top().join("examples"), folder.path().join("examples")).unwrap();
    let commands: Vec<_> = document
        .lines()
        .filter_map(|line| line.strip_prefix("backstop "))
        .collect();
    assert_eq!(commands.len(), 5);
    // A test of the project compares the output of that of an outage.
    let commands = commands
        .into_iter()
        .filter(|line| !line.contains("--outage"));
    for line in commands {
        let mut arguments: Vec<_> = line.split(' ').collect();
        // The full sweep takes a minute even when optimised: a part is enough.
        if !line.contains("--clients") && line.contains("--contention") {
            arguments.extend(["--runs", "1"]);
        }
        let output = command(&arguments)
            .current_dir(&folder)
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        assert!(!output.stdout.is_empty(), "{line}");
    }
    for chart in ["retries.svg", "contention.svg"] {
        assert!(folder.path().join(chart).exists(), "{chart}");
    }
}

#[tokio::test]
async fn a_mistake_is_explained_with_what_is_expected() {
    let (folder, path) = policy(&waits(1));
    let nowhere = folder.path().join("no/chart.svg");
    let nowhere = nowhere.to_str().unwrap();
    let mistakes: [(&[&str], i32, &str); 13] = [
        (&[], 2, "<NAME|FILE>"),
        (
            &["linear", "full-jitter"],
            2,
            "compare them with --contention",
        ),
        (&["none"], 2, "a timetable needs a policy"),
        (
            &["ful-jitter"],
            4,
            "there is no built-in policy `ful-jitter`",
        ),
        (&["linear", "--set", "bas=1s"], 4, "unknown setting `bas`"),
        (
            &[&path, "--set", "a=1"],
            4,
            "does not export backstop:policy/settings",
        ),
        (
            &["linear", "--svg", nowhere],
            2,
            "expected a file in a folder that exists",
        ),
        (&["linear", "--runs", "3"], 2, "--contention"),
        (&["linear", "--json", "--csv"], 2, "cannot be used with"),
        (&["--contention", "--set", "base=1s"], 2, "name one"),
        (
            &["--contention", "linear", "linear"],
            2,
            "linear is named twice",
        ),
        (
            &["--contention", "exponential:floor=1s"],
            2,
            "takes base and cap, and no `floor`",
        ),
        (
            &["--contention", "--clients", "9..=1"],
            2,
            "such as 50, 10,100 or 10..=190/10",
        ),
    ];
    for (arguments, code, expected) in mistakes {
        let output = run(&[&["policy", "simulate"], arguments].concat()).await;
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
        assert!(!Path::new(nowhere).exists());
    }
}

const OUTAGE: [&str; 5] = ["linear", "--outage", "10m", "--rate", "2/s"];

#[tokio::test]
async fn an_outage_is_compared_without_and_with_a_breaker() {
    let shown = simulated(&OUTAGE).await;
    let (policy, rest) = shown.split_once('\n').unwrap();
    assert!(policy.starts_with("policy     linear ("), "{policy}");
    insta::assert_snapshot!("outage", rest);
    let found = as_json(&OUTAGE).await;
    assert_eq!(found["outage"], 600_000);
    assert_eq!(
        (&found["rate"], &found["attempt-takes"]),
        (&"2/s".into(), &200.into())
    );
    let runs = &found["runs"];
    let number = |run: &str, name: &str| runs[run][name].as_u64().unwrap();
    for run in ["without", "with"] {
        assert_eq!(number(run, "messages"), 1_320);
        assert_eq!((number(run, "succeeded"), number(run, "left")), (1_320, 0));
    }
    assert!(number("with", "requests-in-outage") * 50 < number("without", "requests-in-outage"));
    let csv = simulated(&[&OUTAGE[..], &["--csv", "--max-attempts", "3"]].concat()).await;
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("breaker,messages,requests-in-outage,requests,peak-hidden"));
    let dead = |line: &str| line.split(',').nth(7).unwrap().parse::<u64>().unwrap();
    assert!(dead(lines[1]) > 1_000 && dead(lines[2]) < 10, "{csv}");
    let with = |more: &'static [&'static str]| {
        let arguments = [&OUTAGE[..], more].concat();
        async move { simulated(&[&arguments[..], &["--json"]].concat()).await }
    };
    let first = with(&["--threads", "1"]).await;
    assert_eq!(with(&["--threads", "4"]).await, first);
}

#[tokio::test]
async fn a_policy_that_says_that_something_is_down_is_heard_in_the_simulation() {
    let said = down_for(240_000);
    let rule = Rule {
        delay: Some("(i32.const 5000)"),
        down_for: Some(&said),
        ..Rule::default()
    };
    let (_folder, path) = policy(&rule.text());
    let found = as_json(&[&path, "--outage", "10m", "--rate", "2/s"]).await;
    let with = &found["runs"]["with"];
    // One, and a probe after four and after eight minutes.
    assert_eq!(with["requests-in-outage"], 3, "{found}");
    assert_eq!(with["said-down"], 3);
}

#[tokio::test]
async fn an_outage_that_cannot_be_simulated_is_a_mistake_of_the_command() {
    for (more, expected) in [
        (&["--svg", "x.svg"][..], "--outage draws no chart"),
        (&["--attempt-takes", "0s"], "expected at least 1ms"),
        (
            &["--attempt-takes", "51s"],
            "need at least 103 in flight, and 100 are allowed",
        ),
        (&["--max-in-flight", "0"], "a whole number"),
        (&["--messages", "3"], "cannot be used with"),
        (&["--contention"], "cannot be used with"),
        (&["equal-jitter"], "exactly one policy, not 2"),
    ] {
        let output = run(&[&["policy", "simulate"], &OUTAGE[..], more].concat()).await;
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {told}");
        assert!(told.contains(expected), "{expected:?} is not in:\n{told}");
    }
    for (outage, expected) in [("0s", "from 1s to 7d"), ("8d", "from 1s to 7d")] {
        let output = run(&["policy", "simulate", "linear", "--outage", outage]).await;
        assert!(text(&output.stderr).contains(expected), "{outage}");
    }
    let baseline = run(&["policy", "simulate", "none", "--outage", "1m"]).await;
    assert!(text(&baseline.stderr).contains("an outage needs a policy"));
    let alone = run(&["policy", "simulate", "linear", "--rate", "1/s"]).await;
    assert!(text(&alone.stderr).contains("--outage"));
}
