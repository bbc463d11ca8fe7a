//! `backstop why`: the life of one message, from the records that a host writes.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use backstop_tests::backstop::{command as command_of, run, text};
use backstop_tests_host::records;
use serde_json::Value;
use tempfile::TempDir;

const CONFIG: &str = r#"
[queues.orders]
url = "local:orders"
handler = { http = "http://127.0.0.1:1/" }
policy = "full-jitter"
settings = { base = "2s" }
"#;

struct Records {
    folder: TempDir,
}

impl Records {
    /// The records of five messages with twelve attempts each.
    fn write() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("backstop.toml");
        std::fs::write(&config, CONFIG).unwrap();
        let written = Self { folder };
        records::write(&config, 60, &written.path());
        written
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("decisions.jsonl")
    }

    async fn why(&self, arguments: &[&str]) -> (bool, String, String) {
        let path = self.path();
        let all = [&["why"], arguments, &[path.to_str().unwrap()]].concat();
        let output = run(&all).await;
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

#[tokio::test]
async fn the_life_of_a_message_is_told_attempt_by_attempt() {
    let records = Records::write();
    let (ended_well, shown, complaints) = records.why(&["orders-2"]).await;
    assert!(ended_well, "{complaints}");
    assert!(shown.starts_with("message orders-2 of orders\n"), "{shown}");
    let attempts: Vec<_> = shown
        .lines()
        .filter(|line| line.starts_with("attempt "))
        .collect();
    assert_eq!(attempts.len(), 12, "{shown}");
    for (number, line) in (1..).zip(&attempts) {
        assert!(
            line.starts_with(&format!("attempt {number}  2026-01-01T")),
            "{line}"
        );
    }
    for part in [
        "throttled: retry in 1s (visibility, 129ms in whole seconds), by full-jitter (",
        ") base=2s",
        "permanent: dead-letter: permanent: HTTP 404, by full-jitter (",
        "as told: é, \"quoted\"\\nand more",
        "decisions.jsonl:25",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert!(!shown.contains("today:"), "{shown}");
    assert!(shown.lines().last().unwrap().starts_with("It"), "{shown}");
}

#[tokio::test]
async fn another_policy_answers_to_each_failure() {
    let records = Records::write();
    let given = ["orders-2", "--policy", "linear", "--set", "base=1h"];
    let (ended_well, shown, complaints) = records.why(&given).await;
    assert!(ended_well, "{complaints}");
    assert_eq!(shown.matches("  today: ").count(), 12, "{shown}");
    assert!(shown.contains("today: throttled: retry in 1h\n"), "{shown}");

    let config = records.folder.path().join("backstop.toml");
    let given = ["orders-2", "--json", "--config", config.to_str().unwrap()];
    let (_, shown, complaints) = records.why(&given).await;
    let life: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{complaints}"));
    assert_eq!(life["message-id"], "orders-2");
    let decisions = life["decisions"].as_array().unwrap();
    let attempts = decisions
        .iter()
        .map(|step| &step["record"]["failure"]["attempt"]);
    assert!(attempts.eq((1..=12).map(Value::from).collect::<Vec<_>>().iter()));
    for step in decisions {
        // The same policy with the same settings: what was decided, before the limits of the queue.
        let (record, today) = (&step["record"], &step["today"]["answer"]);
        assert_eq!(record["class"], today["class"], "{step}");
        if record["by"] == "policy" {
            assert_eq!(record["verdict"], today["verdict"], "{step}");
            assert_eq!(record["delay"], today["delay"], "{step}");
        }
    }
}

#[tokio::test]
async fn a_configuration_names_the_records_and_its_limits_apply() {
    let records = Records::write();
    let config = records.folder.path().join("backstop.toml");
    let limited = format!("decisions.record = \"decisions.jsonl\"\n{CONFIG}max-attempts = 3\n");
    std::fs::write(&config, &limited).unwrap();
    let given = [
        "why",
        "orders-2",
        "--config",
        config.to_str().unwrap(),
        "--json",
    ];
    let output = run(&given).await;
    let shown = text(&output.stdout);
    let life: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}"));
    let decisions = life["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 12);
    let limit = "the queue's max-attempts of 3 reached: ";
    let limits = decisions.iter().map(|step| {
        let reason = step["today"]["answer"]["reason"].as_str();
        reason.is_some_and(|it| it.starts_with(limit))
    });
    let limits: Vec<_> = limits.collect();
    // The third failure is permanent to the policy itself.
    assert_eq!(limits[..4], [false, false, false, true], "{shown}");

    // Before its host has written any, the file is not there.
    std::fs::remove_file(records.path()).unwrap();
    let output = run(&given).await;
    let complaints = text(&output.stderr);
    assert!(complaints.contains("nothing is known of"), "{complaints}");
}

#[tokio::test]
async fn a_message_without_records_and_a_damaged_line_are_explained() {
    let records = Records::write();
    let (ended_well, _, complaints) = records.why(&["orders-99"]).await;
    assert!(!ended_well);
    assert!(
        complaints.contains("is of the message orders-99"),
        "{complaints}"
    );
    assert!(complaints.contains("`decisions.record` in"), "{complaints}");
    assert!(!complaints.contains("--decisions"), "{complaints}");

    let mut file = OpenOptions::new()
        .append(true)
        .open(records.path())
        .unwrap();
    file.write_all(br#"{"queue":"orders","failure":{"message-id":"orders-2""#)
        .unwrap();
    drop(file);
    let (ended_well, shown, _) = records.why(&["orders-2"]).await;
    assert!(ended_well);
    assert!(
        shown.contains("decisions.jsonl:61 names the message and is cut short"),
        "{shown}"
    );
    // An id that is part of others is another message.
    let (ended_well, _, _) = records.why(&["orders-"]).await;
    assert!(!ended_well);

    let missing = run(&["why", "orders-2", "no/such/file"]).await;
    assert!(text(&missing.stderr).contains("can't read the records in no/such/file"));
}

#[tokio::test]
async fn an_id_of_something_else_leads_to_the_command_that_takes_it() {
    let run = "20261122-032140-f0a6";
    let message = "5fea7756-0ea4-451a-a703-a558b933e274";
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let runs = ["dlq", "runs", "--state", state];
    let resume = ["dlq", "redrive", "--state", state, "--resume"];
    for (command, id, hint) in [
        (
            &["why"][..],
            run,
            "`backstop dlq runs 20261122-032140-f0a6`",
        ),
        (&["why"], "50c6a2162ddb", "--decided-by 50c6a2162ddb"),
        (&["why"], "3f2a91c0", "--fingerprint 3f2a91c0"),
        (&runs, message, "`backstop why 5fea7756-"),
        (&resume, message, "`backstop why 5fea7756-"),
        (&runs, run, "there is no run"),
    ] {
        let mut command = command_of(&[command, &[id]].concat());
        let output = command.env("XDG_STATE_HOME", state).output().await.unwrap();
        let complaints = text(&output.stderr);
        assert!(!output.status.success(), "{complaints}");
        assert!(complaints.contains(hint), "{id}: {complaints}");
        // The command does not lead to itself.
        let own = "It has the form of a redrive's run";
        assert!(
            hint != "there is no run" || !complaints.contains(own),
            "{complaints}"
        );
    }
}
