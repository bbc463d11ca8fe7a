//! Messages that are sent again while hosts are killed, requests fail, SQS redrives them, and more of them wait than SQS holds in flight: on a local queue with the clock paused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use backstop_core::decision::{Bounds, Hold};
use backstop_core::failure::Milliseconds;
use backstop_host::consumer::Options;
use backstop_queue::envelope::ENVELOPE;
use backstop_queue::{
    LocalQueue, LocalSettings, Message, Outgoing, Queue, QueueError, VisibilityTimeout,
};
use backstop_settle::hold::HoldMode;
use tokio::time::sleep;

use crate::hold_world::{HOUR, Host, World, full, numbered};

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// Waits until the host's connection is cut, and kills it.
async fn kill_after_send(host: Host) {
    host.wire.cut_after_send.store(true, SeqCst);
    while !host.wire.is_cut.load(SeqCst) {
        sleep(Duration::from_millis(100)).await;
    }
    host.killed();
}

async fn take_one(queue: &LocalQueue, visibility: VisibilityTimeout) -> Vec<Message> {
    let wait = Duration::from_secs(1);
    queue.receive(1, wait, visibility).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_between_send_and_delete_leaves_copies_that_one_host_attempts_once() {
    let world = World::new(&[("base", "20m")], HoldMode::Resend);
    world.send(numbered(10)).await;
    kill_after_send(world.host(3).await).await;
    assert_eq!(world.queue.len(), 20);
    let summary = world.run(3).await;
    // The old copies come first, after their visibility timeout. The killed host's attempt is counted.
    assert_eq!(summary.succeeded, 10);
    assert_eq!(summary.duplicates, 10, "{summary:?}");
    for (body, attempts) in world.by_body() {
        let ids: BTreeSet<_> = attempts.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), 1, "{body}: {attempts:?}");
        let counts: Vec<_> = attempts.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 2, 3, 4], "{body}");
    }
    assert!(world.lateness().iter().all(|late| *late <= 30.0));
}

