//! `backstop why` and `policy reconsider` on real hosts and an emulator, and the commands for waiting messages by a host's address.

use std::collections::BTreeMap;

use backstop_tests::backstop::{read_events, read_records};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use backstop_tests::worker::{Attempt, Worker};
use futures_util::future::join_all;
use serde_json::Value;

use crate::waiting_commands::{Machine, run};

/// The id of the message that was attempted.
fn id(attempt: &Attempt) -> String {
    let id = attempt.headers["x-aws-sqsd-msgid"].to_str();
    id.unwrap().to_owned()
}

/// When each message that was attempted is due: as decided, by no wake or reconsideration.
async fn due_times(machine: &Machine) -> BTreeMap<String, u64> {
    let ids = machine.worker.attempts();
    let due = ids.iter().map(async |attempt| {
        let id = id(attempt);
        let known = machine.json(&["why", &id]).await.remove(0);
        let message = &known["hosts"][0]["messages"][0];
        assert_eq!(message["decided-due"], Value::Null, "{message}");
        let due = message["due"].as_u64().unwrap();
        (id, due)
    });
    join_all(due).await.into_iter().collect()
}

#[tokio::test]
async fn a_swap_and_reconsider_hurry_what_waits_and_why_says_what_the_new_version_says() {
    let machine = Machine::new(ministack()).await;
    let (policy, records) = (machine.at("policy.wat"), machine.at("decisions.jsonl"));
    std::fs::write(&policy, waits(7_200_000)).unwrap();
    let host = machine
        .host(&[
            "--policy",
            &policy,
            "--admin",
            "127.0.0.1:0",
            "--decisions",
            &records,
        ])
        .await;
    machine.send(40).await;
    machine.until_waiting(40).await;
    let id = id(&machine.worker.attempts()[0]);
    let (code, shown, error) = machine.run(&["why", &id]).await;
    assert_eq!(code, 0, "{error}");
    for part in [
        "waits for its next attempt, due at ",
        "in 2h",
        "since receive 1",
        "today: transient: retry in 2h",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    let reconsider = ["policy", "reconsider", &machine.name, "--spread", "2s"];
    let result = &machine.json(&reconsider).await[0];
    assert_eq!(
        (&result["same"], &result["hurried"]),
        (&40.into(), &0.into())
    );

    std::fs::write(&policy, waits(9_000_000)).unwrap();
    let swaps = async |count| {
        eventually("the new version decides", || async {
            host.log()
                .matches("a new version of the policy is active")
                .count()
                == count
        })
        .await;
    };
    swaps(1).await;
    let due = due_times(&machine).await;
    assert_eq!(due.len(), 40);
    let result = &machine.json(&reconsider).await[0];
    assert_eq!(
        (&result["later"], &result["hurried"]),
        (&40.into(), &0.into())
    );
    // A host counts in its own time: the same moment may be shown a few milliseconds off.
    for (id, now) in due_times(&machine).await {
        assert!(now.abs_diff(due[&id]) < 1_000, "{id}: {now}, {}", due[&id]);
    }
    std::fs::write(&policy, waits(1_000)).unwrap();
    swaps(2).await;
    let (_, shown, _) = machine.run(&["why", &id]).await;
    assert!(shown.contains("today: transient: retry in 1s"), "{shown}");
    let dry = [&reconsider[..], &["--dry-run"]].concat();
    let (_, shown, _) = machine.run(&dry).await;
    assert!(shown.contains("40 would come sooner"), "{shown}");
    // By the address, as from another machine.
    let url = host.admin();
    let by_url = [&reconsider[..], &["--admin", &url]].concat();
    let (code, shown, error) = run(&by_url).await;
    assert_eq!(code, 0, "{error}");
    assert!(shown.contains("40 come sooner, the last at "), "{shown}");
    eventually("all have come", || async {
        machine.queues.held().await == 0
    })
    .await;
    let (code, _, error) = machine.run(&["why", &id]).await;
    assert_eq!(code, 1);
    assert!(
        error.contains("the running host does not remember it"),
        "{error}"
    );
    assert_eq!(host.stop().await.0, 0);
    let events = read_events(records.as_ref());
    let woken = |it: &&Value| {
        let is_sooner = it["due"].as_u64() < it["was-due"].as_u64();
        it["event"] == "woken" && it["by"] == "reconsideration" && is_sooner
    };
    let done = |it: &&Value| it["event"] == "succeeded" && it["attempt"] == 2;
    let count = |is: &dyn Fn(&&Value) -> bool| events.iter().filter(is).count();
    assert_eq!((count(&woken), count(&done)), (40, 40), "{events:?}");
    assert_eq!(events.len(), 80, "{events:?}");
    let (code, shown, error) = machine.run(&["why", &id, &records]).await;
    assert_eq!(code, 0, "{error}");
    for part in [
        "woken  ",
        "  by reconsideration with ",
        "It succeeded in attempt 2.",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
}

#[tokio::test]
async fn a_host_is_asked_by_its_address_and_why_adds_what_waits_to_the_records() {
    let machine = Machine {
        worker: Worker::answering(|_| 503).await,
        ..Machine::new(ministack()).await
    };
    let (policy, records) = (machine.at("policy.wat"), machine.at("decisions.jsonl"));
    std::fs::write(&policy, waits(7_200_000)).unwrap();
    let arguments = [
        "--policy",
        &policy,
        "--decisions",
        &records,
        "--admin",
        "127.0.0.1:0",
    ];
    let host = machine.host(&arguments).await;
    machine.send(3).await;
    machine.until_waiting(3).await;
    let url = host.admin();
    let by_url = async |arguments: &[&str]| {
        let (code, shown, error) = run(&[arguments, &["--admin", &url]].concat()).await;
        assert_eq!(code, 0, "{error}");
        shown
    };
    let shown = by_url(&["waiting"]).await;
    let remembers = format!("{url} remembers 3 of what has failed since ");
    for part in ["3 messages wait", "HTTP 503", "  2h  ", &remembers] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    let first = id(&machine.worker.attempts()[0]);
    let waits_for = format!(
        "The message {first} of {} waits for its next attempt, due at ",
        machine.name
    );
    let shown = by_url(&["why", &first]).await;
    for part in [
        waits_for.as_str(),
        "today: transient: retry in 2h",
        &format!("as {url} remembers"),
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    let wake = ["wake", &machine.name, "--id", &first, "--spread", "0s"];
    let shown = by_url(&wake).await;
    assert!(
        shown.contains("1 of 1 matching messages come sooner"),
        "{shown}"
    );
    eventually("it has failed again, and is recorded", || async {
        machine.worker.attempts().len() == 4 && read_records(records.as_ref()).len() == 4
    })
    .await;
    machine.until_waiting(3).await;
    assert_eq!(id(&machine.worker.attempts()[3]), first);

    // Both attempts from the records, and until when it waits from the host.
    let shown = by_url(&["why", &first, &records]).await;
    let attempts = shown.lines().filter(|line| line.starts_with("attempt "));
    assert_eq!(attempts.count(), 2, "{shown}");
    for part in [
        "attempt 1  20",
        "attempt 2  20",
        "decisions.jsonl:4",
        &waits_for,
        "today: transient: retry in 2h",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    // What today's policy says is another than what was decided.
    std::fs::write(&policy, waits(1_000)).unwrap();
    eventually("the new version decides", || async {
        let log = host.log();
        log.contains("a new version of the policy is active")
    })
    .await;
    let shown = by_url(&["why", &first, &records]).await;
    assert_eq!(
        shown.matches("transient: retry in 2h (visibility)").count(),
        2
    );
    assert!(
        shown.contains(&waits_for) && shown.contains("today: transient: retry in 1s, by "),
        "{shown}"
    );
    assert_eq!(host.stop().await.0, 0);
}
