//! What a host remembers of waiting messages outlives it: as bytes on a local queue with the clock paused, and in the cache of real hosts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_queue::LocalSettings;
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::{Filter, TakenOver, Tally, Waiting, Wake};
use backstop_telemetry::Classes;
use backstop_tests::backstop::serve;
use backstop_tests::emulator::fauxqs;
use backstop_tests::eventually;
use tokio::time::sleep;

use crate::hold_world::{HOUR, Host, World, numbered};
use crate::waiting::{times, until_waiting};
use crate::waiting_commands::{LINEAR, Machine, run};

const SECRET: [u8; 16] = [7; 16];

fn written(waiting: &Waiting) -> Vec<u8> {
    let mut bytes = Vec::new();
    waiting.write_to(&mut bytes).unwrap();
    bytes
}

/// A host that knows messages by the same keys as others of this test.
async fn host(world: &World) -> Host {
    let host = world.host(1).await;
    host.waiting.with_secret(SECRET);
    host
}

/// What is counted for metrics, of a queue whose configuration names no classes.
fn tally(waiting: &Waiting) -> Tally {
    waiting.tally(&Classes::of([]))
}

async fn waits(waiting: &Arc<Waiting>) -> u64 {
    waiting.report(&Filter::default()).await.waiting
}

#[tokio::test(start_paused = true)]
async fn the_next_host_knows_what_the_last_one_knew() {
    for hold in [HoldMode::Visibility, HoldMode::Resend] {
        let mut world = World::new(&[("base", "3h"), ("cap", "9h")], hold);
        world.code = |message| format!("HTTP 50{}", message.body.len());
        let first = host(&world).await;
        world.send(numbered(2_000)).await;
        until_waiting(&[&first.waiting], 2_000).await;
        let before = first.waiting.report(&Filter::default()).await;
        let counted = tally(&first.waiting);
        let bytes = written(&first.waiting);
        // What is written is what is remembered: no more than a few hundred bytes for each message.
        assert!(bytes.len() < 2_000 * 500, "{}", bytes.len());
        first.stopped().await;

        sleep(Duration::from_secs(60)).await;
        let next = host(&world).await;
        let taken = next.waiting.take_over(&mut &bytes[..]).unwrap();
        assert_eq!((taken.messages, taken.damaged), (2_000, 0));
        let after = next.waiting.report(&Filter::default()).await;
        assert_eq!(after.since, before.since);
        assert_eq!(
            (after.waiting, after.resent, &after.policies),
            (before.waiting, before.resent, &before.policies)
        );
        for (group, old) in after.groups.iter().zip(&before.groups) {
            assert_eq!((&group.code, group.count), (&old.code, old.count));
            // A day's clock has milliseconds, and so has the one of the process.
            assert!(group.last.0.abs_diff(old.last.0) <= 2, "{group:?} {old:?}");
        }
        let recounted = tally(&next.waiting);
        assert_eq!(recounted.classes, counted.classes);
        let held = usize::from(hold == HoldMode::Resend);
        let transient = recounted.classes.iter().find(|(it, _)| it == "transient");
        assert_eq!(transient.map(|(_, counts)| counts[held]), Some(2_000));
        let aged = recounted.oldest.unwrap() - counted.oldest.unwrap();
        assert!((60.0..90.0).contains(&aged.as_secs_f64()), "{aged:?}");
        assert!(recounted.next_due < counted.next_due);
        assert_eq!((recounted.due, recounted.blocked_groups), ([0; 4], 0));
        // Twice is once.
        let again = next.waiting.take_over(&mut &bytes[..]).unwrap();
        assert_eq!(again.messages, 0);

        let asked = world.started.elapsed();
        let woken = next.waiting.wake(&Wake::default()).await;
        assert_eq!(woken.matched, 2_000);
        assert_eq!((woken.refused, woken.woken + woken.resent), (0, 2_000));
        world.queue.emptied().await;
        let latest = times(&world).into_values().map(|times| times[1]);
        let latest = latest.fold(0.0, f64::max) - asked.as_secs_f64();
        assert!(latest < 1_000.0, "{hold:?}: {latest}");
        assert_eq!(waits(&next.waiting).await, 0, "what has come is forgotten");
        next.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_or_a_changed_byte_takes_no_more_than_its_part() {
    let world = World::new(&[("base", "3h"), ("cap", "9h")], HoldMode::Visibility);
    let first = host(&world).await;
    world.send(numbered(1_200)).await;
    until_waiting(&[&first.waiting], 1_200).await;
    let bytes = written(&first.waiting);
    let ids: BTreeSet<_> = world.seen().into_iter().map(|message| message.id).collect();
    first.stopped().await;
    let take = async |bytes: &[u8]| {
        let next = host(&world).await;
        let taken = next.waiting.take_over(&mut &bytes[..]);
        let report = next.waiting.report(&Filter::default()).await;
        let mut samples = report.groups.iter().flat_map(|group| &group.samples);
        assert!(samples.all(|id| ids.contains(id)));
        assert_eq!(report.waiting, taken.as_ref().map_or(0, |it| it.messages));
        next.stopped().await;
        taken.unwrap_or_default()
    };
    assert_eq!(take(&bytes).await.messages, 1_200);
    for cut in (0..bytes.len()).step_by(bytes.len() / 20) {
        let taken = take(&bytes[..cut]).await;
        assert!(taken.messages < 1_200, "{cut}: {taken:?}");
    }
    for place in (0..bytes.len()).step_by(bytes.len() / 30) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x41;
        let taken = take(&changed).await;
        let lost = 1_200 - taken.messages;
        assert!(lost <= 500 || taken == TakenOver::default() || taken.damaged == 1);
        assert_ne!(lost, 0, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_over_or_of_another_queue_or_from_a_wrong_clock_is_not_taken_over() {
    let world = World::new(&[("base", "3h"), ("cap", "9h")], HoldMode::Visibility);
    let first = host(&world).await;
    world.send(numbered(10)).await;
    until_waiting(&[&first.waiting], 10).await;
    let bytes = written(&first.waiting);

    let mut other = World::new(&[("base", "3h")], HoldMode::Visibility);
    let settings = LocalSettings::default();
    other.queue = other.connections.local.set_up("others", settings);
    let of_other = host(&other).await;
    let error = of_other.waiting.take_over(&mut &bytes[..]).unwrap_err();
    assert_eq!(error.to_string(), "it is of another queue");
    for empty in [&b""[..], b"backstop waiting 03\n", &bytes[..19]] {
        assert!(of_other.waiting.take_over(&mut &empty[..]).is_err());
    }
    of_other.stopped().await;

    first.killed();
    sleep(Duration::from_secs(3 * HOUR + 60)).await;
    let late = host(&world).await;
    let taken = late.waiting.take_over(&mut &bytes[..]).unwrap();
    assert_eq!(taken, TakenOver::default());
    late.stopped().await;
}

#[tokio::test]
async fn a_host_that_is_killed_has_kept_what_waits_for_the_next_one() {
    let machine = Machine::new(fauxqs()).await;
    let host = machine.host(&LINEAR).await;
    machine.send(40).await;
    machine.until_waiting(40).await;
    let kept = || {
        let entries = std::fs::read_dir(machine.at("cache/waiting"));
        let entries = entries.into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        let kept = paths.filter(|path| path.extension().is_some_and(|it| it == "waiting"));
        kept.collect::<Vec<_>>()
    };
    eventually("what waits is written", async || !kept().is_empty()).await;
    // All of it: the next write is after the last failure.
    let written = |path: &std::path::Path| path.metadata().unwrap().modified().unwrap();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&kept()[0].metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let first = written(&kept()[0]);
    machine.send(4).await;
    eventually("it is written again", async || written(&kept()[0]) > first).await;
    machine.until_waiting(44).await;
    let before = written(&kept()[0]);
    host.kill().await;

    let next = machine.host(&LINEAR).await;
    next.logged("what an ended host remembers of waiting messages is taken over")
        .await;
    eventually("that of the host that was killed is gone", async || {
        kept().len() == 1 && written(&kept()[0]) > before
    })
    .await;
    let waiting = machine.waiting().await;
    assert!((40..=44).contains(&waiting), "{waiting}");
    let (_, shown, _) = machine.run(&["waiting", &machine.name]).await;
    if waiting == 44 {
        assert!(
            shown.contains("all of them wait or are handled here"),
            "{shown}"
        );
    }
    let wake = ["wake", &machine.name, "--all", "--spread", "0s"];
    let woken = machine.json(&wake).await;
    assert_eq!(
        (&woken[0]["woken"], &woken[0]["refused"]),
        (&waiting.into(), &0.into())
    );
    eventually("they have come", async || {
        machine.worker.attempts().len() as u64 == 44 + waiting
    })
    .await;
    next.kill().await;
}

#[tokio::test]
async fn what_no_host_remembers_is_counted_as_out_of_reach() {
    let machine = Machine::new(fauxqs()).await;
    let without = [&LINEAR[..], &["--cache", "off", "--admin", "127.0.0.1:0"]].concat();
    let forgetful = serve(&machine.queues, &machine.worker, &without).await;
    machine.send(30).await;
    eventually("all wait", async || machine.worker.attempts().len() == 30).await;
    assert_eq!(forgetful.stop().await.0, 0);

    let host = machine.host(&LINEAR).await;
    machine.send(12).await;
    machine.until_waiting(12).await;
    let (_, shown, _) = machine.run(&["waiting", &machine.name]).await;
    assert!(shown.contains("42 invisible messages"), "{shown}");
    assert!(
        shown.contains("about 30 of them are out of reach"),
        "{shown}"
    );
    let (code, shown, _) = machine
        .run(&["wake", &machine.name, "--all", "--dry-run"])
        .await;
    assert_eq!(code, 0);
    assert!(
        shown.contains("12 of 12 matching messages would come sooner"),
        "{shown}"
    );
    assert!(
        shown.contains("about 30 more are invisible and out of reach"),
        "{shown}"
    );
    let cache = machine.at("cache");
    let (code, _, error) = run(&["why", "no-such-message", "--cache", &cache]).await;
    assert_eq!(code, 1);
    let expected = format!("30 of {}", machine.name);
    assert!(error.contains(&expected), "{error}");
    host.kill().await;
}