#[tokio::test(start_paused = true)]
async fn a_send_whose_answers_are_lost_leaves_copies_that_are_deleted_and_not_attempted() {
    // With 20 minutes, the copies also hop.
    for base in ["5m", "20m"] {
        let world = World::new(&[("base", base)], HoldMode::Resend);
        world.send(numbered(10)).await;
        let host = world.host(2).await;
        host.wire.lost_answers.store(3, SeqCst);
        seconds(60).await;
        assert_eq!(world.queue.len(), 40, "{base}");
        world.queue.emptied().await;
        let summary = host.stopped().await;
        assert_eq!((summary.succeeded, summary.duplicates), (10, 30), "{base}");
        for (body, attempts) in world.by_body() {
            let counts: Vec<_> = attempts.iter().map(|(_, count)| *count).collect();
            assert_eq!(counts, [1, 2, 3], "{base} {body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_send_are_deleted_while_the_first_one_is_held_by_visibility() {
    let mut world = World::new(&[("base", "5m")], HoldMode::Resend);
    world.send(numbered(10)).await;
    let host = world.host(2).await;
    host.wire.lost_answers.store(3, SeqCst);
    seconds(60).await;
    assert_eq!(world.queue.len(), 40);
    host.stopped().await;
    // The other host holds by visibility, and handles one message after another: the first copies wait when the others come.
    world.options.hold = HoldMode::Auto;
    world.options.max_in_flight = 1;
    let summary = world.run(2).await;
    assert_eq!((summary.succeeded, summary.duplicates), (10, 30));
    for (body, attempts) in world.by_body() {
        let counts: Vec<_> = attempts.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 2, 3], "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn three_hosts_killed_in_turn_lose_nothing_and_keep_the_ids() {
    let world = World::new(&[("base", "20m"), ("cap", "1h")], HoldMode::Resend);
    world.send(numbered(60)).await;
    let mut hosts = vec![world.host(5).await, world.host(5).await];
    let mut survivors = Vec::new();
    for _ in 0..6 {
        kill_after_send(hosts.remove(0)).await;
        hosts.push(world.host(5).await);
        seconds(200).await;
    }
    hosts.push(world.host(5).await);
    world.queue.emptied().await;
    for host in hosts {
        survivors.push(host.stopped().await);
    }
    let succeeded: u64 = survivors.iter().map(|it| it.succeeded).sum();
    let duplicates: u64 = survivors.iter().map(|it| it.duplicates).sum();
    // The copies that the killed hosts left are noticed, or succeed too if they are attempted at the same time.
    assert!(succeeded >= 60, "{survivors:?}");
    assert!(succeeded - 60 + duplicates > 0, "{survivors:?}");
    let attempts = world.by_body();
    assert_eq!(attempts.len(), 60);
    for (body, attempts) in attempts {
        let ids: BTreeSet<_> = attempts.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), 1, "{body}: {attempts:?}");
        assert!(attempts.iter().any(|(_, count)| *count > 5), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_could_not_be_deleted_is_deleted_later_and_not_attempted() {
    let world = World::new(&[("base", "20m")], HoldMode::Resend);
    world.send([full()]).await;
    let host = world.host(1).await;
    let error = QueueError::new("DeleteMessageBatch", "InternalError", "");
    *host.wire.delete_error.lock().unwrap() = Some(error);
    seconds(100).await;
    *host.wire.delete_error.lock().unwrap() = None;
    world.queue.emptied().await;
    let summary = host.stopped().await;
    assert_eq!(
        (summary.duplicates, summary.unsettled, summary.succeeded),
        (1, 1, 1)
    );
    assert_eq!(world.times(), [0, 1_200]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_came_while_another_was_hidden_is_no_further_attempt() {
    // The host is killed, and another one has its message twice: hidden, since it can't send, and delayed.
    let world = World::new(&[("base", "20m")], HoldMode::Resend);
    world.send([full()]).await;
    kill_after_send(world.host(2).await).await;
    let host = world.host(2).await;
    let error = QueueError::new("SendMessageBatch", "AccessDenied", "not authorized");
    *host.wire.send_error.lock().unwrap() = Some(error);
    world.queue.emptied().await;
    let summary = host.stopped().await;
    assert!(summary.duplicates > 0, "{summary:?}");
    assert_eq!(summary.dead_lettered, 0);
}

#[tokio::test(start_paused = true)]
async fn both_holds_on_one_queue_decide_as_one() {
    let mut world = World::new(&[("base", "10m"), ("cap", "2h")], HoldMode::Resend);
    world.send(numbered(60)).await;
    let mut hosts = Vec::new();
    for hold in [HoldMode::Resend, HoldMode::Visibility, HoldMode::Auto] {
        world.options.hold = hold;
        world.options.max_in_flight = 10;
        hosts.push(world.host(6).await);
    }
    world.queue.emptied().await;
    let mut summaries = Vec::new();
    for host in hosts {
        summaries.push(host.stopped().await);
    }
    assert!(summaries.iter().all(|it| it.duplicates == 0));
    assert!(summaries.iter().all(|it| it.received > 0), "{summaries:?}");
    let holds: BTreeSet<_> = world.holds().iter().map(|hold| hold.as_str()).collect();
    assert_eq!(holds.len(), 2);
    for (body, attempts) in world.by_body() {
        let ids: BTreeSet<_> = attempts.iter().map(|(id, _)| id).collect();
        let counts: Vec<_> = attempts.iter().map(|(_, count)| *count).collect();
        assert_eq!(ids.len(), 1, "{body}");
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7], "{body}");
    }
    let decisions = world.decisions.0.lock().unwrap().clone();
    for record in &decisions {
        assert_eq!(
            record.failure.random,
            backstop_core::failure::random(&record.failure.message_id, record.failure.attempt)
        );
    }
    drop(decisions);
    let late = world.lateness();
    assert_eq!(late.len(), 360);
    assert!(
        late.iter().all(|late| (-1.0..3.0).contains(late)),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_sqs_redrives_keeps_its_envelope_and_its_attempts_go_on() {
    let mut world = World::new(&[("base", "10m")], HoldMode::Resend);
    let dead = world.connections.local.named("dead");
    let settings = LocalSettings {
        redrive: Some((Arc::clone(&dead), 3.try_into().unwrap())),
        ..LocalSettings::default()
    };
    world.queue = world.connections.local.set_up("orders", settings);
    world.send([full()]).await;
    let host = world.host(3).await;
    seconds(700).await;
    host.stopped().await;
    assert_eq!(world.seen().len(), 2);
    // Another consumer receives it too often.
    seconds(2 * HOUR).await;
    for _ in 0..4 {
        let taken = take_one(&world.queue, VisibilityTimeout::from_seconds(1)).await;
        assert!(taken.iter().all(|it| it.attributes.contains_key(ENVELOPE)));
        seconds(2).await;
    }
    assert_eq!((world.queue.len(), dead.len()), (0, 1));
    let redriven = take_one(&dead, VisibilityTimeout::MAX).await.remove(0);
    dead.delete(&[redriven.receipt_handle]).await.unwrap();
    // A redrive sends the body and the attributes as a new message.
    let moved = Outgoing {
        attributes: redriven.attributes,
        group: redriven.group,
        trace_header: redriven.trace_header,
        ..Outgoing::new(redriven.body)
    };
    world.send([moved]).await;
    let summary = world.run(3).await;
    assert_eq!((summary.succeeded, summary.duplicates), (1, 0));
    let seen = world.seen();
    let first = &seen[0];
    for (attempt, message) in (1..).zip(&seen) {
        assert_eq!(message.receive_count.get(), attempt);
        assert_eq!((&message.id, message.sent), (&first.id, first.sent));
        assert_eq!(message.attributes, first.attributes);
    }
    assert_eq!(seen.len(), 4);
    let decisions = world.decisions.0.lock().unwrap();
    let minutes = |record: &backstop_records::DecisionRecord| {
        record.failure.previous_delay.map(|it| it.0 / 60_000)
    };
    let previous: Vec<_> = decisions.iter().map(minutes).collect();
    assert_eq!(previous, [None, Some(10), Some(20)]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_of_a_message_that_was_sent_again_names_the_original() {
    let mut world = World::new(&[("base", "40m")], HoldMode::Resend);
    world.bounds = Bounds {
        max_attempts: Some(3.try_into().unwrap()),
        ..Bounds::default()
    };
    let dead = world.connections.local.named("dead");
    let settings = LocalSettings {
        redrive: Some((Arc::clone(&dead), 100.try_into().unwrap())),
        ..LocalSettings::default()
    };
    world.queue = world.connections.local.set_up("orders", settings);
    world.send([full()]).await;
    let summary = world.run(9).await;
    assert_eq!((summary.dead_lettered, summary.retried), (1, 2));
    let original = world.seen().remove(0);
    let letter = take_one(&dead, VisibilityTimeout::MAX).await.remove(0);
    let text = |name: &str| letter.attributes[name].to_text();
    assert_eq!(text("BackstopMessageId"), original.id);
    assert_eq!(text("BackstopFirstSent"), original.sent.0.to_string());
    assert_eq!(text("BackstopAttempt"), "3");
    assert!(!letter.attributes.contains_key(ENVELOPE));
    assert_eq!(letter.attributes["tenant"], original.attributes["tenant"]);
    assert_eq!(letter.body, original.body);
    assert_eq!(
        (letter.group, letter.trace_header),
        (original.group, original.trace_header)
    );
    // Moved back it is a new message.
    let moved = Outgoing {
        attributes: letter.attributes,
        ..Outgoing::new(letter.body)
    };
    world.send([moved]).await;
    let summary = world.run(1).await;
    assert_eq!((summary.succeeded, summary.duplicates), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_t_be_sent_again_is_held_by_visibility_until_its_time() {
    let retryable = QueueError::new("SendMessageBatch", "ServiceUnavailable", "");
    assert!(retryable.is_retryable());
    let denied = QueueError::new("SendMessageBatch", "AccessDenied", "not authorized");
    assert!(!denied.is_retryable());
    for error in [denied, retryable] {
        let world = World::new(&[("base", "40m")], HoldMode::Resend);
        world.send([full()]).await;
        let host = world.host(3).await;
        *host.wire.send_error.lock().unwrap() = Some(error.clone());
        world.queue.emptied().await;
        let summary = host.stopped().await;
        assert_eq!(
            (summary.retried, summary.succeeded, summary.sent_again),
            (3, 1, 0),
            "{error}"
        );
        let late = world.lateness();
        assert!(
            late.iter().all(|late| (0.0..3.0).contains(late)),
            "{error}: {late:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hop_that_fails_costs_no_attempt_and_no_time() {
    let world = World::new(&[("base", "50m")], HoldMode::Resend);
    world.send([full()]).await;
    let host = world.host(1).await;
    seconds(60).await;
    let error = QueueError::new("SendMessageBatch", "AccessDenied", "not authorized");
    *host.wire.send_error.lock().unwrap() = Some(error);
    world.queue.emptied().await;
    let summary = host.stopped().await;
    assert_eq!(summary.succeeded, 1);
    // One failure, which the hop does not count again.
    assert_eq!((summary.retried, summary.sent_again), (1, 1));
    let times = world.times();
    assert!((3_000..3_003).contains(&times[1]), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_send_that_succeeds_late_keeps_the_due_time() {
    let world = World::new(&[("base", "5m")], HoldMode::Resend);
    world.send([full()]).await;
    let host = world.host(1).await;
    let error = QueueError::new("SendMessageBatch", "InternalError", "");
    *host.wire.send_error.lock().unwrap() = Some(error);
    seconds(50).await;
    *host.wire.send_error.lock().unwrap() = None;
    world.queue.emptied().await;
    let summary = host.stopped().await;
    assert_eq!(summary.sent_again, 1);
    let late = world.lateness();
    assert!((-1.0..3.0).contains(&late[0]), "{late:?}");
}

/// More than SQS holds in flight: it delivers no more than 120,000 unless they are deleted or visible again.
#[tokio::test(start_paused = true)]
async fn messages_beyond_the_limit_in_flight_wait_all_at_once_and_come_at_their_time() {
    const MESSAGES: usize = 150_000;
    let mut world = World::new(&[("base", "15m")], HoldMode::Auto);
    world.options = Options {
        hold: HoldMode::Auto,
        max_in_flight: 2_000,
        ..Options::default()
    };
    world.send(numbered(MESSAGES)).await;
    let host = world.host(1).await;
    while world.decisions.0.lock().unwrap().len() < MESSAGES {
        seconds(1).await;
    }
    seconds(5).await;
    // All of them wait, before the first one is due.
    assert_eq!(world.queue.len(), MESSAGES);
    assert_eq!(world.seen().len(), MESSAGES);
    let in_flight = world.queue.describe().await.unwrap().in_flight.unwrap();
    assert!((90_000..105_000).contains(&in_flight), "{in_flight}");
    world.queue.emptied().await;
    let summary = host.stopped().await;
    assert_eq!((summary.succeeded, summary.duplicates), (150_000, 0));
    let mut holds = BTreeMap::new();
    for hold in world.holds() {
        *holds.entry(hold.as_str()).or_insert(0) += 1;
    }
    assert!((45_000..60_000).contains(&holds["resend"]), "{holds:?}");
    assert_eq!(holds.values().sum::<i32>(), 150_000);
    assert_eq!(world.holds()[0], Hold::Visibility);
    let late = world.lateness();
    let latest = late.iter().copied().fold(0.0, f64::max);
    assert!(
        late.iter().all(|late| *late > -1.0) && latest < 60.0,
        "{latest}"
    );
    let delays: BTreeSet<_> = world
        .decisions
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|record| record.failure.previous_delay)
        .collect();
    assert_eq!(delays, BTreeSet::<Option<Milliseconds>>::from([None]));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_t_be_sent_again_is_dead_lettered_before_its_queue_drops_it() {
    let mut world = World::new(&[("base", "20m")], HoldMode::Auto);
    let settings = LocalSettings {
        retention: Duration::from_secs(HOUR),
        ..LocalSettings::default()
    };
    world.queue = world.connections.local.set_up("orders", settings);
    world.send([full()]).await;
    let host = world.host(9).await;
    let error = QueueError::new("SendMessageBatch", "AccessDenied", "not authorized");
    *host.wire.send_error.lock().unwrap() = Some(error);
    world.queue.emptied().await;
    let summary = host.stopped().await;
    assert_eq!(
        (summary.dead_lettered, summary.succeeded),
        (1, 0),
        "{summary:?}"
    );
    let dead = world.connections.local.named("orders-dead-letters");
    let letters = take_one(&dead, VisibilityTimeout::from_seconds(30)).await;
    let reason = letters[0].attributes["BackstopReason"].to_text();
    assert!(reason.contains("its queue would drop it"), "{reason}");
    // After 20 minutes it would have waited 40 more, to the end of the hour.
    assert_eq!(world.times(), [0, 1_200]);
}
