//! How the Lambda retry handler holds messages: by visibility, and sent to their retry queue again. With the clock paused.

use std::time::Duration;

use backstop_core::failure::Error;
use backstop_host::lambda::BatchError;
use backstop_queue::envelope::ENVELOPE;
use backstop_queue::{Message, Queue, ReceiptHandle};
use backstop_settle::hold::HoldMode;
use backstop_tests_host::retries::event;
use backstop_tests_host::retry_world::{Invocation, Plan, World};
use serde_json::{Value, json};
use tokio::time::Instant;

const MINUTE: u64 = 60_000;
const DAY: Duration = Duration::from_secs(86_400);

/// Runs an event that fails three more times, and returns when it was invoked, in minutes, and with what.
async fn run(plan: Plan) -> (World, Vec<u64>, Vec<Invocation>) {
    let world = Plan {
        outcome: Box::new(|it| {
            if it.attempt() < 4 {
                Err("Upstream")
            } else {
                Ok(())
            }
        }),
        ..plan
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!({"order": 1}), "Upstream").await;
    world.run().await;
    let invocations = world.invocations();
    let minutes = invocations
        .iter()
        .map(|it| (it.at.since(start).as_secs() + 2) / 60)
        .collect();
    assert!(world.dead_letters.is_empty());
    (world, minutes, invocations)
}

