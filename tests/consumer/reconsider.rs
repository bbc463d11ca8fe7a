//! Waiting messages that are decided again after a swap: on a local queue with the clock paused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Milliseconds;
use backstop_engine::{Limits, Sandbox};
use backstop_queue::Outgoing;
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::{Reconsider, Today};
use backstop_tests::policies::Rule;
use backstop_versions::{LivePolicy, Reload, Source};
use tokio::time::sleep;

use crate::hold_world::{World, numbered};
use crate::waiting::{times, until_waiting};

/// A version whose delay depends on the first byte of the message's id: `byte * factor % most` milliseconds, and `least` more.
pub(crate) fn version(factor: u32, most: u32, least: u32) -> String {
    let byte = "(i32.load8_u (i32.load (local.get 0)))";
    let delay = format!(
        "(i32.add (i32.const {least}) (i32.rem_u (i32.mul {byte} (i32.const {factor})) (i32.const {most})))"
    );
    Rule {
        delay: Some(&delay),
        ..Rule::default()
    }
    .text()
}

/// A world whose policy is a file.
pub(crate) fn world_of(text: &str, hold: HoldMode) -> (World, Arc<LivePolicy>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.wat");
    std::fs::write(&path, text).unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = LivePolicy::load(&sandbox, Source::path(path).into()).unwrap();
    let mut world = World::new(&[], hold);
    world.live = Some(Arc::clone(&policy));
    (world, policy, folder)
}

