//! What a host remembers of waiting messages, and what brings them back sooner: on a local queue with the clock paused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::decision::Hold;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_queue::{Message, Queue, QueueError, VisibilityTimeout};
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::{Filter, QueueReport, Waiting, Wake};
use tokio::time::sleep;

use crate::hold_world::{HOUR, World, numbered};

pub(crate) fn number(message: &Message) -> usize {
    message.body.parse().unwrap()
}

/// Each fourth message fails in another way.
fn by_fours(message: &Message) -> String {
    match number(message) % 4 {
        0 => "HTTP 503",
        _ => "ECONNRESET",
    }
    .to_owned()
}

fn codes(codes: &[&str]) -> Filter {
    Filter {
        code: codes.iter().map(|code| (*code).to_owned()).collect(),
        ..Filter::default()
    }
}

pub(crate) fn wake(code: &str, spread: u32) -> Wake {
    Wake {
        filter: codes(&[code]),
        spread: Milliseconds(spread),
        dry_run: false,
    }
}

pub(crate) async fn until_waiting(waiting: &[&Arc<Waiting>], count: u64) {
    loop {
        let mut all = 0;
        for waiting in waiting {
            all += waiting.report(&Filter::default()).await.waiting;
        }
        if all == count {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn groups(report: &QueueReport) -> Vec<(&str, u64)> {
    let groups = report.groups.iter();
    groups
        .map(|group| (group.code.as_str(), group.count))
        .collect()
}

/// The seconds of each message's attempts, by its body.
pub(crate) fn times(world: &World) -> BTreeMap<usize, Vec<f64>> {
    let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (when, message) in world.attempts.lock().unwrap().iter() {
        let made = times.entry(number(message)).or_default();
        made.push(when.as_secs_f64());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn a_wake_brings_back_exactly_the_messages_that_match_spread_over_the_time() {
    let mut world = World::new(&[("base", "4h"), ("cap", "4h")], HoldMode::Visibility);
    world.code = by_fours;
    world.send(numbered(20_000)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 20_000).await;
    let report = host.waiting.report(&Filter::default()).await;
    assert_eq!(
        groups(&report),
        [("ECONNRESET", 15_000), ("HTTP 503", 5_000)]
    );
    assert_eq!(
        (report.reach.in_flight, report.not_remembered, report.resent),
        (Some(20_000), 0, 0)
    );
    let bars = &report.due;
    assert_eq!((bars.step.0, bars.counts.iter().sum()), (900_000, 20_000));

    let dry = Wake {
        dry_run: true,
        ..wake("HTTP 503", 300_000)
    };
    let counted = host.waiting.wake(&dry).await;
    assert_eq!((counted.matched, counted.woken), (5_000, 5_000));
    let report = host.waiting.report(&codes(&["HTTP 503"])).await;
    assert!(report.groups[0].next.0 > report.due.from.0 + 3 * 3_600_000);

    let asked = world.started.elapsed().as_secs_f64();
    let woken = host.waiting.wake(&wake("HTTP 503", 300_000)).await;
    assert_eq!((woken.matched, woken.woken), (5_000, 5_000));
    assert_eq!((woken.as_soon, woken.refused, woken.resent), (0, 0, 0));
    sleep(Duration::from_secs(310)).await;
    let made = times(&world);
    let mut seconds = vec![0_u32; 301];
    for (number, times) in &made {
        assert_eq!(times.len(), if number % 4 == 0 { 2 } else { 1 }, "{number}");
        if let Some(second) = times.get(1) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "seconds"
            )]
            let second = (second - asked) as usize;
            seconds[second] += 1;
        }
    }
    // 5,000 over 300 s: about 167 in each ten of them, and timeouts are whole seconds.
    let tens: Vec<u32> = seconds[..300]
        .chunks(10)
        .map(|ten| ten.iter().sum())
        .collect();
    assert!(tens.iter().all(|it| (145..=190).contains(it)), "{tens:?}");
    // The attempts and the delay of the woken messages count as if they had come by themselves.
    let second = world
        .seen()
        .into_iter()
        .filter(|it| it.receive_count.get() == 2);
    assert_eq!(second.count(), 5_000);
    let left = host.waiting.report(&Filter::default()).await;
    assert_eq!(groups(&left), [("ECONNRESET", 15_000)]);
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_wake_never_delays_a_message_and_keeps_attempts_and_the_previous_delay() {
    let world = World::new(&[("base", "30s")], HoldMode::Visibility);
    world.send(numbered(10)).await;
    let host = world.host(2).await;
    until_waiting(&[&host.waiting], 10).await;
    // Over an hour: all but the first few are due before that.
    let woken = host.waiting.wake(&wake("HTTP 503", 3_600_000)).await;
    assert_eq!((woken.matched, woken.woken, woken.as_soon), (10, 1, 9));
    world.queue.emptied().await;
    host.stopped().await;
    let waited = times(&world);
    let waited = waited.values().map(|times| times[1] - times[0]);
    let (woken, others): (Vec<_>, Vec<_>) = waited.partition(|waited| *waited < 10.0);
    assert!(woken.len() == 1 && woken[0] < 2.0, "{woken:?}");
    assert!(
        others.iter().all(|it| (30.0..32.0).contains(it)),
        "{others:?}"
    );
    let decisions = world.decisions.0.lock().unwrap();
    for record in decisions.iter().filter(|it| it.failure.attempt.get() == 2) {
        assert_eq!(record.failure.previous_delay, Some(Milliseconds(30_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn two_wakes_at_one_time_bring_each_message_at_the_earlier_time() {
    let world = World::new(&[("base", "4h"), ("cap", "4h")], HoldMode::Visibility);
    world.send(numbered(2_000)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 2_000).await;
    let (late, at_once) = (wake("HTTP 503", 3_600_000), Wake::default());
    tokio::join!(
        host.waiting.wake(&late),
        host.waiting.wake(&at_once),
        host.waiting.wake(&late)
    );
    let asked = world.started.elapsed();
    world.queue.emptied().await;
    let took = world.started.elapsed().saturating_sub(asked);
    assert!(took < Duration::from_secs(30), "{took:?}");
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_filter_by_attempt_id_class_or_due_time_wakes_those_alone() {
    let world = World::new(&[("base", "1h"), ("cap", "9h")], HoldMode::Visibility);
    world.send(numbered(3)).await;
    let host = world.host(9).await;
    until_waiting(&[&host.waiting], 3).await;
    let ids: Vec<_> = world.seen().into_iter().map(|it| it.id).collect();
    let by = |filter| Wake {
        filter,
        ..Wake::default()
    };
    let one = Filter {
        id: vec![ids[1].clone()],
        ..Filter::default()
    };
    assert_eq!(host.waiting.wake(&by(one)).await.woken, 1);
    sleep(Duration::from_secs(5)).await;
    until_waiting(&[&host.waiting], 3).await;
    let found = &host.waiting.message(&ids[1])[0];
    assert_eq!((found.attempt, found.hold), (2, Hold::Visibility));
    let second: Filter =
        serde_json::from_str(r#"{"attempt": [2], "class": ["throttled"]}"#).unwrap();
    assert_eq!(host.waiting.wake(&by(second)).await.matched, 0);
    let second: Filter =
        serde_json::from_str(r#"{"attempt": [2], "class": ["transient"]}"#).unwrap();
    let count = |filter| Wake {
        dry_run: true,
        ..by(filter)
    };
    assert_eq!(host.waiting.wake(&count(second)).await.woken, 1);
    let later = Filter {
        due_after: Some(found.due.plus(Duration::ZERO)),
        ..Filter::default()
    };
    assert_eq!(host.waiting.wake(&count(later)).await.matched, 0);
    let later = Filter {
        due_after: Some(Timestamp(found.due.0 - 1_000)),
        ..Filter::default()
    };
    assert_eq!(host.waiting.wake(&count(later)).await.matched, 1);
    assert!(serde_json::from_str::<Filter>(r#"{"codes": []}"#).is_err());
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_again_is_woken_at_its_hop_by_any_host_that_was_asked() {
    let mut world = World::new(&[("base", "9h"), ("cap", "9h")], HoldMode::Resend);
    world.code = by_fours;
    world.send(numbered(320)).await;
    // The first host sends everything again and stops: the second one knows only what it was asked.
    let first = world.host(1).await;
    until_waiting(&[&first.waiting], 320).await;
    let report = first.waiting.report(&Filter::default()).await;
    assert_eq!((report.resent, report.waiting), (320, 320));
    first.stopped().await;
    let second = world.host(1).await;
    let asked = world.started.elapsed().as_secs_f64();
    let woken = second.waiting.wake(&wake("HTTP 503", 1_200_000)).await;
    assert_eq!((woken.matched, woken.resent), (0, 0));
    sleep(Duration::from_secs(HOUR)).await;
    let mut spread = BTreeSet::new();
    for (number, times) in times(&world) {
        assert_eq!(times.len(), if number % 4 == 0 { 2 } else { 1 }, "{number}");
        if let Some(second) = times.get(1) {
            let after = second - asked;
            // At its hop, or later within the spread.
            assert!((890.0..1_215.0).contains(&after), "{number}: {after}");
            spread.insert(after.to_bits());
        }
    }
    // A quarter of the spread is left after the hop has ended.
    assert!(spread.len() > 3, "{spread:?}");
    let attempts: BTreeSet<_> = world
        .seen()
        .iter()
        .filter(|it| number(it).is_multiple_of(4))
        .map(|it| it.receive_count.get())
        .collect();
    assert_eq!(attempts, [1, 2].into());
    // The others go on, and what failed after the wake is not woken by it.
    let report = second.waiting.report(&Filter::default()).await;
    assert_eq!(groups(&report), [("ECONNRESET", 240)]);
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_host_that_sent_a_message_again_says_when_it_is_woken() {
    let world = World::new(&[("base", "9h"), ("cap", "9h")], HoldMode::Resend);
    world.send(numbered(10)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 10).await;
    let now = world.queue.now();
    let woken = host.waiting.wake(&wake("HTTP 503", 0)).await;
    assert_eq!((woken.matched, woken.resent, woken.woken), (10, 10, 0));
    let until = woken.resent_until.unwrap().since(now).as_secs();
    assert!((895..=901).contains(&until), "{until}");
    let report = host.waiting.report(&Filter::default()).await;
    assert_eq!(report.groups[0].last, woken.resent_until.unwrap());
    assert_eq!(report.wakes, 1);
    world.queue.emptied().await;
    let took = world.started.elapsed().as_secs();
    assert!((900..910).contains(&took), "{took}");
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_a_wake_waits_as_decided() {
    let world = World::new(&[("base", "2h"), ("cap", "9h")], HoldMode::Resend);
    let host = world.host(1).await;
    host.waiting.wake(&wake("HTTP 503", 0)).await;
    sleep(Duration::from_secs(5)).await;
    world.send(numbered(1)).await;
    world.queue.emptied().await;
    let times = &times(&world)[&0];
    assert!((times[1] - times[0] - 7_200.0).abs() < 3.0, "{times:?}");
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn several_hosts_of_a_queue_remember_each_message_once_and_a_restart_nothing() {
    let world = World::new(&[("base", "3h"), ("cap", "9h")], HoldMode::Auto);
    let (first, second) = (world.host(1).await, world.host(1).await);
    world.send(numbered(200)).await;
    until_waiting(&[&first.waiting, &second.waiting], 200).await;
    first.stopped().await;
    let restarted = world.host(1).await;
    let of_new = restarted.waiting.report(&Filter::default()).await;
    let of_old = second.waiting.report(&Filter::default()).await;
    assert_eq!((of_new.waiting, of_new.reach.in_flight), (0, Some(200)));
    assert!(of_new.since >= of_old.since);
    assert_eq!(restarted.waiting.wake(&Wake::default()).await.matched, 0);
    let woken = second.waiting.wake(&Wake::default()).await;
    assert_eq!(woken.woken, of_old.waiting);
    // Each host is asked: a message that another one has received is forgotten when it would have come.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(second.waiting.report(&Filter::default()).await.waiting, 0);
    restarted.stopped().await;
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_deleted_meanwhile_is_named_and_forgotten() {
    let world = World::new(&[("base", "3h"), ("cap", "9h")], HoldMode::Visibility);
    world.send(numbered(20)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 20).await;
    let gone = world.seen()[3].clone();
    let deleted = world.queue.delete(&[gone.receipt_handle]).await.unwrap();
    assert!(deleted[0].is_ok());
    let woken = host.waiting.wake(&Wake::default()).await;
    assert_eq!((woken.woken, woken.refused), (19, 1));
    assert_eq!(woken.refusals[0].id, gone.id);
    assert_eq!(host.waiting.message(&gone.id), []);
    world.queue.emptied().await;
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_left_over_hides_no_message_that_was_sent_again() {
    let world = World::new(&[("base", "10m"), ("cap", "9h")], HoldMode::Resend);
    world.send(numbered(1)).await;
    let host = world.host(2).await;
    sleep(Duration::from_secs(590)).await;
    let error = QueueError::new("DeleteMessageBatch", "InternalError", "");
    *host.wire.delete_error.lock().unwrap() = Some(error);
    sleep(Duration::from_secs(100)).await;
    *host.wire.delete_error.lock().unwrap() = None;
    sleep(Duration::from_secs(200)).await;
    let found = host.waiting.message(&world.seen()[0].id);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].attempt, found[0].hold), (2, Hold::Resend));
    world.queue.emptied().await;
    assert_eq!(host.stopped().await.duplicates, 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_held_back_comes_by_its_code_in_numbers_and_nothing_that_a_policy_decided() {
    let mut world = World::new(&[("base", "4h"), ("cap", "4h")], HoldMode::Visibility);
    world.code = |_| "HeldBack a".to_owned();
    world.send(numbered(30)).await;
    let hidden = VisibilityTimeout::from_seconds(600);
    let mut held_back = Vec::new();
    while held_back.len() < 30 {
        let wait = Duration::from_secs(1);
        held_back.extend(world.queue.receive(10, wait, hidden).await.unwrap());
    }
    // It fails, with the same code, and waits by its policy.
    world.send(numbered(31).skip(30)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 1).await;
    for message in &held_back {
        let code = if number(message) < 20 {
            "HeldBack a"
        } else {
            "HeldBack b"
        };
        let now = tokio::time::Instant::now();
        host.waiting.held_back(message, now, hidden, code, 0);
    }
    let made = || times(&world).into_keys().collect::<BTreeSet<_>>();
    let bring = async |code: &str, most, over| {
        let allotted = std::collections::HashMap::from([(code.to_owned(), most)]);
        host.waiting.bring_back(|_| allotted, |_| over).await
    };
    let brought = bring("HeldBack a", 3, Duration::ZERO).await;
    assert_eq!(brought.messages, 3);
    let of_code = |code: &str| brought.codes.get(code).map(|of| (of.held, of.brought));
    assert_eq!(of_code("HeldBack a"), Some((20, 3)));
    assert_eq!(of_code("HeldBack b"), Some((10, 0)));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(made().iter().filter(|it| **it < 20).count(), 3);
    assert_eq!(made().iter().filter(|it| (20..30).contains(*it)).count(), 0);
    for (code, most) in [("HeldBack c", 3), ("HeldBack a", 0)] {
        assert_eq!(bring(code, most, Duration::ZERO).await.messages, 0);
    }
    // Those of the policy wait for hours.
    let all = bring("HeldBack a", usize::MAX, Duration::from_secs(60)).await;
    assert_eq!(all.messages, 17);
    sleep(Duration::from_secs(30)).await;
    let so_far = made().iter().filter(|it| **it < 20).count();
    assert!((9..=14).contains(&so_far), "{so_far}");
    sleep(Duration::from_secs(35)).await;
    assert_eq!(made().iter().filter(|it| **it < 20).count(), 20);
    assert!(times(&world).values().all(|it| it.len() == 1));
    host.stopped().await;
}
