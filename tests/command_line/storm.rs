//! The log while many messages fail in the same way.

use std::process::Stdio;

use backstop_core::clock;
use backstop_tests::backstop::{command, text};
use serde_json::Value;

/// The messages of a storm.
const MESSAGES: usize = 600;

/// The log of a host that handles so many messages with this command.
async fn log(exec: &str, more: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let messages = folder.path().join("messages");
    std::fs::write(&messages, "order\n".repeat(MESSAGES)).unwrap();
    let arguments = [
        "run",
        "--queue-url",
        "local:orders",
        "--cache",
        "off",
        "--max-attempts",
        "2",
        "--set",
        "base=1ms",
        "--log-format",
        "json",
        "--exec",
        exec,
        "--messages",
        messages.to_str().unwrap(),
    ];
    let mut command = command(&[&arguments, more].concat());
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let log = text(&output.stderr);
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    log.lines().map(line).collect()
}

fn of<'a>(log: &'a [Value], message: &str) -> Vec<&'a Value> {
    log.iter().filter(|it| it["message"] == message).collect()
}

#[tokio::test]
async fn a_storm_has_a_line_a_second_for_each_cause_and_no_failure_is_uncounted() {
    let began = clock::instant();
    let log = log("sh -c 'echo no such order >&2; exit 4'", &[]).await;
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    for message in ["retry", "dead-letter"] {
        let lines = of(&log, message);
        assert!(lines.len() <= 10 + seconds + 2, "{}", lines.len());
        let left_out = lines.iter().map(|it| it["left-out"].as_u64().unwrap_or(0));
        let left_out = usize::try_from(left_out.sum::<u64>()).unwrap();
        let counts = |it: &&&Value| it["target"] == "backstop::left_out";
        let own = lines.len() - lines.iter().filter(counts).count();
        assert_eq!(own + left_out, MESSAGES, "{message}");
    }
    let first = of(&log, "retry")[0];
    assert!(first["delay-ms"].is_u64(), "{first}");
    assert_eq!(first["error"], "exit 4");
    assert_eq!(first["error-text"], "no such order");
    assert!(first["span"]["id"].is_string(), "{first}");
    assert!(
        first["host"].is_string() && first["spans"].is_null(),
        "{first}"
    );
    assert!(of(&log, "succeeded").is_empty());
}

#[tokio::test]
async fn with_v_every_line_is_written_also_those_of_successes() {
    let failed = log("false", &["-v"]).await;
    assert_eq!(of(&failed, "retry").len(), MESSAGES);
    let done = log("true", &["-v"]).await;
    assert_eq!(of(&done, "succeeded").len(), MESSAGES);
}
