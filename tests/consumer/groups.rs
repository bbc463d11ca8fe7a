//! What waits, grouped by a text of each message, such as its tenant: on a local queue with the clock paused.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_host::config::InCommon;
use backstop_queue::Outgoing;
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::{Filter, QueueReport, Wake};
use tokio::time::sleep;

use crate::hold_world::World;
use crate::waiting::until_waiting;

/// The tenants of the messages; without one, their bodies say nothing of it.
const TENANTS: [(&str, usize); 4] = [("acme", 300), ("globex", 40), ("*", 3), ("", 7)];

fn world(hold: HoldMode, by: Option<&str>) -> World {
    let mut world = World::new(&[("base", "3h"), ("cap", "9h")], hold);
    world.options.group_by = by.map(|by| match by.strip_prefix("attribute:") {
        Some(name) => InCommon::Attribute(name.to_owned()),
        None => InCommon::Pointer(by.to_owned()),
    });
    world
}

async fn send(world: &World) {
    let of = |tenant: &str, number| {
        let body = match tenant {
            "" => format!(r#"{{"number":{number}}}"#),
            tenant => format!(r#"{{"number":{number},"tenant":"{tenant}"}}"#),
        };
        Outgoing::new(body)
    };
    let all = TENANTS
        .iter()
        .flat_map(|(tenant, count)| (0..*count).map(move |number| of(tenant, number)));
    world.send(all).await;
}

fn of(group: &str) -> Filter {
    Filter {
        group: vec![group.to_owned()],
        ..Filter::default()
    }
}

fn counts(report: &QueueReport) -> BTreeMap<&str, u64> {
    let groups = report.by_group.iter();
    groups
        .map(|group| (group.value.as_str(), group.count))
        .collect()
}

fn expected() -> BTreeMap<&'static str, u64> {
    TENANTS.map(|(tenant, count)| (tenant, count as u64)).into()
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_counted_and_woken_by_group() {
    for hold in [HoldMode::Visibility, HoldMode::Resend] {
        let world = world(hold, Some("/tenant"));
        let hosts = [world.host(1).await, world.host(1).await];
        send(&world).await;
        let waiting = hosts.each_ref().map(|host| &host.waiting);
        until_waiting(&waiting, 350).await;
        let mut sum = QueueReport::default();
        for host in &hosts {
            let report = host.waiting.report(&Filter::default()).await;
            assert_eq!(report.grouped_by.as_deref(), Some("/tenant"));
            sum.add_groups(&report);
        }
        assert_eq!(counts(&sum), expected(), "{hold:?}");
        assert_eq!(sum.by_group[0].value, "acme");
        for (tenant, count) in expected() {
            let mut matching = 0;
            for host in &hosts {
                let report = host.waiting.report(&of(tenant)).await;
                assert_eq!(report.by_group.len(), usize::from(report.waiting > 0));
                matching += report.waiting;
            }
            assert_eq!(matching, count, "{tenant}");
        }
        let before = world.seen().len();
        for host in &hosts {
            let wake = Wake {
                filter: of("globex"),
                ..Wake::default()
            };
            host.waiting.wake(&wake).await;
        }
        sleep(Duration::from_secs(1_900)).await;
        let seen = world.seen();
        let again: Vec<_> = seen[before..].iter().map(|it| it.body.as_ref()).collect();
        assert_eq!(again.len(), 40, "{hold:?}");
        assert!(
            again.iter().all(|body| body.contains("globex")),
            "{again:?}"
        );
        for host in hosts {
            host.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_host_keeps_the_groups_if_it_groups_by_the_same() {
    let mut world = world(HoldMode::Visibility, Some("/tenant"));
    let first = world.host(1).await;
    send(&world).await;
    until_waiting(&[&first.waiting], 350).await;
    let mut bytes = Vec::new();
    first.waiting.write_to(&mut bytes).unwrap();
    first.killed();
    let none = BTreeMap::from([("", 350)]);
    for (by, expected) in [
        (Some("/tenant"), expected()),
        (Some("/number"), none),
        (None, BTreeMap::new()),
    ] {
        world.options.group_by = by.map(|by| InCommon::Pointer(by.to_owned()));
        let next = world.host(1).await;
        let taken = next.waiting.take_over(&mut &bytes[..]).unwrap();
        assert_eq!((taken.messages, taken.damaged), (350, 0));
        let report = next.waiting.report(&Filter::default()).await;
        assert_eq!(report.grouped_by.as_deref(), by);
        assert_eq!(counts(&report), expected, "{by:?}");
        next.killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_is_one_short_line_whatever_the_sender_writes() {
    let world = world(HoldMode::Visibility, Some("/tenant"));
    let host = world.host(1).await;
    let long = "é".repeat(60_000);
    let odd = [
        format!(r#"{{"tenant":"{long}"}}"#),
        r#"{"tenant":"a\nb"}"#.to_owned(),
        "{\"tenant\":\"\u{202e}c\"}".to_owned(),
        r#"{"tenant":{"a":[1,2]}}"#.to_owned(),
        r#"{"tenant":7}"#.to_owned(),
        r#"{"tenant":""}"#.to_owned(),
        "not json".to_owned(),
        r#"{"tenant":"twice","tenant":"twice"}"#.to_owned(),
    ];
    // And more groups than a report lists: the largest are there.
    let many = (0..900).map(|number| format!(r#"{{"tenant":"t-{}"}}"#, number % 400));
    world
        .send(odd.into_iter().chain(many).map(Outgoing::new))
        .await;
    until_waiting(&[&host.waiting], 908).await;
    let report = host.waiting.report(&Filter::default()).await;
    assert_eq!(report.by_group.len(), 200);
    let listed: u64 = report.by_group.iter().map(|group| group.count).sum();
    assert_eq!(listed + report.by_group_unlisted, 908);
    assert_eq!(report.unlisted, 0, "all codes are listed");
    assert!(report.by_group.iter().all(|group| group.count >= 2));
    for id in world.seen().into_iter().map(|message| message.id) {
        for message in host.waiting.message(&id) {
            let group = message.group;
            assert!(group.len() <= 140 && group.lines().count() <= 1, "{group}");
            assert!(!group.contains('\u{202e}'), "{group}");
            // What is shown can be chosen.
            let found = host.waiting.report(&of(&group)).await;
            assert!(found.waiting >= 1, "{group}");
        }
    }
    host.stopped().await;
}
