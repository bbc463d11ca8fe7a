//! The consumer on the local queue with the clock paused, so that hours of retries take no time.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::decision::{Action, Bounds, DecidedBy};
use backstop_core::failure::Milliseconds;
use backstop_engine::{Limits, Sandbox};
use backstop_host::consumer::Options;
use backstop_queue::{Outgoing, Queue, VisibilityTimeout};
use backstop_records::DecisionRecord;
use tokio::time::{Instant, sleep};

use crate::trial::{Trial, unavailable};

fn delays(decisions: &[DecisionRecord]) -> Vec<u32> {
    let delay = |record: &DecisionRecord| match record.decision.action {
        Action::Retry { delay } => Some(delay.0),
        Action::DeadLetter { .. } | Action::Discard { .. } => None,
    };
    decisions.iter().filter_map(delay).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_retried_when_its_delay_is_over_and_not_earlier() {
    let trial = Trial::new("orders").set("base", "1h");
    trial.send(&["a"]).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let (noted, started) = (Arc::clone(&times), Instant::now());
    let summary = trial
        .run(move |message| {
            noted.lock().unwrap().push(started.elapsed().as_secs());
            let failed = message.receive_count.get() < 4;
            async move { if failed { Err(unavailable()) } else { Ok(()) } }
        })
        .await;
    // One, two and three hours after one another.
    assert_eq!(*times.lock().unwrap(), [0, 3_600, 3 * 3_600, 6 * 3_600]);
    assert_eq!(
        (summary.received, summary.retried, summary.succeeded),
        (4, 3, 1)
    );
    let decisions = trial.decisions();
    assert_eq!(delays(&decisions), [3_600_000, 7_200_000, 10_800_000]);
    let previous: Vec<_> = decisions
        .iter()
        .map(|record| record.failure.previous_delay.map(|delay| delay.0))
        .collect();
    assert_eq!(previous, [None, Some(3_600_000), Some(7_200_000)]);
    assert!(decisions[2].failure.age.0 >= 3 * 3_600_000);
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_twelve_hours_is_cut_to_what_sqs_allows() {
    let trial = Trial::new("orders").by_visibility();
    let trial = trial.set("base", "13h").set("cap", "14d");
    trial.send(&["a"]).await;
    trial
        .run(|message| async move {
            if message.receive_count.get() == 1 {
                Err(unavailable())
            } else {
                Ok(())
            }
        })
        .await;
    let record = &trial.decisions()[0];
    assert_eq!(
        record.decision.decided_by,
        DecidedBy::Shortened(Milliseconds(13 * 3_600_000))
    );
    // Less a minute's margin, and the moments since the receive.
    let allowed = 12 * 3_600_000 - 60_000;
    assert!((allowed - 1_000..=allowed).contains(&delays(&trial.decisions())[0]));
}

#[tokio::test(start_paused = true)]
async fn a_message_is_dead_lettered_before_the_queue_would_drop_it() {
    let trial = Trial::new("orders").by_visibility();
    let trial = trial.set("base", "11h").set("cap", "11h");
    trial.send(&["a"]).await;
    let summary = trial.run(|_| async { Err(unavailable()) }).await;
    // Four days of retention: after the ninth attempt at 88 h the next would come at 99 h.
    assert_eq!((summary.dead_lettered, summary.retried), (1, 8));
    let reason = trial.letters().await["a"].attributes["BackstopReason"].to_text();
    assert!(
        reason.contains("after the queue's retention of 4d"),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_bounds_of_a_queue_apply_to_every_policy() {
    let mut trial = Trial::new("orders").set("base", "1s");
    trial.bounds = Bounds {
        max_attempts: NonZeroU32::new(3),
        max_age: Some(Milliseconds(60_000)),
        ..Bounds::default()
    };
    trial.send(&["attempts"]).await;
    trial.run(|_| async { Err(unavailable()) }).await;
    assert_eq!(
        trial.letters().await["attempts"].attributes["BackstopReason"].to_text(),
        "the queue's max-attempts of 3 reached: HTTP 503"
    );

    let mut trial = Trial::new("orders").set("base", "31s");
    trial.bounds = Bounds {
        max_age: Some(Milliseconds(60_000)),
        ..Bounds::default()
    };
    trial.send(&["age"]).await;
    trial.run(|_| async { Err(unavailable()) }).await;
    assert_eq!(
        trial.letters().await["age"].attributes["BackstopReason"].to_text(),
        "the queue's max-age of 1m reached: HTTP 503"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_an_endless_attempt_are_failures_like_any_other() {
    let mut trial = Trial::new("orders").set("base", "1s");
    trial.options.attempt_timeout = Duration::from_secs(90);
    trial.send(&["panics", "hangs"]).await;
    let summary = trial
        .run(|message| async move {
            match (message.body.as_ref(), message.receive_count.get()) {
                ("panics", 1) => panic!("no such order"),
                ("hangs", 1) => std::future::pending().await,
                _ => Ok(()),
            }
        })
        .await;
    assert_eq!(summary.succeeded, 2);
    let errors: BTreeMap<_, _> = trial
        .decisions()
        .into_iter()
        .map(|record| (record.failure.error.code, record.failure.error.message))
        .collect();
    assert_eq!(errors["Panic"], "no such order");
    assert_eq!(errors["Timeout"], "no outcome within 1m30s");
}

#[tokio::test(start_paused = true)]
async fn receives_without_an_attempt_are_not_counted_as_attempts() {
    let trial = Trial::new("orders.fifo")
        .set("base", "1s")
        .set("max-attempts", "4");
    trial.send(&["head", "behind"]).await;
    let summary = trial
        .run(|message| async move {
            match (message.body.as_ref(), message.receive_count.get()) {
                ("head", 1..=3) => Err(unavailable()),
                ("behind", count) if count < 6 => Err(unavailable()),
                _ => Ok(()),
            }
        })
        .await;
    // It was returned three times behind the failed head; its own attempts 1 and 2 are at receives 4 and 5.
    assert_eq!(
        (
            summary.succeeded,
            summary.handed_back,
            summary.dead_lettered
        ),
        (2, 3, 0)
    );
    let decisions = trial.decisions();
    let attempts: Vec<_> = decisions
        .iter()
        .map(|record| record.failure.attempt.get())
        .collect();
    assert_eq!(attempts, [1, 2, 3, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn receives_of_a_group_by_another_process_are_not_counted_as_attempts() {
    let trial = Trial::new("orders.fifo")
        .set("base", "1s")
        .set("max-attempts", "4");
    trial.send(&["head", "behind"]).await;
    // Another process, or this one before a restart, has made six failed attempts at the first of the group.
    for _ in 0..6 {
        let visibility = VisibilityTimeout::from_seconds(30);
        let received = trial.queue.receive(10, Duration::ZERO, visibility).await;
        let back: Vec<_> = received
            .unwrap()
            .into_iter()
            .map(|message| (message.receipt_handle, VisibilityTimeout::ZERO))
            .collect();
        trial.queue.change_visibility(&back).await.unwrap();
    }
    let tries = Arc::new(Mutex::new(BTreeMap::new()));
    let summary = trial
        .run(move |message| {
            let mut tries = tries.lock().unwrap();
            let tries = tries.entry(message.body.clone()).or_insert(0);
            *tries += 1;
            let is_done = *tries == 4;
            async move { if is_done { Ok(()) } else { Err(unavailable()) } }
        })
        .await;
    assert_eq!((summary.succeeded, summary.dead_lettered), (2, 0));
    let decisions = trial.decisions();
    let attempts = decisions.iter().map(|record| record.failure.attempt.get());
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn the_same_failure_gets_the_same_decision_again() {
    let mut trial = Trial::new("orders").set("base", "1m");
    trial.policy = "full-jitter";
    trial.send(&["a"]).await;
    trial
        .run(|message| async move {
            if message.receive_count.get() < 6 {
                Err(unavailable())
            } else {
                Ok(())
            }
        })
        .await;
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = backstop_versions::load(&sandbox, "full-jitter", &[("base", "1m")]).unwrap();
    for record in trial.decisions() {
        let again = policy
            .evaluate(&record.failure, &Default::default())
            .answer
            .unwrap();
        assert_eq!(
            (again.class, again.action),
            (record.decision.class, record.decision.action)
        );
        assert_eq!(
            record.failure.random,
            backstop_core::failure::random(&record.failure.message_id, record.failure.attempt)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_messages_take_few_requests() {
    let trial = Trial::new("orders");
    trial.send_batches(100).await;
    let summary = trial.run(|_| async { Ok(()) }).await;
    assert_eq!(summary.succeeded, 1_000);
    assert!(
        summary.requests_per_message <= 0.22,
        "{}",
        summary.requests_per_message
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_does_not_wait_for_requests_to_be_shared() {
    let trial = Trial::new("orders.fifo");
    trial.send_batches(10).await;
    let started = Instant::now();
    let summary = trial.run(|_| async { Ok(()) }).await;
    assert_eq!(summary.succeeded, 100);
    // Less than one linger for all of them.
    assert!(started.elapsed() < Options::default().linger);
}

#[tokio::test(start_paused = true)]
async fn groups_that_are_handled_at_the_same_time_share_deletes() {
    let trial = Trial::new("orders.fifo");
    for number in 0..10 {
        let of_each_group: Vec<_> = (0..10)
            .map(|group| Outgoing {
                group: Some(group.to_string()),
                deduplication_id: Some(format!("{group}-{number}")),
                ..Outgoing::new(format!("{group}-{number}"))
            })
            .collect();
        for sent in trial.queue.send(&of_each_group).await.unwrap() {
            sent.unwrap();
        }
    }
    // Each takes another time, but none as long as the linger.
    let summary = trial
        .run(|message| async move {
            let group: u64 = message.body[..1].parse().unwrap();
            tokio::time::sleep(Duration::from_millis(5 * group)).await;
            Ok(())
        })
        .await;
    // One of each group.
    assert_eq!((summary.succeeded, summary.delete_requests), (100, 10));
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_behind_others_of_their_group_stay_invisible() {
    let trial = Trial::new("orders.fifo");
    let bodies: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    trial
        .send(&bodies.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&order);
    // Ten times eight seconds, and the visibility timeout is 30 s.
    let summary = trial
        .run(move |message| {
            noted.lock().unwrap().push(message.body.to_string());
            async move {
                tokio::time::sleep(Duration::from_secs(8)).await;
                Ok(())
            }
        })
        .await;
    assert_eq!(*order.lock().unwrap(), bodies);
    assert_eq!(
        (summary.received, summary.succeeded, summary.unsettled),
        (10, 10, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_received_while_the_messages_in_flight_reach_the_byte_limit() {
    let mut trial = Trial::new("orders");
    trial.options.max_bytes_in_flight = 1 << 20;
    let bodies: Vec<_> = (0..40)
        .map(|number| format!("{number}{}", "x".repeat(200_000)))
        .collect();
    for bodies in bodies.chunks(5) {
        let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
        trial.send(&bodies).await;
    }
    let (in_hand, peak) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let highest = Arc::clone(&peak);
    let summary = trial
        .run(move |_| {
            let (in_hand, peak) = (Arc::clone(&in_hand), Arc::clone(&highest));
            async move {
                let now = in_hand.fetch_add(1, Ordering::SeqCst) + 1;
                peak.fetch_max(now, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
                in_hand.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        })
        .await;
    assert_eq!(summary.succeeded, 40);
    // Five of them reach the limit of a megabyte; one receive may add ten.
    let peak = peak.load(Ordering::SeqCst);
    assert!((5..=15).contains(&peak), "{peak}");
}
