//! Messages that are held by being sent again and are decided again after a swap: on a local queue with the clock paused.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use backstop_core::decision::Hold;
use backstop_core::failure::Milliseconds;
use backstop_queue::{Outgoing, Queue, QueueError};
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::{Earlier, Filter, Reconsider, Reconsidered, Taken, Today};
use tokio::time::sleep;

use crate::hold_world::{HOUR, Host, World, numbered};
use crate::reconsider::{swap, version, world_of};
use crate::waiting::{times, until_waiting};

/// Three days in milliseconds.
const THREE_DAYS: u32 = 3 * 24 * 3_600_000;

const MINUTE: u64 = 60;

/// A version that waits for so many minutes.
fn minutes(minutes: u32) -> String {
    version(1, 1, minutes * 60_000)
}

fn three_days() -> String {
    version(1, 1, THREE_DAYS)
}

async fn reconsider(host: &Host) -> Reconsidered {
    let listed = Reconsider {
        list: true,
        ..Reconsider::default()
    };
    host.waiting.reconsider(&listed).await.unwrap()
}

/// Passes the times of one host on to another one.
fn pass_on(from: &Reconsidered, to: &Host) -> Taken {
    to.waiting.take(&Earlier {
        messages: from.earlier.clone(),
        dry_run: false,
    })
}

/// The seconds between the first attempt at each message and the others.
fn waited(world: &World) -> BTreeMap<usize, Vec<f64>> {
    let mut times = times(world);
    for times in times.values_mut() {
        let first = times.remove(0);
        times.iter_mut().for_each(|time| *time -= first);
    }
    times
}

