//! The campaign, short, as a process; and faults that are planted, each of which has to be found.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

/// Runs a campaign to its end: whether every rule holds, what it printed, and its report.
async fn campaign(folder: &Path, arguments: &[&str]) -> (bool, String, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .arg("run")
        .args(["--folder", folder.to_str().unwrap()])
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let report = std::fs::read(folder.join("report.json"));
    let report = report.unwrap_or_else(|_| panic!("there is no report:\n{printed}"));
    let report = serde_json::from_slice(&report).unwrap();
    (output.status.success(), printed, report)
}

#[tokio::test]
async fn a_short_campaign_breaks_no_rule() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--seed", "1", "--seconds", "30", "--messages", "600"];
    let (holds, printed, report) = campaign(folder.path(), &arguments).await;
    assert!(holds, "{printed}");
    let figures = &report["figures"];
    // Those of deliveries come on top.
    assert!(figures["messages"].as_u64() >= Some(600), "{printed}");
    assert!(figures["faults"].as_u64().unwrap() > 10, "{printed}");
    // Of each site, one host is a program with workers inside.
    let programs = figures["programs"].as_object().unwrap().values();
    let mut programs: Vec<_> = programs.filter_map(Value::as_str).collect();
    programs.sort_unstable();
    assert_eq!(programs, ["command", "command", "node", "python"]);
    // What can't be done here is said.
    for skipped in figures["skipped"].as_array().unwrap() {
        println!("SKIPPED: {skipped}");
    }
}

/// The campaign has to find these faults: each by its rule, with this in the text. What is a matter of chance on a busy machine may take a second seed.
async fn finds(planted: &[(&str, &str, &str)]) {
    let missing = missed(planted, "7").await;
    if !missing.is_empty() {
        assert_eq!(missed(&missing, "8").await, []);
    }
}

/// The faults that a short campaign with this seed does not find.
async fn missed<'a>(
    planted: &[(&'a str, &'a str, &'a str)],
    seed: &str,
) -> Vec<(&'a str, &'a str, &'a str)> {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["--seed", seed, "--seconds", "12", "--messages", "400"];
    arguments.extend(["--drain", "20", "--calm"]);
    for (name, _, _) in planted {
        arguments.extend(["--plant", name]);
    }
    let (holds, printed, report) = campaign(folder.path(), &arguments).await;
    let wrong = report["wrong"].as_array().unwrap();
    assert_eq!(holds, wrong.is_empty(), "{printed}");
    let is_missed = |(_, rule, text): &&(&str, &str, &str)| {
        let is_it = |it: &Value| it["rule"] == *rule && it["text"].as_str().unwrap().contains(text);
        !wrong.iter().any(is_it)
    };
    planted.iter().filter(is_missed).copied().collect()
}

#[tokio::test]
async fn faults_of_workers_and_producers_are_found() {
    finds(&[
        (
            "forgets",
            "ended",
            "(attempts, letters, left) are (0, 0, 0)",
        ),
        ("sends-copies", "once", "is attempted again"),
        ("invents-letters", "letter", "nobody has decided so"),
    ])
    .await;
}

/// By themselves: what a host that ended had in hand may be attempted again, so copies would be excused.
#[tokio::test]
async fn faults_of_hosts_are_found() {
    finds(&[
        ("ends", "seen", "ended by itself"),
        ("ignores-stops", "seen", "has not ended"),
    ])
    .await;
}

#[tokio::test]
async fn deletes_letters_and_pauses_that_are_undone_are_found() {
    finds(&[
        ("swallows-deletes", "once", "is attempted again"),
        ("takes-letters", "letter-kept", "nobody has moved it"),
        ("undoes-pauses", "pause", "has reported the pause"),
    ])
    .await;
}

#[tokio::test]
async fn messages_that_are_stolen_and_requests_that_are_not_made_are_found() {
    finds(&[
        ("steals", "ended", "of fast"),
        ("swallows-letters", "letter-kept", "is not there"),
        (
            "swallows-visibility",
            "not-twice-at-once",
            "at the same time",
        ),
    ])
    .await;
}
