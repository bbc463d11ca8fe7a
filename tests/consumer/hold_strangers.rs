//! Envelopes that a stranger wrote, and those of a fleet with and without keys: on a local queue with the clock paused.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_queue::envelope::ENVELOPE;
use backstop_queue::{Attribute, Outgoing, Queue};
use backstop_settle::hold::HoldMode;
use tokio::time::sleep;

use crate::hold_world::{HOUR, World, numbered};

const DAY: u64 = 24 * HOUR * 1_000;

/// A message with an envelope that no host made.
fn forged(body: &str, id: &str, attempts: u32, due: u64) -> Outgoing {
    let envelope = format!(
        r#"{{"id": "{id}", "sent": 0, "first-received": 0, "attempts": {attempts}, "delay": 1, "due": {due}}}"#
    );
    let mut forged = Outgoing::new(body);
    forged
        .attributes
        .insert(ENVELOPE.to_owned(), Attribute::string(envelope));
    forged
}

/// The attempts at messages with this body: the ids that the handler saw, and the receive counts.
fn attempts(world: &World, body: &str) -> Vec<(String, u32)> {
    world.by_body().remove(body).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_forged_envelope_with_the_content_of_another_message_changes_nothing_for_that_one() {
    for keys in [true, false] {
        for (claimed, late) in [(1, true), (5, true), (5, false)] {
            let mut world = World::new(&[("base", "10m")], HoldMode::Resend);
            if !keys {
                world.keys = None;
            }
            world.send([Outgoing::new("victim")]).await;
            let host = world.host(1).await;
            while world.times().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
            let victim = world.seen()[0].id.clone();
            let due = if late {
                world.queue.now().0 + 3 * DAY
            } else {
                0
            };
            world.send([forged("victim", &victim, claimed, due)]).await;
            sleep(Duration::from_secs(HOUR)).await;
            let of_victim: Vec<_> = attempts(&world, "victim")
                .into_iter()
                .filter(|(id, _)| *id == victim)
                .map(|(_, count)| count)
                .collect();
            assert_eq!(
                of_victim,
                [1, 2],
                "keys: {keys}, {claimed} attempts, late: {late}"
            );
            let times = world.times();
            let second = if late { times[1] } else { times[2] };
            assert!((600..603).contains(&(second - times[0])), "{times:?}");
            let summary = host.stopped().await;
            assert_eq!(summary.duplicates, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_sees_the_id_that_sqs_gave_a_message_with_a_forged_envelope() {
    let world = World::new(&[("base", "1m")], HoldMode::Auto);
    world.send([forged("forged", "victim", 2, 0)]).await;
    world.run(0).await;
    let seen = &world.seen()[0];
    assert_ne!(seen.id, "victim");
    assert_eq!(seen.envelope.as_ref().unwrap().id, seen.id);
    assert!(!seen.attributes.contains_key(ENVELOPE));
    // What it says about its own message holds.
    assert_eq!(seen.receive_count.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_forged_due_time_is_cut_to_what_the_queue_could_hold() {
    let world = World::new(&[("base", "1m")], HoldMode::Auto);
    let due = world.queue.now().0 + 13 * DAY;
    world.send([forged("forged", "victim", 1, due)]).await;
    let summary = world.run(0).await;
    // Four days less a quarter of an hour, in hops of a quarter of an hour.
    let expected = 96 * HOUR - 900;
    assert!(
        (expected..expected + 3).contains(&world.times()[0]),
        "{:?}",
        world.times()
    );
    assert!((383..=385).contains(&summary.sent_again), "{summary:?}");
}

#[tokio::test(start_paused = true)]
async fn a_forged_due_time_under_visibility_sends_nothing() {
    let world = World::new(&[("base", "1m")], HoldMode::Visibility);
    let due = world.queue.now().0 + HOUR * 1_000;
    world.send([forged("forged", "victim", 1, due)]).await;
    let summary = world.run(0).await;
    assert_eq!((summary.sent_again, summary.succeeded), (0, 1));
    assert!(
        (HOUR..HOUR + 3).contains(&world.times()[0]),
        "{:?}",
        world.times()
    );
}

#[tokio::test(start_paused = true)]
async fn a_forged_envelope_blocks_no_group_of_a_fifo_queue() {
    let mut world = World::new(&[("base", "1m")], HoldMode::Auto);
    world.queue = world.connections.local.named("orders.fifo");
    let due = world.queue.now().0 + DAY;
    let in_group = |number: u32, message: Outgoing| Outgoing {
        group: Some("tenant".to_owned()),
        deduplication_id: Some(number.to_string()),
        ..message
    };
    world
        .send([
            in_group(1, forged("forged", "victim", 1, due)),
            in_group(2, Outgoing::new("behind it")),
        ])
        .await;
    let summary = world.run(0).await;
    assert_eq!((summary.succeeded, summary.sent_again), (2, 0));
    assert!(
        world.times().iter().all(|at| *at < 5),
        "{:?}",
        world.times()
    );
    // It is the sender's attribute, as any other.
    assert!(world.seen()[0].attributes.contains_key(ENVELOPE));
    assert_eq!(world.seen()[0].receive_count.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_without_keys_loses_nothing_and_counts_attempts() {
    for keys in [true, false] {
        let mut world = World::new(&[("base", "20m")], HoldMode::Resend);
        if !keys {
            world.keys = None;
        }
        world.options.max_in_flight = 3;
        world.send(numbered(20)).await;
        let hosts = [world.host(3).await, world.host(3).await];
        world.queue.emptied().await;
        for host in hosts {
            let summary = host.stopped().await;
            assert!(
                summary.received > 0 && summary.duplicates == 0,
                "{summary:?}"
            );
        }
        let (mut ids, by_body) = (BTreeSet::new(), world.by_body());
        for (body, attempts) in &by_body {
            let counts: Vec<_> = attempts.iter().map(|(_, count)| *count).collect();
            assert_eq!(counts, [1, 2, 3, 4], "{body}");
            ids.extend(attempts.iter().map(|(id, _)| id.clone()));
        }
        assert_eq!(by_body.len(), 20);
        // Only with keys do hosts know which message it was that another one sent again.
        assert_eq!(ids.len() == 20, keys, "{}", ids.len());
        if keys {
            assert!(world.lateness().iter().all(|late| late.abs() < 3.0));
        }
    }
}