fn assert_near(times: &[f64], expected: &[u64]) {
    let near = |(time, expected): (&f64, &u64)| {
        let late = time - Duration::from_secs(*expected).as_secs_f64();
        (-1.0..4.0).contains(&late)
    };
    let is_near = times.len() == expected.len() && times.iter().zip(expected).all(near);
    assert!(is_near, "{times:?} instead of {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn after_its_third_hop_a_message_is_attempted_when_the_new_version_says_or_at_the_end_of_its_hop()
 {
    for (delay, comes) in [(60, 60), (70, 70), (10, 60), (100, 100)] {
        let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
        world.send(numbered(1)).await;
        let host = world.host(2).await;
        sleep(Duration::from_secs(50 * MINUTE)).await;
        let id = &world.seen()[0].id;
        let before = &host.waiting.message(id)[0];
        assert_eq!((before.hold, before.decided_due), (Hold::Resend, None));
        assert_eq!(before.error.as_ref().unwrap().status, Some(503));
        swap(&policy, &folder, &minutes(delay));
        let Today::Decision(today) = &host.waiting.message(id)[0].today else {
            panic!("its failure is remembered");
        };
        assert_eq!(today.hold, Hold::Resend);

        let dry = Reconsider {
            dry_run: true,
            list: true,
            ..Reconsider::default()
        };
        let counted = host.waiting.reconsider(&dry).await.unwrap();
        assert_eq!(host.waiting.message(id)[0].due, before.due);
        let result = reconsider(&host).await;
        assert_eq!(counted.resent_until, result.resent_until);
        for result in [counted, result] {
            assert_eq!((result.waiting, result.resent), (1, 1), "{result:?}");
            assert_eq!((result.hurried, result.same, result.elsewhere), (0, 0, 0));
            assert_eq!(result.earlier.len(), 1);
        }
        let found = &host.waiting.message(id)[0];
        let due = found.due.since(before.failed_at).as_secs();
        assert!((comes * MINUTE..comes * MINUTE + 3).contains(&due), "{due}");
        assert_eq!(found.decided_due, Some(before.due));
        // The same version has nothing more to say.
        let again = reconsider(&host).await;
        assert_eq!((again.before, again.resent, again.earlier.len()), (1, 0, 0));

        sleep(Duration::from_secs((comes - 50) * MINUTE + 10)).await;
        let made = waited(&world);
        assert_near(&made[&0], &[comes * MINUTE]);
        // The next failure is decided as if the message had come by itself.
        let decisions = world.decisions.0.lock().unwrap().clone();
        let second = &decisions[1].failure;
        assert_eq!(second.attempt.get(), 2);
        assert_eq!(second.previous_delay, Some(Milliseconds(THREE_DAYS)));
        host.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_failed_again_keeps_its_new_decision() {
    let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
    world.send(numbered(1)).await;
    let host = world.host(2).await;
    sleep(Duration::from_secs(5 * MINUTE)).await;
    swap(&policy, &folder, &minutes(60));
    let result = reconsider(&host).await;
    assert_eq!(result.resent, 1);
    // By the time it has failed again, the earlier time is over: at its next hop it must not count.
    world.queue.emptied().await;
    assert_near(&waited(&world)[&0], &[HOUR, 2 * HOUR]);
    host.stopped().await;

    // Neither where another host has decided, late.
    let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
    world.send(numbered(1)).await;
    let host = world.host(2).await;
    sleep(Duration::from_secs(5 * MINUTE)).await;
    swap(&policy, &folder, &minutes(60));
    let result = reconsider(&host).await;
    sleep(Duration::from_secs(HOUR)).await;
    let taken = pass_on(&result, &host);
    assert_eq!((taken.kept, taken.resent), (1, 0));
    world.queue.emptied().await;
    assert_near(&waited(&world)[&0], &[HOUR, 2 * HOUR]);
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn reconsiderations_never_delay_messages_that_are_sent_again() {
    let (world, policy, folder) = world_of(&version(1, 1, 20_000_000), HoldMode::Resend);
    world.send(numbered(60)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 60).await;
    let ids: BTreeMap<_, _> = world
        .seen()
        .into_iter()
        .map(|it| (it.body, it.id))
        .collect();
    let due = |id: &String| host.waiting.message(id)[0].due;
    let mut before: BTreeMap<_, _> = ids.values().map(|id| (id, due(id))).collect();
    let mut wanted: BTreeMap<_, _> = ids.values().map(|id| (id, 20_000_000)).collect();
    for (factor, most, least) in [
        (7_919, 15_000_000, 6_000_000),
        (104_729, 22_000_000, 5_400_000),
        (65_537, 2_000_000, 30_000_000),
        (31_337, 9_000_000, 5_400_000),
    ] {
        sleep(Duration::from_secs(20 * MINUTE)).await;
        swap(&policy, &folder, &version(factor, most, least));
        let result = reconsider(&host).await;
        assert_eq!(result.resent + result.same + result.later, 60, "{result:?}");
        let mut sooner = 0;
        for (id, before) in &mut before {
            let delay = u32::from(id.as_bytes()[0]).wrapping_mul(factor) % most + least;
            let best = wanted.get_mut(id).unwrap();
            *best = delay.min(*best);
            let after = due(id);
            assert!(after.0 <= before.0 + 2_000, "{id}");
            sooner += u64::from(after.0 + 1_000 <= before.0);
            *before = after;
        }
        assert_eq!(result.resent, sooner);
    }
    world.queue.emptied().await;
    let made = waited(&world);
    for (body, id) in &ids {
        let expected = u64::from(wanted[id] / 1_000);
        assert_near(&made[&body.parse().unwrap()], &[expected]);
    }
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_messages_of_both_holds_is_spread_as_one() {
    // By the first digit: 22, 25, 0, 3, 6, … hours, of which visibility can hold less than twelve.
    let long = version(10_000_000, 100_000_000, 3_600_000);
    let (mut world, policy, folder) = world_of(&long, HoldMode::Auto);
    world.ids_are_bodies = true;
    world
        .send((0..100).map(|it| Outgoing::new(it.to_string())))
        .await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 100).await;
    let report = host.waiting.report(&Filter::default()).await;
    assert!((20..80).contains(&report.resent), "{}", report.resent);
    sleep(Duration::from_secs(10 * MINUTE)).await;
    swap(&policy, &folder, &minutes(5));
    let spread = Reconsider {
        spread: Milliseconds(1_200_000),
        ..Reconsider::default()
    };
    let result = host.waiting.reconsider(&spread).await.unwrap();
    assert_eq!(result.resent, report.resent);
    assert_eq!(result.hurried, 100 - report.resent);
    world.queue.emptied().await;
    let mut after: Vec<_> = waited(&world).into_values().map(|it| it[0]).collect();
    after.sort_by(f64::total_cmp);
    assert!(after[0] < 603.0 && after[99] < 30.0 * 60.0, "{after:?}");
    let late = after.iter().filter(|it| **it > 1_200.0).count();
    assert!((40..=55).contains(&late), "{late} after half of the spread");
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_hops_through_several_hosts_comes_by_the_failure_that_one_of_them_saw() {
    let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
    let hosts = [world.host(1).await, world.host(1).await];
    world.send(numbered(60)).await;
    sleep(Duration::from_secs(50 * MINUTE)).await;
    swap(&policy, &folder, &minutes(65));
    let mut results = Vec::new();
    for host in &hosts {
        results.push(reconsider(host).await);
    }
    let sum = |count: fn(&Reconsidered) -> u64| results.iter().map(count).sum::<u64>();
    assert_eq!(sum(|it| it.waiting), 60);
    assert_eq!(sum(|it| it.resent + it.elsewhere), 60);
    assert_eq!(sum(|it| it.earlier.len() as u64), 60);
    assert!(sum(|it| it.elsewhere) > 5, "the hosts share the hops");
    let taken = [
        pass_on(&results[1], &hosts[0]),
        pass_on(&results[0], &hosts[1]),
    ];
    for (taken, result) in taken.iter().zip(&results) {
        // Each host has sent those again that the other one has seen fail.
        assert_eq!(taken.resent, result.elsewhere);
        let until = taken.resent_until.map(|it| it.since(world.queue.now()));
        assert_eq!(until.is_some(), taken.resent > 0);
        assert!(until <= Some(Duration::from_secs(16 * MINUTE)), "{until:?}");
    }
    let mut earlier = 0;
    for host in &hosts {
        for id in world.seen().into_iter().map(|it| it.id) {
            earlier += host
                .waiting
                .message(&id)
                .iter()
                .filter(|it| it.decided_due.is_some())
                .count();
        }
    }
    assert_eq!(earlier, 60);
    world.queue.emptied().await;
    for times in waited(&world).values() {
        assert_near(times, &[65 * MINUTE]);
    }
    for host in hosts {
        host.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_a_reconsideration_loses_no_message() {
    let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
    world.send(numbered(3)).await;
    let first = world.host(1).await;
    sleep(Duration::from_secs(20 * MINUTE)).await;
    swap(&policy, &folder, &minutes(60));
    assert_eq!(reconsider(&first).await.resent, 3);
    first.killed();
    let second = world.host(1).await;
    sleep(Duration::from_secs(30 * MINUTE)).await;
    // It knows what it sends again, and not why it failed.
    let result = reconsider(&second).await;
    assert_eq!((result.waiting, result.elsewhere, result.resent), (3, 3, 0));
    let id = &world.seen()[0].id;
    assert_eq!(second.waiting.message(id)[0].today, Today::NotRemembered);
    world.queue.emptied().await;
    for times in waited(&world).values() {
        assert_near(times, &[u64::from(THREE_DAYS) / 1_000]);
    }
    second.stopped().await;

    // A host that has the times keeps them when the one that decided is gone.
    let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
    world.send(numbered(3)).await;
    let first = world.host(1).await;
    sleep(Duration::from_secs(20 * MINUTE)).await;
    let second = world.host(1).await;
    swap(&policy, &folder, &minutes(60));
    let taken = pass_on(&reconsider(&first).await, &second);
    assert_eq!((taken.kept, taken.resent), (3, 0));
    first.killed();
    world.queue.emptied().await;
    for times in waited(&world).values() {
        assert_near(times, &[HOUR]);
    }
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_no_longer_be_sent_again_keeps_its_failure() {
    let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
    world.send(numbered(1)).await;
    let host = world.host(1).await;
    sleep(Duration::from_secs(5 * MINUTE)).await;
    let refused = QueueError::new("SendMessageBatch", "InternalError", "broken");
    *host.wire.send_error.lock().unwrap() = Some(refused);
    sleep(Duration::from_secs(25 * MINUTE)).await;
    let id = &world.seen()[0].id;
    let found = &host.waiting.message(id)[0];
    assert_eq!(found.hold, Hold::Visibility);
    assert_eq!(found.error.as_ref().unwrap().message, "busy");
    swap(&policy, &folder, &minutes(60));
    assert_eq!(reconsider(&host).await.hurried, 1);
    *host.wire.send_error.lock().unwrap() = None;
    world.queue.emptied().await;
    let made = waited(&world)[&0][0];
    assert!((3_599.0..4_600.0).contains(&made), "{made}");
    assert!(!host.wire.is_cut.load(SeqCst));
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn more_new_times_than_a_result_lists_count_on_the_host_that_has_them() {
    let (world, policy, folder) = world_of(&three_days(), HoldMode::Resend);
    world.send(numbered(20_100)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 20_100).await;
    swap(&policy, &folder, &minutes(10));
    let result = reconsider(&host).await;
    assert_eq!((result.resent, result.unlisted), (20_100, 100));
    assert_eq!(result.earlier.len(), 20_000);
    // A client takes answers of 64 MiB.
    assert!(serde_json::to_string(&result).unwrap().len() < 4 << 20);
    let unasked = reconsider(&host).await;
    assert_eq!((unasked.before, unasked.earlier.len()), (20_100, 0));
    world.queue.emptied().await;
    let late = waited(&world);
    assert!(late.values().all(|it| it.len() == 1 && it[0] < 930.0));
    host.stopped().await;
}