pub(crate) fn swap(policy: &LivePolicy, folder: &tempfile::TempDir, text: &str) {
    std::fs::write(folder.path().join("policy.wat"), text).unwrap();
    let reload = policy.reload();
    assert!(matches!(reload, Reload::Swapped { .. }), "{reload:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_swap_waiting_messages_are_hurried_where_the_new_version_says_so_and_never_delayed()
{
    let (world, policy, folder) = world_of(&version(1, 1, 10_000_000), HoldMode::Visibility);
    world
        .send((0..300).map(|number| Outgoing::new(number.to_string())))
        .await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 300).await;
    let ids: Vec<_> = world.seen().into_iter().map(|it| it.id).collect();
    let due = |id: &String| host.waiting.message(id).first().map(|it| it.due);
    let mut before: BTreeMap<_, _> = ids
        .iter()
        .map(|id| (id.clone(), due(id).unwrap()))
        .collect();

    for (factor, most, least) in [
        (7_919, 9_000_000, 500_000),
        (104_729, 12_000_000, 400_000),
        (65_537, 2_000_000, 9_000_000),
        (31_337, 3_000_000, 300_000),
        (1, 1, 13_000_000),
    ] {
        swap(&policy, &folder, &version(factor, most, least));
        let dry = Reconsider {
            dry_run: true,
            ..Reconsider::default()
        };
        let counted = host.waiting.reconsider(&dry).await.unwrap();
        let result = host
            .waiting
            .reconsider(&Reconsider::default())
            .await
            .unwrap();
        assert_eq!(
            (counted.hurried, counted.later),
            (result.hurried, result.later)
        );
        assert_eq!(
            result.hurried + result.same + result.later,
            300,
            "{result:?}"
        );
        let mut hurried = 0;
        for id in &ids {
            let wanted = u32::from(id.as_bytes()[0]).wrapping_mul(factor) % most + least;
            let after = due(id).unwrap();
            let old = before[id];
            assert!(after <= old.plus(Duration::from_millis(1)), "{id}");
            let failed = host.waiting.message(id)[0].failed_at;
            let wanted = failed.plus(Milliseconds(wanted).as_duration());
            let sooner = after.0 + 900 < old.0;
            hurried += u64::from(sooner);
            // To the second, and not before.
            if sooner {
                assert!(
                    (0..2_000).contains(&(after.0 - wanted.0)),
                    "{id}: {after:?} {wanted:?}"
                );
            } else {
                assert!(wanted.0 + 2_000 > old.0, "{id}: {old:?} {wanted:?}");
            }
            before.insert(id.clone(), after);
        }
        assert_eq!(result.hurried, hurried);
        // The same version has nothing more to say.
        let again = host
            .waiting
            .reconsider(&Reconsider::default())
            .await
            .unwrap();
        assert_eq!((again.before, again.hurried), (300, 0));
    }
    world.queue.emptied().await;
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_reconsideration_reaches_the_messages_and_the_version_of_its_preview_and_no_others() {
    let (world, policy, folder) = world_of(&version(1, 1, 10_000_000), HoldMode::Visibility);
    world.send(numbered(20)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 20).await;
    swap(&policy, &folder, &version(1, 1, 1_000_000));
    let dry = Reconsider {
        dry_run: true,
        ..Reconsider::default()
    };
    let preview = host.waiting.reconsider(&dry).await.unwrap();
    assert_eq!((preview.waiting, preview.hurried), (20, 20));

    // Others fail by the old version, which is active again for a while.
    swap(&policy, &folder, &version(1, 1, 10_000_000));
    sleep(Duration::from_secs(1)).await;
    world.send(numbered(7)).await;
    until_waiting(&[&host.waiting], 27).await;
    let previewed = Reconsider {
        failed_until: Some(preview.as_of),
        digests: Some(preview.digests.clone()),
        ..Reconsider::default()
    };
    let refused = host.waiting.reconsider(&previewed).await.unwrap_err();
    assert!(
        refused.to_string().starts_with("nothing was done: "),
        "{refused}"
    );
    for digests in [
        Vec::new(),
        [preview.digests.clone(), preview.digests.clone()].concat(),
    ] {
        let other = Reconsider {
            digests: Some(digests),
            ..previewed.clone()
        };
        assert!(host.waiting.reconsider(&other).await.is_err());
    }
    swap(&policy, &folder, &version(1, 1, 1_000_000));
    let done = host.waiting.reconsider(&previewed).await.unwrap();
    assert_eq!((done.waiting, done.hurried), (20, 20), "{done:?}");
    let rest = host
        .waiting
        .reconsider(&Reconsider::default())
        .await
        .unwrap();
    assert_eq!(
        (rest.waiting, rest.before, rest.hurried),
        (27, 20, 7),
        "{rest:?}"
    );
    world.queue.emptied().await;
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_overdue_by_the_new_version_come_spread() {
    let (world, policy, folder) = world_of(&version(1, 1, 10_000_000), HoldMode::Visibility);
    world.send(numbered(100)).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 100).await;
    sleep(Duration::from_secs(600)).await;
    swap(&policy, &folder, &version(1, 1, 60_000));
    let asked = world.started.elapsed().as_secs_f64();
    let reconsider = Reconsider {
        spread: Milliseconds(100_000),
        ..Reconsider::default()
    };
    assert_eq!(
        host.waiting.reconsider(&reconsider).await.unwrap().hurried,
        100
    );
    world.queue.emptied().await;
    host.stopped().await;
    let mut after: Vec<_> = times(&world).values().map(|it| it[1] - asked).collect();
    after.sort_by(f64::total_cmp);
    for (expected, after) in (0..100).map(f64::from).zip(after) {
        assert!(
            (expected - 1.5..expected + 1.5).contains(&after),
            "{expected}: {after}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_dead_letters_discards_breaks_or_reads_other_parts_changes_nothing() {
    let reads = |pointer: u8| {
        // `payload.get` of the text at 200, which is one byte long; the answer goes to 300.
        format!(
            "(i32.store8 (i32.const 200) (i32.const {pointer})) (i32.store8 (i32.const 201) (i32.const 97)) (call $get (i32.const 200) (i32.const 2) (i32.const 300)) (i32.const 7200000)"
        )
    };
    let text = |delay: &str, classify: Option<&'static str>| {
        Rule {
            delay: Some(delay),
            classify,
            ..Rule::default()
        }
        .text()
    };
    let slash = u8::try_from('/').unwrap();
    let (world, policy, folder) =
        world_of(&text("(i32.const 7200000)", None), HoldMode::Visibility);
    world
        .send((0..10).map(|number| Outgoing::new(number.to_string())))
        .await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 10).await;
    let id = world.seen()[0].id.clone();
    let due = host.waiting.message(&id)[0].due;
    let run = async || {
        host.waiting
            .reconsider(&Reconsider::default())
            .await
            .unwrap()
    };

    swap(&policy, &folder, &text(&reads(slash), None));
    assert_eq!(run().await.not_comparable, 10);
    assert_eq!(host.waiting.message(&id)[0].today, Today::NotComparable);
    swap(
        &policy,
        &folder,
        &text("(i32.const 1000)", Some(Rule::PERMANENT)),
    );
    assert_eq!(run().await.dead_letter, 10);
    let today = host.waiting.message(&id)[0].today.clone();
    assert!(
        matches!(today, Today::Decision(decision) if decision.class.to_string() == "permanent")
    );
    let discards = Rule {
        // `discard` with `because`.
        judge: Some(
            "(i32.store8 (i32.const 400) (i32.const 2)) (i32.store (i32.const 404) (i32.const 2048)) (i32.store (i32.const 408) (i32.const 7)) (i32.const 400)",
        ),
        ..Rule::default()
    };
    swap(&policy, &folder, &discards.text());
    assert_eq!(run().await.discard, 10);
    let breaks = "(if (i32.ne (i32.load8_u (i32.load (local.get 0))) (i32.const 112)) (then (unreachable))) (i32.const 1)";
    swap(&policy, &folder, &text(breaks, None));
    assert_eq!(run().await.broken, 10);
    let later = host.waiting.message(&id)[0].due;
    assert!(
        later <= due.plus(Duration::from_millis(1)) && due <= later.plus(Duration::from_millis(1))
    );
    host.stopped().await;
}