/// What of an event does not depend on the time of its first failure.
fn timeless(invocation: &Invocation) -> Value {
    let mut event = invocation.event.clone();
    let metadata = event["_retry_metadata"].as_object_mut().unwrap();
    metadata.remove("initial_timestamp");
    event
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_the_retention_is_kept_by_hops() {
    let (_, minutes, invocations) = run(Plan {
        settings: vec![("base", "2d"), ("cap", "14d")],
        retention: DAY,
        hold: HoldMode::Auto,
        ..Plan::default()
    })
    .await;
    // After 2, 4 and 6 days, each of them longer than the queue keeps a message.
    assert_eq!(minutes, [2, 6, 12].map(|days| days * 24 * 60));
    let last = &invocations[2];
    assert_eq!(last.event["_original_payload"], json!({"order": 1}));
    let metadata = &last.event["_retry_metadata"];
    assert_eq!(metadata["id"], "r-0");
    assert_eq!(metadata["previous_delay_ms"], 6 * 24 * 60 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn both_holds_invoke_the_same_events_at_the_same_times() {
    let plan = |hold| Plan {
        settings: vec![("base", "100m")],
        hold,
        ..Plan::default()
    };
    let (_, minutes, hidden) = run(plan(HoldMode::Visibility)).await;
    assert_eq!(minutes, [100, 300, 600]);
    let (_, again, sent) = run(plan(HoldMode::Resend)).await;
    assert_eq!(minutes, again);
    let events = |invocations: &[Invocation]| invocations.iter().map(timeless).collect::<Vec<_>>();
    assert_eq!(events(&hidden), events(&sent));
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_with_its_envelope_and_comes_in_hops() {
    let world = Plan {
        hold: HoldMode::Resend,
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    let first = world.receive().await;
    // The handler deletes the message, so the mapping has nothing to report.
    assert!(world.hand_over(&first).await.is_empty());
    for hops in 0..3 {
        let mut messages = Vec::new();
        while messages.is_empty() {
            messages = world.receive().await;
        }
        let envelope = messages[0].attributes[ENVELOPE].to_text();
        let envelope: Value = serde_json::from_str(&envelope).unwrap();
        assert_eq!(envelope["id"], Value::from(first[0].id.clone()));
        assert_eq!(
            (&envelope["hops"], &envelope["attempts"]),
            (&json!(hops), &json!(1))
        );
        assert_eq!(messages[0].body, first[0].body);
        assert!(world.hand_over(&messages).await.is_empty());
        assert_eq!(world.queue.len(), 1);
    }
    world.run().await;
    assert_eq!((world.tries(), world.invocations().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_t_be_sent_again_is_hidden_until_its_time() {
    // The queue has room for the message, but not for another copy.
    let world = Plan {
        hold: HoldMode::Resend,
        max_bytes: 2_500,
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!(1), "Upstream").await;
    let messages = world.receive().await;
    assert_eq!(world.hand_over(&messages).await, [messages[0].id.clone()]);
    world.run().await;
    let invocations = world.invocations();
    assert_eq!((world.tries(), invocations.len()), (1, 1));
    let waited = invocations[0].at.since(start).as_secs();
    assert!((3_600..3_603).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_t_be_sent_again_is_dead_lettered_before_its_queue_drops_it() {
    let world = Plan {
        settings: vec![("base", "2d"), ("cap", "14d")],
        retention: DAY,
        hold: HoldMode::Auto,
        max_bytes: 2_500,
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    // It is hidden for hours at first. Near the end of the queue's day it could not be hidden any more.
    let letters = world.take_dead().await;
    assert_eq!((letters.len(), world.invocations().len()), (1, 0));
    let letter = letters.values().next().unwrap();
    let reason = letter.attributes["BackstopReason"].to_text();
    assert!(reason.contains("its queue would drop it"), "{reason}");
    assert_eq!(letter.attributes["BackstopMessageId"].to_text(), "r-0");
}

/// Passes batches to the handler as a mapping without `ReportBatchItemFailures` does, until the retry queue is empty: it deletes all messages of a batch that succeeds. How many batches failed.
async fn run_without_reports(world: &World) -> usize {
    let mut failed = 0;
    let mapping = async {
        loop {
            let messages = world.receive().await;
            if messages.is_empty() {
                continue;
            }
            let batch = event("local:retries", &messages);
            let deadline = Instant::now() + Duration::from_secs(60);
            match world.handler.handle(batch, deadline).await {
                Ok(_) => {
                    let handle = |it: &Message| it.receipt_handle.clone();
                    let all: Vec<ReceiptHandle> = messages.iter().map(handle).collect();
                    let _ = world.queue.delete(&all).await;
                }
                Err(BatchError::Unreported(_)) => failed += 1,
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::select! {
        () = world.queue.emptied() => {}
        () = mapping => {}
    }
    failed
}

#[tokio::test(start_paused = true)]
async fn where_nobody_knows_whether_the_response_is_read_no_event_is_lost() {
    let unknown = || Err(Error::new("ListEventSourceMappings", "not authorized"));
    for (reports_failures, hold, detects_recursion, is_sent_again) in [
        (unknown(), HoldMode::Auto, false, true),
        (Ok(None), HoldMode::Resend, true, true),
        // Lambda would take the hops for a loop.
        (unknown(), HoldMode::Auto, true, false),
        (unknown(), HoldMode::Visibility, false, false),
    ] {
        let world = Plan {
            reports_failures,
            hold,
            detects_recursion,
            settings: vec![("base", "10m")],
            ..Plan::default()
        }
        .build();
        let start = world.queue.now();
        for number in 0..20 {
            let id = format!("r-{number}");
            world
                .fail(&id, &json!({ "order": number }), "Upstream")
                .await;
        }
        let failed = run_without_reports(&world).await;
        let invocations = world.invocations();
        assert_eq!(invocations.len(), 20, "{hold:?}, {detects_recursion}");
        for invocation in invocations {
            let waited = invocation.at.since(start).as_secs();
            assert!((600..605).contains(&waited), "{waited}");
        }
        assert_eq!(failed == 0, is_sent_again, "{hold:?}: {failed}");
        assert!(world.dead_letters.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_ignores_the_response_gets_no_work_done_and_loses_nothing() {
    let world = Plan {
        reports_failures: Ok(Some(false)),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    let messages = world.receive().await;
    let batch = event("local:retries", &messages);
    let deadline = Instant::now() + Duration::from_secs(60);
    let refused = world.handler.handle(batch, deadline).await.unwrap_err();
    assert!(matches!(refused, BatchError::ResponseIgnored(_)));
    let text = refused.to_string();
    assert!(
        text.contains("local:retries does not have ReportBatchItemFailures"),
        "{text}"
    );
    assert_eq!((world.queue.len(), world.tries()), (1, 0));
}
