//! The Lambda retry handler with the clock paused, so that days of retries take no time. The queue is local, the functions are simulated (`support/retry_world.rs`).

use std::time::Duration;

use backstop_core::decision::Bounds;
use backstop_core::failure::{Error, Milliseconds};
use backstop_host::config::DeadLetterQueues;
use backstop_host::lambda::BatchError;
use backstop_queue::{Attribute, Outgoing, Queue};
use backstop_settle::hold::HoldMode;
use backstop_tests::policies::waits;
use backstop_tests_host::retries::{corpus, event, record};
use backstop_tests_host::retry_world::{FUNCTION, Outcome, Plan, World};
use backstop_versions::Reload;
use serde_json::json;
use tokio::time::{Instant, sleep};

const HOUR: u64 = 3_600_000;

fn bounds(most: u32, oldest: u32) -> Bounds {
    Bounds {
        max_attempts: Some(most.try_into().unwrap()),
        max_age: Some(Milliseconds(oldest)),
        ..Bounds::default()
    }
}

/// A function that succeeds at this attempt and fails before.
fn fails_until(attempt: u64) -> Box<Outcome> {
    Box::new(move |it| {
        if it.attempt() < attempt {
            Err("Upstream")
        } else {
            Ok(())
        }
    })
}

/// The times of the invocations since `start`, in whole minutes.
fn minutes(world: &World, start: backstop_core::failure::Timestamp) -> Vec<u64> {
    let since = |at: backstop_core::failure::Timestamp| at.since(start).as_secs() / 60;
    world
        .invocations()
        .iter()
        .map(|invocation| since(invocation.at))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_held_until_it_is_due_and_invoked_until_it_succeeds() {
    let world = Plan {
        outcome: fails_until(4),
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!({"order": 1}), "Upstream").await;
    world.run().await;
    // Linear from an hour: after 1, 1 + 2 and 1 + 2 + 3 hours.
    assert_eq!(minutes(&world, start), [60, 180, 360]);
    let last = world.invocations().pop().unwrap();
    assert_eq!(last.function, FUNCTION);
    assert_eq!(last.event["_original_payload"], json!({"order": 1}));
    assert_eq!(last.event["_retry_metadata"]["id"], "r-0");
    assert_eq!(last.event["_retry_metadata"]["previous_delay_ms"], 3 * HOUR);
    assert!(world.dead_letters.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_record_from_the_future_is_held_no_longer_than_one_from_now() {
    let world = Plan::default().build();
    let start = world.queue.now();
    let year = Duration::from_secs(365 * 86_400);
    let body = record(FUNCTION, "r-0", start.plus(year), &json!(1), "Upstream");
    world.put(body).await;
    world.run().await;
    assert_eq!(minutes(&world, start), [60]);
    assert!(world.dead_letters.is_empty());
}

/// As Node writes an error message that was cut in the middle of an emoji.
#[tokio::test(start_paused = true)]
async fn a_permanent_error_with_an_unpaired_surrogate_is_dead_lettered() {
    let world = Plan::default().build();
    let error = "ValidationException";
    let body = record(FUNCTION, "r-0", world.queue.now(), &json!("CUT"), error);
    let body = body
        .replace("as told", r"cut \ud83d")
        .replace("CUT", r"\ude00");
    world.put(body.clone()).await;
    world.run().await;
    assert!(world.invocations().is_empty());
    let dead = world.take_dead().await;
    let (reason, letter) = dead.first_key_value().unwrap();
    assert_eq!(reason, "permanent: ValidationException");
    assert_eq!(*letter.body, *body);
    assert_eq!(
        letter.attributes["BackstopError"].to_text(),
        "ValidationException: cut \u{fffd}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_days_is_held_in_steps_and_never_shortened() {
    let world = Plan {
        settings: vec![("base", "30h"), ("cap", "14d")],
        outcome: fails_until(4),
        hold: HoldMode::Visibility,
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    // After 30 h, 60 h and 90 h; the last delay takes eight steps.
    assert_eq!(
        minutes(&world, start),
        [30, 90, 180].map(|hours| hours * 60)
    );
}

#[tokio::test(start_paused = true)]
async fn retries_go_on_for_two_weeks_and_end_with_a_reason() {
    let world = Plan {
        settings: vec![("base", "24h"), ("cap", "24h")],
        bounds: bounds(100, 14 * 86_400_000),
        outcome: Box::new(|_| Err("Upstream")),
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    let days: Vec<_> = minutes(&world, start).iter().map(|it| it / 1_440).collect();
    assert_eq!(days, (1..=13).collect::<Vec<_>>());
    let dead = world.take_dead().await;
    let (reason, letter) = dead.first_key_value().unwrap();
    assert_eq!(reason, "the queue's max-age of 14d reached: Upstream");
    // The record is unchanged, so that a redrive works.
    assert!(letter.body.contains("requestPayload"));
    assert_eq!(letter.attributes["BackstopAttempt"].to_text(), "14");
    assert_eq!(letter.attributes["BackstopMessageId"].to_text(), "r-0");
    // The retry queue, where the handler goes on with it.
    let source = letter.attributes["BackstopSource"].to_text();
    assert!(source.starts_with("local:"), "{source}");
    assert_eq!(
        letter.attributes["BackstopError"].to_text(),
        "Upstream: as told"
    );
    let first = letter.attributes["BackstopFirstSent"].to_text();
    assert_eq!(first.parse::<u64>().unwrap() / 1_000, start.0 / 1_000);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_attempts_and_the_class_end_retries() {
    let world = Plan {
        bounds: bounds(3, u32::MAX),
        outcome: Box::new(|_| Err("Upstream")),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.fail("r-1", &json!(2), "ValidationException").await;
    world.run().await;
    assert_eq!(world.invocations().len(), 2);
    let dead = world.take_dead().await;
    let reasons: Vec<_> = dead.keys().map(String::as_str).collect();
    assert_eq!(
        reasons,
        [
            "permanent: ValidationException",
            "the queue's max-attempts of 3 reached: Upstream"
        ]
    );
}

/// With an expired receipt handle the visibility can't be changed, so the message may be delivered at any time.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_delivered_early_repeatedly_is_invoked_once_when_due() {
    let world = Plan::default().build();
    let start = world.queue.now();
    world.fail("r-0", &json!(1), "Upstream").await;
    let mut message = world.receive().await.remove(0);
    message.receipt_handle.0 = "of an earlier receive".into();
    for count in 1..=59 {
        message.receive_count = count.try_into().unwrap();
        assert_eq!(
            world.hand_over(std::slice::from_ref(&message)).await,
            [message.id.clone()]
        );
        sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(world.invocations().len(), 0);
    sleep(Duration::from_secs(60)).await;
    assert!(
        world
            .hand_over(std::slice::from_ref(&message))
            .await
            .is_empty()
    );
    assert_eq!(minutes(&world, start), [60]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_delivered_twice_is_invoked_twice_with_one_idempotency_key() {
    let world = Plan {
        settings: vec![("base", "1ms"), ("cap", "1ms")],
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    sleep(Duration::from_secs(1)).await;
    let message = world.receive().await.remove(0);
    let twice = [message.clone(), message];
    assert!(world.hand_over(&twice).await.is_empty());
    let made = world.invocations();
    assert_eq!(made.len(), 2);
    assert_eq!(made[0].event, made[1].event);
}

#[tokio::test(start_paused = true)]
async fn a_policy_swapped_while_a_message_waits_decides_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rule.wat");
    std::fs::write(&path, waits(3_600_000)).unwrap();
    let world = Plan {
        policy: Box::leak(path.to_str().unwrap().to_owned().into_boxed_str()),
        settings: vec![],
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run_for(Duration::from_secs(60)).await;
    // The message is invisible for an hour. Its new time is earlier, so it is invoked when it is delivered.
    std::fs::write(&path, waits(600_000)).unwrap();
    assert!(matches!(world.policy.reload(), Reload::Swapped { .. }));
    world.run().await;
    assert_eq!(minutes(&world, start), [60]);
    // With a later time it is held once more.
    world.fail("r-1", &json!(2), "Upstream").await;
    world.run_for(Duration::from_secs(60)).await;
    std::fs::write(&path, waits(7_200_000)).unwrap();
    assert!(matches!(world.policy.reload(), Reload::Swapped { .. }));
    world.run().await;
    assert_eq!(minutes(&world, start), [60, 60 + 120]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_comes_before_the_queue_would_drop_it() {
    let world = Plan {
        settings: vec![("base", "3d"), ("cap", "14d")],
        retention: Duration::from_secs(86_400),
        hold: HoldMode::Visibility,
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    assert_eq!(minutes(&world, start), [24 * 60 - 15]);
}

#[tokio::test(start_paused = true)]
async fn an_invocation_that_lambda_throttles_is_retried_soon() {
    let throttled = || Error::new("TooManyRequestsException", "rate exceeded").status(429);
    let world = Plan {
        refusal: Box::new(move |tried| if tried < 5 { Err(throttled()) } else { Ok(()) }),
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    assert_eq!((world.tries(), world.invocations().len()), (5, 1));
    assert!((60..90).contains(&minutes(&world, start)[0]));
    // It is still the second attempt.
    assert_eq!(world.invocations()[0].attempt(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_function_does_not_exist_is_dead_lettered() {
    let gone = || Error::new("ResourceNotFoundException", "function not found").status(404);
    let world = Plan {
        refusal: Box::new(move |_| Err(gone())),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    assert_eq!(world.tries(), 1);
    let dead = world.take_dead().await;
    let reason = dead.keys().next().unwrap();
    assert_eq!(
        reason,
        "arn:aws:lambda:eu-west-1:123456789012:function:orders can't be invoked: ResourceNotFoundException: function not found"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_is_retried_for_a_limited_time_while_a_permission_is_missing() {
    let denied = || Error::new("AccessDeniedException", "not authorized").status(403);
    for (is_mended, longest) in [(true, 5), (false, 13)] {
        let mended = Instant::now() + Duration::from_secs(5 * 3_600);
        let world = Plan {
            refusal: Box::new(move |_| {
                if is_mended && Instant::now() >= mended {
                    Ok(())
                } else {
                    Err(denied())
                }
            }),
            ..Plan::default()
        }
        .build();
        let start = world.queue.now();
        world.fail("r-0", &json!(1), "Upstream").await;
        world.run().await;
        // It is due after an hour, then retried for twelve more, every five minutes at the latest.
        let hours = world.queue.now().since(start).as_secs_f64() / 3_600.0;
        assert!(
            (0.0..0.1).contains(&(hours - f64::from(longest))),
            "{hours}"
        );
        assert!(world.tries() > 40, "{}", world.tries());
        let reasons: Vec<_> = world.take_dead().await.into_keys().collect();
        if is_mended {
            assert_eq!((world.invocations().len(), reasons.len()), (1, 0));
        } else {
            assert_eq!(
                reasons,
                [
                    "arn:aws:lambda:eu-west-1:123456789012:function:orders can't be invoked: AccessDeniedException: not authorized"
                ]
            );
        }
    }
}

/// Everybody with permission to send to the retry queue can name any function.
#[tokio::test(start_paused = true)]
async fn only_functions_on_the_list_are_invoked() {
    let other = "arn:aws:lambda:eu-west-1:123456789012:function:transfer-money";
    let world = Plan {
        functions: vec!["orders".to_owned()],
        ..Plan::default()
    }
    .build();
    let now = world.queue.now();
    world
        .put(record(other, "r-0", now, &json!(1), "Upstream"))
        .await;
    world.fail("r-1", &json!(2), "Upstream").await;
    // Not even by a message that seems to be redriven.
    let redriven = Outgoing {
        attributes: [("BackstopReason".to_owned(), Attribute::string("any"))].into(),
        ..Outgoing::new(record(other, "r-2", now, &json!(3), "Upstream"))
    };
    world.queue.send(&[redriven]).await.unwrap();
    world.run().await;
    let made = world.invocations();
    assert_eq!((made.len(), made[0].function.as_str()), (1, FUNCTION));
    let dead = world.take_dead().await;
    let reason = format!(
        "{other} is not one of the functions that may be invoked: if it should be, add it to functions (BACKSTOP_FUNCTIONS)"
    );
    assert_eq!(dead.keys().collect::<Vec<_>>(), [&reason]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_stays_throttled_is_dead_lettered_before_the_retention_ends() {
    let throttled = || Error::new("TooManyRequestsException", "rate exceeded");
    let world = Plan {
        retention: Duration::from_secs(2 * 3_600),
        refusal: Box::new(move |_| Err(throttled())),
        hold: HoldMode::Visibility,
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    let dead = world.take_dead().await;
    let reason = dead.keys().next().unwrap();
    assert_eq!(
        reason,
        "not invoked before the retry queue's retention was over: TooManyRequestsException: rate exceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn a_redriven_event_starts_over_at_once() {
    let world = Plan {
        bounds: bounds(3, 86_400_000),
        outcome: fails_until(6),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!({"order": 1}), "Upstream").await;
    world.run().await;
    let letter = world.take_dead().await.into_values().next().unwrap();
    sleep(Duration::from_secs(10 * 86_400)).await;
    // A redrive keeps body and attributes.
    let start = world.queue.now();
    let moved = Outgoing {
        attributes: letter.attributes,
        ..Outgoing::new(letter.body)
    };
    world.queue.send(&[moved]).await.unwrap();
    world.run().await;
    let attempts: Vec<_> = world.invocations().iter().map(|it| it.attempt()).collect();
    assert_eq!(attempts, [2, 3, 4, 5, 6]);
    // At once, then after one hour and after two more, ten days after the limit of one day was reached.
    assert_eq!(minutes(&world, start)[2..], [0, 60, 180]);
    assert!(world.dead_letters.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_a_class_go_to_its_own_queue() {
    let world = Plan {
        dead_letter_queues: DeadLetterQueues::default().with("permanent", "local:invalid"),
        bounds: bounds(2, 86_400_000),
        outcome: Box::new(|_| Err("Upstream")),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "ValidationException").await;
    world.fail("r-1", &json!(2), "Upstream").await;
    world.run().await;
    let invalid = world.connections.local.named("invalid");
    assert_eq!((invalid.len(), world.dead_letters.len()), (1, 1));
    let letter = world.take_dead().await.into_values().next().unwrap();
    let class = letter.attributes["BackstopClass"].to_text();
    assert_eq!(class, "transient");
}

#[tokio::test(start_paused = true)]
async fn without_a_dead_letter_queue_only_dead_letters_stay() {
    let world = Plan {
        dead_letter_queues: DeadLetterQueues::from(Some("local:retries")),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "ValidationException").await;
    world.fail("r-1", &json!(2), "Upstream").await;
    world.run_for(Duration::from_secs(2 * 3_600)).await;
    let made = world.invocations();
    assert_eq!(
        (made.len(), made[0].event["_original_payload"].clone()),
        (1, json!(2))
    );
    assert_eq!(world.queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_redriven_event_is_not_invoked_in_a_terminated_chain() {
    let world = Plan {
        settings: vec![("base", "1m")],
        detects_recursion: true,
        outcome: Box::new(|_| Err("Upstream")),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "Upstream").await;
    world.run().await;
    let letter = world.take_dead().await.into_values().next().unwrap();
    let moved = Outgoing {
        attributes: letter.attributes,
        ..Outgoing::new(letter.body)
    };
    world.queue.send(&[moved]).await.unwrap();
    world.run().await;
    assert_eq!(world.invocations().len(), 11);
    let dead = world.take_dead().await;
    let reason = dead.keys().next().unwrap();
    assert!(
        reason.starts_with("attempt 13 would be cut off"),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_grows_too_large_is_dead_lettered_with_the_reason() {
    let world = Plan::default().build();
    let of = |event: &str| {
        record(
            FUNCTION,
            "r-0",
            world.queue.now(),
            &json!(event),
            "Upstream",
        )
    };
    // Nearly as large as a record may be.
    let event = "x".repeat((1 << 20) - of("").len() - 150);
    world.put(of(&event)).await;
    world.run().await;
    assert!(world.invocations().is_empty());
    let dead = world.take_dead().await;
    let reason = dead.keys().next().unwrap();
    assert!(
        reason.contains("the retry queue accepts at most 1048576"),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_recursion_detection_would_terminate_is_dead_lettered() {
    for (detects_recursion, attempts) in [(true, 11), (false, 19)] {
        let world = Plan {
            settings: vec![("base", "1m")],
            bounds: bounds(20, u32::MAX),
            detects_recursion,
            outcome: Box::new(|_| Err("Upstream")),
            ..Plan::default()
        }
        .build();
        world.fail("r-0", &json!(1), "Upstream").await;
        world.run().await;
        assert_eq!(world.invocations().len(), attempts);
        let dead = world.take_dead().await;
        let reason = dead.keys().next().unwrap();
        assert_eq!(
            reason.contains("attempt 13 would be cut off by recursion detection"),
            detects_recursion
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_can_t_be_loaded_loses_nothing() {
    let world = Plan {
        policy: "/no/such/policy.wasm",
        settings: vec![],
        outcome: fails_until(3),
        ..Plan::default()
    }
    .build();
    world.fail("r-0", &json!(1), "ValidationException").await;
    world.run().await;
    // The fallback never dead-letters, not even an error that its table classifies as permanent.
    assert_eq!(world.invocations().len(), 2);
    assert!(world.dead_letters.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_message_fails_no_other() {
    let world = Plan {
        settings: vec![("base", "1ms"), ("cap", "1ms")],
        refusal: Box::new(|tried| if tried == 2 { panic!("a bug") } else { Ok(()) }),
        ..Plan::default()
    }
    .build();
    for id in ["r-0", "r-1", "r-2"] {
        world.fail(id, &json!(id), "Upstream").await;
    }
    world.put("garbage".to_owned()).await;
    sleep(Duration::from_secs(1)).await;
    let messages = world.receive().await;
    let kept = world.hand_over(&messages).await;
    assert_eq!(
        (messages.len(), kept.len(), world.invocations().len()),
        (4, 1, 2)
    );
    assert_eq!(world.take_dead().await.len(), 1);
    assert!(messages.iter().any(|message| message.id == kept[0]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_can_t_be_handled_fails_as_a_whole() {
    let world = Plan::default().build();
    world.fail("r-0", &json!(1), "Upstream").await;
    let messages = world.receive().await;
    let end = || Instant::now() + Duration::from_secs(60);
    let fifo = event("arn:aws:sqs:eu-west-1:1:retries.fifo", &messages);
    let refused = world.handler.handle(fifo, end()).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("Lambda delivers no on-failure records to one")
    );
    // A record without an id can't be reported: Lambda would take an empty one as a failure of the whole batch.
    for id in [None, Some(String::new())] {
        let mut unnamed = event("local:retries", &messages);
        unnamed.records[0].message_id = id;
        let refused = world.handler.handle(unnamed, end()).await.unwrap_err();
        assert!(matches!(refused, BatchError::Unnamed(1)));
    }
    // A record without a handle or a body is reported.
    let mut lacking = event("local:retries", &messages);
    lacking.records[0].receipt_handle = None;
    let response = world.handler.handle(lacking, end()).await.unwrap();
    assert_eq!(
        response.batch_item_failures[0].item_identifier,
        messages[0].id
    );
    let none = world
        .handler
        .handle(event("local:retries", &[]), end())
        .await
        .unwrap();
    assert!(none.batch_item_failures.is_empty());
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_left_when_time_runs_out_are_reported() {
    let world = Plan {
        settings: vec![("base", "1ms"), ("cap", "1ms")],
        ..Plan::default()
    }
    .build();
    for id in ["r-0", "r-1"] {
        world.fail(id, &json!(id), "Upstream").await;
    }
    let messages = world.receive().await;
    let batch = event("local:retries", &messages);
    let response = world.handler.handle(batch, Instant::now()).await.unwrap();
    assert_eq!(response.batch_item_failures.len(), 2);
    assert_eq!(world.tries(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_function_with_less_time_than_the_margin_still_works() {
    let world = Plan::default().build();
    world.fail("r-0", &json!(1), "Upstream").await;
    sleep(Duration::from_secs(3_600)).await;
    let batch = event("local:retries", &world.receive().await);
    let soon = Instant::now() + Duration::from_secs(3);
    let response = world.handler.handle(batch, soon).await.unwrap();
    assert!(response.batch_item_failures.is_empty());
    assert_eq!(world.invocations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_record_of_the_corpus_is_invoked_or_dead_lettered_with_its_reason() {
    let world = Plan {
        settings: vec![("base", "1s")],
        // The simulated Lambda has no versions.
        refusal: Box::new(|_| Ok(())),
        ..Plan::default()
    }
    .build();
    let cases = corpus(
        "arn:aws:lambda:eu-west-1:123456789012:function:f",
        world.queue.now(),
    );
    for case in &cases {
        world.put(case.body.clone()).await;
    }
    world.run().await;
    let dead = world.take_dead().await;
    for case in cases
        .iter()
        .filter(|case| !case.is_invoked && !case.name.contains("gone"))
    {
        let found = dead
            .iter()
            .find(|(reason, _)| reason.starts_with(&case.reason));
        let (_, letter) = found.unwrap_or_else(|| panic!("{}: {:?}", case.name, dead.keys()));
        assert!(cases.iter().any(|case| *case.body == *letter.body));
    }
    let expected = cases
        .iter()
        .filter(|case| case.is_invoked || case.name.contains("gone"));
    assert_eq!(world.invocations().len(), expected.count());
    assert_eq!(dead.len() + world.invocations().len(), cases.len());
    for invocation in world.invocations() {
        assert_eq!(
            invocation
                .event
                .to_string()
                .matches("_original_payload\"")
                .count(),
            1 + usize::from(invocation.event.to_string().contains("mine"))
        );
    }
}
