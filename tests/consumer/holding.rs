//! How messages wait for their next attempt, by visibility and sent again: on a local queue with the clock paused.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use backstop_core::decision::{Action, Bounds, Decision, Hold};
use backstop_core::failure::Milliseconds;
use backstop_decider::Decider;
use backstop_handlers::function;
use backstop_host::consumer::{self, Options};
use backstop_queue::envelope::ENVELOPE;
use backstop_queue::{
    Attribute, BATCH_BYTES, Connections, LocalSettings, Message, Outgoing, Queue, VisibilityTimeout,
};
use backstop_settle::hold::HoldMode;
use backstop_tests_host::builtin;
use tokio::time::{Instant, sleep};

use crate::hold_world::{HOUR, World, full, numbered};

#[tokio::test(start_paused = true)]
async fn a_delay_of_hours_and_of_days_ends_to_the_second_and_costs_no_attempt() {
    for (base, hours, hold) in [
        ("11h", 11, Hold::Visibility),
        ("13h", 13, Hold::Resend),
        ("3d", 72, Hold::Resend),
    ] {
        let world = World::new(&[("base", base), ("cap", "14d")], HoldMode::Auto);
        world.send([full()]).await;
        let summary = world.run(1).await;
        let [first, second] = world.times()[..] else {
            panic!("{base}: {:?}", world.times());
        };
        let due = first + hours * HOUR;
        assert!(
            (due..=due + 2).contains(&second),
            "{base}: {second} and not {due}"
        );
        assert_eq!(world.holds(), [hold], "{base}");
        assert_eq!((summary.retried, summary.succeeded), (1, 1));
        let hops = if hold == Hold::Resend { hours * 4 } else { 0 };
        assert!(
            (hops..=hops + 1).contains(&summary.sent_again),
            "{base}: {summary:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_handler_sees_a_message_that_was_sent_again_as_it_was() {
    let world = World::new(&[("base", "40m")], HoldMode::Resend);
    world.send([full()]).await;
    world.run(3).await;
    let seen = world.seen();
    assert_eq!(seen.len(), 4);
    for (attempt, message) in (1..).zip(&seen) {
        let expected = Message {
            receive_count: NonZeroU32::new(attempt).unwrap(),
            receipt_handle: message.receipt_handle.clone(),
            received: message.received,
            kept_since: message.kept_since,
            envelope: message.envelope.clone(),
            ..seen[0].clone()
        };
        assert_eq!(*message, expected);
        assert!(!message.attributes.contains_key(ENVELOPE));
    }
    let decisions = world.decisions.0.lock().unwrap();
    let history: Vec<_> = decisions
        .iter()
        .map(|record| {
            let failure = &record.failure;
            let previous = failure.previous_delay.map(|delay| delay.0 / 60_000);
            (
                failure.attempt.get(),
                previous,
                record.hops,
                record.duplicate,
            )
        })
        .collect();
    // Hops of 15 minutes: 40 are 3, 80 are 6.
    assert_eq!(
        history,
        [
            (1, None, 0, false),
            (2, Some(40), 2, false),
            (3, Some(80), 5, false)
        ]
    );
    assert!(decisions[2].failure.age.0 >= 120 * 60_000);
}

/// The decisions of this many hosts on one queue of 20 messages, each of which fails five times: by message and attempt.
async fn decided(
    hosts: usize,
    policy: &'static str,
    hold: HoldMode,
) -> BTreeMap<(String, u32), Decided> {
    let mut world = World::new(&[("base", "10m"), ("cap", "2h")], hold);
    world.policy = policy;
    world.ids_are_bodies = true;
    // The messages change hands.
    world.options.max_in_flight = 3;
    world.send(numbered(20)).await;
    let mut running = Vec::new();
    for _ in 0..hosts {
        running.push(world.host(5).await);
    }
    world.queue.emptied().await;
    for host in running {
        let summary = host.stopped().await;
        assert!(summary.received > 0);
    }
    let decisions = world.decisions.0.lock().unwrap();
    let decided = decisions.iter().map(|record| {
        let failure = &record.failure;
        (
            (failure.message_id.clone(), failure.attempt.get()),
            (failure.previous_delay, record.decision.clone()),
        )
    });
    let decided: BTreeMap<_, _> = decided.collect();
    assert_eq!(decided.len(), decisions.len());
    decided
}

/// The previous delay as the policy received it, and the decision.
type Decided = (Option<Milliseconds>, Decision);

#[tokio::test(start_paused = true)]
async fn three_hosts_decide_as_one() {
    for policy in [
        "full-jitter",
        "equal-jitter",
        "linear",
        "decorrelated-jitter",
    ] {
        let one = decided(1, policy, HoldMode::Resend).await;
        assert_eq!(one.len(), 100);
        assert_eq!(one, decided(3, policy, HoldMode::Resend).await, "{policy}");

        let one = decided(1, policy, HoldMode::Visibility).await;
        let three = decided(3, policy, HoldMode::Visibility).await;
        let keys = |decided: &BTreeMap<_, _>| decided.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&one), keys(&three), "{policy}");
        let mut unknown = 0;
        for (key, (previous_delay, decision)) in &three {
            unknown += u32::from(key.1 > 1 && previous_delay.is_none());
            // The one policy whose delay follows from the previous one, which only the host that set it knows.
            if policy != "decorrelated-jitter" {
                assert_eq!(decision, &one[key].1, "{policy} {key:?}");
            }
        }
        assert!(unknown > 0, "no message changed hands");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_without_room_for_the_envelope_is_held_by_visibility() {
    let many = Outgoing {
        attributes: (0..10)
            .map(|number| (format!("a{number}"), Attribute::number(number)))
            .collect(),
        ..Outgoing::new("ten attributes")
    };
    let large = Outgoing::new("x".repeat(BATCH_BYTES));
    for message in [many, large] {
        let world = World::new(&[("base", "13h"), ("cap", "14d")], HoldMode::Resend);
        world.send([message.clone()]).await;
        let summary = world.run(1).await;
        assert_eq!(world.holds(), [Hold::Visibility]);
        assert_eq!((summary.sent_again, summary.succeeded), (0, 1));
        let seen = world.seen();
        assert_eq!(
            (&seen[1].attributes, &seen[1].body),
            (&message.attributes, &message.body)
        );
        // Cut to what SQS allows.
        assert!(world.times()[1] < 12 * HOUR);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fifo_queue_holds_by_visibility() {
    let mut world = World::new(&[("base", "1h")], HoldMode::Auto);
    world.queue = world.connections.local.named("orders.fifo");
    world
        .send([Outgoing {
            deduplication_id: Some("1".to_owned()),
            ..full()
        }])
        .await;
    let summary = world.run(1).await;
    assert_eq!(
        (world.holds(), summary.sent_again),
        (vec![Hold::Visibility], 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_fifo_queue_that_is_to_send_its_messages_again_is_a_fault() {
    let connections = Connections::default();
    let options = Options {
        hold: HoldMode::Resend,
        ..Options::default()
    };
    let policy = builtin("linear", [("base", "1s")]);
    let bounds = Bounds::default();
    let decider = Decider::new("orders", policy, bounds);
    let handler = function(|_| async { Ok(()) });
    let url = "local:orders.fifo";
    let checked = consumer::check(
        &connections,
        url,
        None::<&str>,
        &handler,
        &decider,
        &bounds,
        &options,
    );
    let fault = checked.await.unwrap_err().to_string();
    assert!(fault.contains("would go behind its group"), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn messages_past_the_retention_of_their_queue_wait_by_being_sent_again() {
    let mut world = World::new(&[("base", "30m")], HoldMode::Auto);
    let settings = LocalSettings {
        retention: Duration::from_secs(HOUR),
        ..LocalSettings::default()
    };
    world
        .connections
        .local
        .set_up("orders-dead-letters", settings.clone());
    world.queue = world.connections.local.set_up("orders", settings);
    world.send([full()]).await;
    let summary = world.run(4).await;
    assert_eq!(
        (summary.retried, summary.dead_lettered, summary.succeeded),
        (4, 0, 1)
    );
    let decisions = world.decisions.0.lock().unwrap();
    assert_eq!(decisions[0].decision.hold, Hold::Visibility);
    let Action::Retry { delay } = decisions[3].decision.action else {
        panic!("{:?}", decisions[3].decision);
    };
    // Held for longer than the queue keeps any message.
    assert_eq!(
        (decisions[3].decision.hold, delay.0),
        (Hold::Resend, 2 * 3_600_000)
    );
}

#[tokio::test(start_paused = true)]
async fn a_forged_envelope_is_no_envelope() {
    let world = World::new(&[("base", "1m")], HoldMode::Auto);
    let mut forged = full();
    forged
        .attributes
        .insert(ENVELOPE.to_owned(), Attribute::string("{\"id\": 1}"));
    world.send([forged.clone()]).await;
    let summary = world.run(1).await;
    assert_eq!(summary.succeeded, 1);
    assert_eq!(world.seen()[0].attributes, forged.attributes);
}

#[tokio::test(start_paused = true)]
async fn a_local_queue_delivers_no_more_than_its_limit_of_messages_in_flight() {
    let connections = Connections::default();
    let settings = LocalSettings {
        max_in_flight: 15,
        ..LocalSettings::default()
    };
    let queue = connections.local.set_up("orders", settings);
    for number in 0..20 {
        queue
            .send(&[Outgoing::new(number.to_string())])
            .await
            .unwrap();
    }
    let take = async |wait| {
        queue
            .receive(10, wait, VisibilityTimeout::from_seconds(30))
            .await
    };
    assert_eq!(take(Duration::ZERO).await.unwrap().len(), 10);
    assert_eq!(take(Duration::ZERO).await.unwrap().len(), 5);
    assert_eq!(queue.describe().await.unwrap().in_flight, Some(15));
    // A short poll fails; a long poll waits until there is room.
    assert_eq!(take(Duration::ZERO).await.unwrap_err().code, "OverLimit");
    let began = Instant::now();
    assert_eq!(take(Duration::from_secs(20)).await.unwrap().len(), 0);
    assert_eq!(take(Duration::from_secs(20)).await.unwrap().len(), 10);
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_forged_envelope_with_another_message_s_id_harms_no_other_message() {
    let world = World::new(&[("base", "1m")], HoldMode::Resend);
    world.send([Outgoing::new("victim")]).await;
    let ids = world.host(1).await;
    while world.times().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    let victim = world.seen()[0].id.clone();
    let mut forged = full();
    let envelope = format!(
        r#"{{"id": "{victim}", "sent": 0, "first-received": 0, "attempts": 999, "delay": 1, "due": 0}}"#
    );
    forged
        .attributes
        .insert(ENVELOPE.to_owned(), Attribute::string(envelope));
    world.send([forged]).await;
    world.queue.emptied().await;
    ids.stopped().await;
    let attempts = world
        .seen()
        .into_iter()
        .filter(|message| &*message.body == "victim");
    let attempts: Vec<_> = attempts
        .map(|message| message.receive_count.get())
        .collect();
    assert_eq!(attempts, [1, 2]);
}
