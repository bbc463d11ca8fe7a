//! The overview: for each queue how it is served, what it did in the last hours, and what comes in the next ones.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::timeline;
use super::fleet::all_missing;
use super::history::{Past, minutes, who};
use super::layout::{page, scrolling};
use super::served::{At, served, versions};
use super::text::{count, duration, link, share, shown, time};
use super::view::View;
use super::waiting::Waits;
use crate::admin::history::QueueHistory;

/// The choices of how far back charts go.
const RANGES: [(&str, &str); 5] = [
    ("15", "15 min"),
    ("60", "1 h"),
    ("180", "3 h"),
    ("720", "12 h"),
    ("1440", "24 h"),
];

/// The most marks that are listed.
const MARKS: usize = 50;

pub(super) async fn view(view: &View<'_>) -> Markup {
    let minutes = minutes(view);
    let (served, past, waits) = tokio::join!(
        served(view),
        Past::of(view, minutes),
        Waits::of(view, &[("reach", "no")])
    );
    let (served, missing) = served;
    let missing = all_missing([missing, past.missing.clone(), waits.missing.clone()]);
    page(
        view,
        "/",
        &missing,
        html! {
            p .ranges { "Charts of the last "
                @for (value, name) in RANGES {
                    a href=(link("/", &[("minutes", value)])) aria-current=[(value == minutes.to_string()).then_some("true")] { (name) } " "
                }
                span .hint { "(kept in memory by each host since its start, a day at most)" }
            }
            @for (name, hosts) in &served {
                section .card id={ "queue-" (super::text::shown(name)) } data-live {
                    h2 { a href=(link("/waiting", &[("queue", name)])) { (shown(name)) } }
                    (state(hosts, view))
                    (numbers(name, hosts, &past, &waits))
                    @if let Some(chart) = past.attempts(name) {
                        h3 { "Attempts" }
                        (chart.svg())
                    }
                    @if let Some(due) = waits.due(name) {
                        h3 { "When what waits is due" }
                        (timeline(name, due).svg())
                    }
                }
            }
            section #marks data-live {
                h2 { "What happened" }
                @if past.marks.is_empty() { p { "Nothing since these hosts started: no swap, and nothing that somebody did." } }
                @else {
                    (scrolling("What happened", html! { table {
                        thead { tr { th { "When" } th { "Queue" } th { "What" } } }
                        tbody {
                            @for mark in past.marks.iter().take(MARKS) {
                                tr {
                                    td { (time(mark.at, view.now)) }
                                    td { (shown(mark.queue.as_deref().unwrap_or("all"))) }
                                    td { (shown(&mark.text)) }
                                }
                            }
                        }
                    } }))
                }
            }
        },
    )
}

/// How a queue is served at its hosts: each state once, with the number of hosts.
fn state(hosts: &[(String, At)], view: &View<'_>) -> Markup {
    let mut states = BTreeMap::<(&str, String), usize>::new();
    for (_, At { status, .. }) in hosts {
        let serving = status.serving.as_ref();
        let (class, text) = match (serving.and_then(|it| it.paused.as_ref()), serving) {
            (Some(pause), _) => {
                let why = pause
                    .why
                    .as_ref()
                    .map(|why| format!(": {why}"))
                    .unwrap_or_default();
                let until = match pause.until {
                    Some(until) => format!(" for {}", duration(until.0.saturating_sub(view.now.0))),
                    None => String::new(),
                };
                (
                    "paused",
                    format!("paused{until} by {}{why}", who(&pause.by)),
                )
            }
            (None, Some(serving)) => match &serving.not_polled {
                Some(reason) => ("bad", format!("not polled: {reason}")),
                None => ("good", "polled".to_owned()),
            },
            (None, None) => ("bad", "not served".to_owned()),
        };
        *states.entry((class, text)).or_default() += 1;
        for down in &status.down {
            let key = down.key.as_deref().unwrap_or("the whole queue");
            let text = format!("breaker {} for {key}, {} failures", down.state, down.failed);
            *states.entry(("bad", text)).or_default() += 1;
        }
    }
    html! {
        ul .states {
            @for ((class, text), number) in &states {
                li class={ "state " (class) } { (shown(text)) @if hosts.len() > 1 { " (" (number) " of " (hosts.len()) " hosts)" } }
            }
            @if versions(hosts).len() > 1 {
                li .state.bad { strong { (versions(hosts).len()) " versions are active at the same time: " } (shown(&versions(hosts).into_iter().collect::<Vec<_>>().join(", "))) }
            }
        }
    }
}

fn numbers(name: &str, hosts: &[(String, At)], past: &Past, waits: &Waits) -> Markup {
    let serving = || {
        hosts
            .iter()
            .filter_map(|(_, at)| at.status.serving.as_ref())
    };
    let in_flight: usize = serving().map(|it| it.in_flight).sum();
    let most: usize = serving().map(|it| it.max_in_flight).sum();
    let history = past.queues.get(name);
    let last = |of: fn(&QueueHistory) -> &[Option<u64>]| {
        let value = history.and_then(|it| of(it).iter().rev().find_map(|it| *it));
        value.map_or_else(|| "–".to_owned(), count)
    };
    let sum = |of: fn(&QueueHistory) -> &[u64]| history.map_or(0, |it| of(it).iter().sum::<u64>());
    // The minute that has ended: the one that goes on is not whole.
    let minute = |of: fn(&QueueHistory) -> &[u64]| {
        history
            .and_then(|it| of(it).iter().rev().nth(1).copied())
            .unwrap_or_default()
    };
    let (done, retried) = (sum(|it| &it.succeeded), sum(|it| &it.retried));
    let dead = sum(|it| &it.dead_lettered) + sum(|it| &it.discarded);
    let dead_letters = last(|it| &it.dead_letters);
    html! {
        dl .numbers {
            div { dt { "succeeded in a minute" } dd { (count(minute(|it| &it.succeeded))) } }
            div { dt { "failed in a minute" } dd { (count(minute(|it| &it.retried) + minute(|it| &it.dead_lettered) + minute(|it| &it.discarded))) } }
            div { dt { "share of failures" } dd { (share(retried + dead, done + retried + dead)) } }
            div { dt { "in hand" } dd { (count(in_flight as u64)) " of " (count(most as u64)) } }
            div { dt { "waiting" } dd { a href=(link("/waiting", &[("queue", name)])) { (count(waits.waiting(name))) } } }
            div { dt { "visible in the queue" } dd { (last(|it| &it.visible)) } }
            div .bad[!["0", "–"].contains(&dead_letters.as_str())] { dt { "in the dead-letter queues" } dd { a href=(link("/dead-letters", &[("queue", name)])) { (dead_letters) } } }
            div { dt { "version" } dd { (shown(&versions(hosts).into_iter().next().unwrap_or_default())) } }
        }
    }
}
