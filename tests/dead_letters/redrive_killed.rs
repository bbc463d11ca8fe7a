//! `backstop dlq redrive` and kill -9: nothing is lost, and what may have arrived twice is reported.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use backstop_tests::emulator::{Emulator, fauxqs, ministack};
use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use tokio::process::Child;
use tokio::time::sleep;

use crate::redrive::{command, redrive, resume, runs};
use crate::world::World;

/// Puts so many letters into the dead-letter queue. Their ids, each with its body.
async fn fill(world: &World, letters: usize) -> HashMap<String, String> {
    let (client, url) = (&world.queues.client, &world.queues.dead_letters);
    let numbers: Vec<_> = (0..letters).collect();
    let batches: Vec<_> = numbers.chunks(10).map(<[_]>::to_vec).collect();
    let sent: Vec<_> = stream::iter(batches)
        .map(|batch| async move {
            let entries = batch.iter().map(|number| {
                SendMessageBatchRequestEntry::builder()
                    .id(number.to_string())
                    .message_body(format!("letter-{number}"))
                    .build()
                    .unwrap()
            });
            let send = client.send_message_batch().queue_url(url);
            let sent = send
                .set_entries(Some(entries.collect()))
                .send()
                .await
                .unwrap();
            assert!(sent.failed.is_empty());
            sent.successful
        })
        .buffer_unordered(16)
        .collect()
        .await;
    let sent = sent.into_iter().flatten();
    sent.map(|it| (it.message_id, format!("letter-{}", it.id)))
        .collect()
}

/// Takes everything out of a queue: how often each body was there.
async fn drain(client: &Client, url: &str) -> BTreeMap<String, usize> {
    let takers = (0..16).map(|_| async {
        let mut bodies = Vec::new();
        loop {
            let receive = client.receive_message().queue_url(url);
            let received = receive.max_number_of_messages(10).send().await.unwrap();
            let messages = received.messages.unwrap_or_default();
            if messages.is_empty() {
                return bodies;
            }
            let entries = messages.iter().enumerate().map(|(id, message)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(id.to_string())
                    .receipt_handle(message.receipt_handle().unwrap())
                    .build()
                    .unwrap()
            });
            let delete = client.delete_message_batch().queue_url(url);
            delete
                .set_entries(Some(entries.collect()))
                .send()
                .await
                .unwrap();
            bodies.extend(messages.into_iter().map(|it| it.body.unwrap()));
        }
    });
    let mut found = BTreeMap::new();
    for body in futures_util::future::join_all(takers)
        .await
        .into_iter()
        .flatten()
    {
        *found.entry(body).or_default() += 1;
    }
    found
}

/// The journal of the only run.
pub(crate) fn journal(world: &World) -> Option<PathBuf> {
    let run = std::fs::read_dir(world.path("runs")).ok()?.next()?.ok()?;
    Some(run.path().join("journal.jsonl"))
}

/// The id of a journal's run: the name of its folder.
fn run_of(journal: &Path) -> String {
    let folder = journal.parent().unwrap().file_name().unwrap();
    folder.to_str().unwrap().to_owned()
}

/// How many letters the journal calls sent.
fn sent(journal: &Path) -> usize {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let lines = text
        .lines()
        .filter(|line| line.contains("\"event\":\"sent\""));
    lines.map(|line| line.matches("\"id\":").count()).sum()
}

/// Kills it as soon as the condition is met. Whether it was still running.
async fn kill_when(mut child: Child, is_time: impl Fn() -> bool) -> bool {
    while !is_time() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        sleep(Duration::from_millis(1)).await;
    }
    child.kill().await.unwrap();
    true
}

