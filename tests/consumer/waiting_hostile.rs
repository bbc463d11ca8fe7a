//! Waiting messages whose texts were chosen by somebody who means harm: on a local queue with the clock paused.

use std::time::Duration;

use backstop_queue::envelope::ENVELOPE;
use backstop_queue::{Attribute, Message, Outgoing};
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::{Filter, Reconsider, Wake};
use tokio::time::sleep;

use crate::hold_world::{World, numbered};
use crate::reconsider::{swap, version, world_of};
use crate::waiting::{number, times, until_waiting, wake};

#[tokio::test(start_paused = true)]
async fn hostile_codes_and_ids_are_found_as_they_are() {
    fn code(message: &Message) -> String {
        match number(message) {
            0 => "x".repeat(100_000),
            1 => "\u{1b}[2J\"},{\\ é\n".to_owned(),
            2 => String::new(),
            _ => format!("{:>200}", number(message)),
        }
    }
    for hold in [HoldMode::Visibility, HoldMode::Resend] {
        let mut world = World::new(&[("base", "3h"), ("cap", "9h")], hold);
        world.code = code;
        world.send(numbered(1_000)).await;
        let host = world.host(1).await;
        until_waiting(&[&host.waiting], 1_000).await;
        let report = host.waiting.report(&Filter::default()).await;
        assert!(report.groups.len() == 200 && report.unlisted == 800);
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.len() < 200_000, "{}", json.len());
        for hostile in [&"x".repeat(4_096), "\u{1b}[2J\"},{\\ é\n", ""] {
            let woken = host.waiting.wake(&wake(hostile, 0)).await;
            assert_eq!(woken.matched, 1, "{hostile:?}");
        }
        sleep(Duration::from_secs(1_000)).await;
        assert_eq!(
            host.waiting.report(&Filter::default()).await.waiting,
            997,
            "{hold:?}"
        );
        host.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_forged_envelope_with_the_id_of_another_message_hides_that_one_from_no_wake() {
    let world = World::new(&[("base", "3h"), ("cap", "9h")], HoldMode::Visibility);
    world.send([Outgoing::new("1")]).await;
    let host = world.host(9).await;
    until_waiting(&[&host.waiting], 1).await;
    let victim = world.seen()[0].id.clone();
    let envelope = format!(
        r#"{{"id": "{victim}", "sent": 0, "first-received": 0, "attempts": 1, "delay": 1, "due": 0}}"#
    );
    let mut forged = Outgoing::new("2");
    let attribute = Attribute::string(envelope);
    forged.attributes.insert(ENVELOPE.to_owned(), attribute);
    world.send([forged]).await;
    until_waiting(&[&host.waiting], 2).await;
    // It has the id that the queue gave it.
    assert_eq!(host.waiting.message(&victim).len(), 1);
    let of_victim = Wake {
        filter: Filter {
            id: vec![victim],
            ..Filter::default()
        },
        ..Wake::default()
    };
    assert_eq!(host.waiting.wake(&of_victim).await.woken, 1);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(times(&world)[&1].len(), 2);
    host.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_forged_envelope_with_the_id_of_another_message_takes_no_failure_and_no_earlier_time_from_it()
 {
    let (world, policy, folder) = world_of(&version(1, 1, 9 * 3_600_000), HoldMode::Resend);
    world.send([Outgoing::new("1")]).await;
    let host = world.host(1).await;
    until_waiting(&[&host.waiting], 1).await;
    let victim = host.waiting.message(&world.seen()[0].id).remove(0);
    // It claims to be the same failure, and has not been attempted.
    let envelope = |due: u64| {
        format!(
            r#"{{"id": "{}", "sent": 0, "first-received": 0, "attempts": 1, "delay": 1, "due": {due}, "failed": {}}}"#,
            victim.id, victim.failed_at.0
        )
    };
    let forge = async |body: &str, due: u64| {
        let mut forged = Outgoing::new(body);
        let attribute = Attribute::string(envelope(due));
        forged.attributes.insert(ENVELOPE.to_owned(), attribute);
        world.send([forged]).await;
        sleep(Duration::from_secs(5)).await;
    };
    forge("2", victim.due.0).await;
    assert_eq!(host.waiting.message(&victim.id).len(), 1);
    swap(&policy, &folder, &version(1, 1, 3_600_000));
    let result = host
        .waiting
        .reconsider(&Reconsider::default())
        .await
        .unwrap();
    assert_eq!((result.resent, result.elsewhere), (1, 1), "{result:?}");
    // One that is attempted forgets nothing of the victim.
    forge("3", 0).await;
    assert_eq!(host.waiting.message(&victim.id).len(), 1);
    sleep(Duration::from_secs(3_600)).await;
    let times = &times(&world)[&1];
    assert!((times[1] - times[0] - 3_600.0).abs() < 3.0, "{times:?}");
    host.stopped().await;
}