async fn survives_kills(emulator: &Emulator, letters: usize) {
    let world = World::standard(&emulator.endpoint).await;
    let bodies = fill(&world, letters).await;
    let start = [
        "--to",
        &world.queues.url,
        "--visibility-timeout",
        "5s",
        "--limit",
        "20000",
    ];
    // While the set is fixed: nothing is sent.
    let child = command(&world, &start).spawn().unwrap();
    let has_started =
        || journal(&world).is_some_and(|it| std::fs::metadata(it).is_ok_and(|it| it.len() > 0));
    assert!(kill_when(child, has_started).await);
    let journal = journal(&world).unwrap();
    let run = run_of(&journal);
    let state = world.path("runs");
    let again = [
        "dlq",
        "redrive",
        "--resume",
        &run,
        "--state",
        state.to_str().unwrap(),
    ];
    let mut killed = 0;
    for share in [0, 10, 35, 60, 90] {
        let child = world.plain(&again).spawn().unwrap();
        let is_time = || {
            let is_sending = std::fs::read_to_string(&journal)
                .unwrap()
                .contains("\"event\":\"sending\"");
            is_sending && sent(&journal) >= letters * share / 100
        };
        killed += usize::from(kill_when(child, is_time).await);
        let shown = runs(&world, &[]).await.remove(0);
        assert_eq!(shown["outcome"], "killed", "{shown}");
    }
    assert!(killed >= 4, "{killed}");
    let (code, result) = resume(&world, &run).await;
    assert_eq!(
        (code, result["outcome"].as_str()),
        (0, Some("done")),
        "{result}"
    );
    assert_eq!(result["letters"].as_u64(), Some(letters as u64), "{result}");
    assert_eq!(result["missing"].as_u64(), Some(0));

    let arrived = drain(&world.queues.client, &world.queues.url).await;
    let missing: Vec<_> = bodies
        .values()
        .filter(|it| !arrived.contains_key(*it))
        .collect();
    assert!(
        missing.is_empty(),
        "{} are lost: {missing:?}",
        missing.len()
    );
    let detail = runs(&world, &[&run]).await.remove(0);
    let uncertain = detail["uncertain-ids"].as_array().unwrap().iter();
    let uncertain: BTreeSet<_> = uncertain.map(|id| &bodies[id.as_str().unwrap()]).collect();
    let twice: Vec<_> = arrived.iter().filter(|(_, count)| **count > 1).collect();
    for (body, count) in &twice {
        assert!(
            uncertain.contains(body),
            "{body} arrived {count} times, unreported"
        );
    }
    // At most what 16 batches have, for each kill.
    assert!(uncertain.len() <= killed * 160, "{}", uncertain.len());
    assert_eq!(
        drain(&world.queues.client, &world.queues.dead_letters)
            .await
            .len(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_of_ten_thousand_letters_that_is_killed_again_and_again_loses_none() {
    survives_kills(fauxqs(), 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_redrive_loses_none_on_another_emulator() {
    survives_kills(ministack(), 1_000).await;
}

#[tokio::test]
async fn a_killed_redrive_of_a_fifo_queue_moves_each_letter_once_and_in_order() {
    let world = World::fifo(&ministack().endpoint).await;
    for number in 0..60 {
        let body = format!("{number:02}");
        let group = format!("g{}", number % 4);
        let mut given = crate::redrive::letter(&body);
        given.group = Some(&group);
        world.put(given).await;
    }
    let start = [
        "--to",
        &world.queues.url,
        "--visibility-timeout",
        "5s",
        "--rate",
        "50/s",
    ];
    let child = command(&world, &start).spawn().unwrap();
    let is_time = || journal(&world).is_some_and(|it| sent(&it) >= 20);
    assert!(kill_when(child, is_time).await);
    let journal = journal(&world).unwrap();
    let run = run_of(&journal);
    let (code, result) = resume(&world, &run).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(60)), "{result}");
    let mut groups = BTreeMap::<usize, Vec<String>>::new();
    while let Some(messages) = crate::redrive::receive(&world.queues).await {
        for message in messages {
            let body = message.body.unwrap();
            groups
                .entry(body.parse::<usize>().unwrap() % 4)
                .or_default()
                .push(body);
            let delete = world
                .queues
                .client
                .delete_message()
                .queue_url(&world.queues.url);
            delete
                .receipt_handle(message.receipt_handle.unwrap())
                .send()
                .await
                .unwrap();
        }
    }
    for (group, bodies) in groups {
        assert_eq!(bodies.len(), 15, "g{group}: {bodies:?}");
        assert!(bodies.is_sorted(), "g{group}: {bodies:?}");
    }
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn only_one_process_works_on_a_run() {
    let world = World::standard(&fauxqs().endpoint).await;
    fill(&world, 20).await;
    let arguments = ["--to", &world.queues.url, "--rate", "5/s"];
    let mut child = command(&world, &arguments).spawn().unwrap();
    while journal(&world).is_none_or(|it| sent(&it) == 0) {
        sleep(Duration::from_millis(20)).await;
    }
    let run: Value = runs(&world, &[]).await.remove(0);
    assert_eq!(run["outcome"], "running");
    let state = world.path("runs");
    let id = run["run"].as_str().unwrap();
    let again = [
        "dlq",
        "redrive",
        "--resume",
        id,
        "--state",
        state.to_str().unwrap(),
    ];
    let (code, errors) = crate::world::failed(&world.plain(&again).output().await.unwrap());
    assert!(
        code == 5 && errors.contains("another process works on this run"),
        "{errors}"
    );
    assert!(child.wait().await.unwrap().success());
    // A second run finds nothing.
    let (code, result) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!((code, result["letters"].as_u64()), (0, Some(0)));
}
