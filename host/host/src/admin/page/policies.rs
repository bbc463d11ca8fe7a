//! The policies: which version is active at which host, what happened since, what was refused; and the way back.

use std::collections::BTreeSet;

use backstop_core::failure::Timestamp;
use maud::{Markup, html};
use serde_json::json;

use super::fleet::all_missing;
use super::history::Past;
use super::layout::{page, scrolling};
use super::served::{At, Served, served, versions};
use super::shadow;
use super::text::{count, share, shown, time};
use super::view::View;
use crate::admin::history::{MINUTES, QueueHistory};
use crate::admin::routes::QueueStatus;

/// A minute in milliseconds.
const MINUTE: u64 = 60_000;

/// What happened in a number of minutes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Effect {
    done: u64,
    retried: u64,
    dead: u64,
    minutes: usize,
}

pub(super) async fn view(view: &View<'_>) -> Markup {
    let ((served, missing), past) = tokio::join!(served(view), Past::of(view, MINUTES));
    let missing = all_missing([missing, past.missing.clone()]);
    page(
        view,
        "/policies",
        &missing,
        html! {
            p { a href="/policies/what-if" { "What if another policy decided?" } }
            @for (name, hosts) in &served {
                section .card id={ "policy-" (shown(name)) } {
                    h2 { (shown(name)) }
                    div id={ "versions-" (shown(name)) } data-live {
                        @if versions(hosts).len() > 1 {
                            p .notice.bad { strong { (versions(hosts).len()) " versions are active at the same time." } " Hosts check for updates at different times; if it lasts, a host can't reach the source." }
                        }
                        (scrolling("Versions by host", html! { table {
                            thead { tr { th { "Host" } th { "Version" } th { "Active since" } th { "Before" } th { "Refused last" } th { "Source" } } }
                            tbody { @for (host, at) in hosts { (row(view, host, &at.status)) } }
                        } }))
                        @if let Some(history) = past.queues.get(name) { (effect(view, hosts, history)) }
                        (shadow::view(view, hosts))
                    }
                    (roll_back(view, name, hosts, &served))
                }
            }
        },
    )
}

fn row(view: &View<'_>, host: &str, QueueStatus { policy, .. }: &QueueStatus) -> Markup {
    html! {
        tr {
            td { (shown(host)) }
            td { (shown(&policy.title)) @if policy.compiling.is_some() { " (another one is being compiled)" } }
            td { (time(policy.since, view.now)) }
            td { (shown(policy.before.as_deref().unwrap_or("none"))) }
            td .error { (shown(policy.refused.as_deref().unwrap_or("none"))) }
            td { @for source in &policy.sources { (shown(source)) " " } @if let Some(why) = &policy.unreachable { strong { "unreachable: " (shown(why)) } } }
        }
    }
}

/// What happened since the last swap, next to as many minutes before it.
fn effect(view: &View<'_>, hosts: &[(String, At)], history: &QueueHistory) -> Markup {
    let since = hosts
        .iter()
        .map(|(_, at)| at.status.policy.since)
        .max()
        .unwrap_or_default();
    let Some((before, after)) = effects(history, since) else {
        return html! { p .hint { "The active version is as old as what is remembered: there is nothing to compare it with." } };
    };
    let line = |name: &str, it: &Effect| {
        let all = it.done + it.retried + it.dead;
        html! { tr {
            td { (name) ", " (it.minutes) " min" }
            td .number { (count(all)) }
            td .number { (share(it.retried + it.dead, all)) }
            td .number { (share(it.dead, all)) }
        } }
    };
    html! {
        h3 { "Since the swap " (time(since, view.now)) }
        (scrolling("Before and since the swap", html! { table {
            thead { tr { th { "" } th .number { "Attempts" } th .number { "Failed" } th .number { "Dead" } } }
            tbody { (line("before", &before)) (line("since", &after)) }
        } }))
    }
}

/// The same number of whole minutes before and after a time; none if there are not any.
fn effects(history: &QueueHistory, since: Timestamp) -> Option<(Effect, Effect)> {
    let minutes = history.succeeded.len();
    let swap = usize::try_from(since.0.checked_sub(history.from.0)? / MINUTE).ok()?;
    // What was before the hosts' start is not known: it is empty.
    let first =
        (0..minutes).find(|minute| history.waiting.get(*minute).is_some_and(Option::is_some))?;
    let after = minutes.checked_sub(swap + 1)?;
    let before = swap.checked_sub(first)?;
    let each = after.min(before);
    if each == 0 {
        return None;
    }
    let of = |from: usize| {
        let sum = |of: &[u64]| {
            of.get(from..from + each)
                .unwrap_or_default()
                .iter()
                .sum::<u64>()
        };
        Effect {
            done: sum(&history.succeeded),
            retried: sum(&history.retried),
            dead: sum(&history.dead_lettered) + sum(&history.discarded),
            minutes: each,
        }
    };
    Some((of(swap - each), of(swap + 1)))
}

/// The button of the way back, with the queues that it affects: those that share the policy at some host.
fn roll_back(view: &View<'_>, name: &str, hosts: &[(String, At)], served: &Served) -> Markup {
    let shared = hosts
        .iter()
        .flat_map(|(_, at)| at.status.shared_with.iter().map(String::as_str));
    let queues: BTreeSet<&str> = shared.chain([name]).collect();
    let all = || {
        queues
            .iter()
            .filter_map(|queue| served.get(*queue))
            .flatten()
    };
    let ids: BTreeSet<&str> = all().map(|(_, at)| at.host.as_str()).collect();
    let parts = hosts
        .first()
        .map_or(&[][..], |(_, at)| at.status.policy.live.as_slice());
    let reason = if all()
        .map(|(_, at)| digests(at))
        .collect::<BTreeSet<_>>()
        .len()
        > 1
    {
        Some(
            "Several versions are active: roll back host by host, with `backstop policy rollback`.",
        )
    } else if parts.len() > 1 {
        Some("The policy has several parts: roll it back with `backstop policy rollback`.")
    } else if !hosts
        .iter()
        .any(|(_, at)| at.status.policy.before.is_some())
    {
        Some("There is no version before this one.")
    } else {
        view.may_not_act()
    };
    let digest = parts.first().map(|part| part.digest.to_string());
    let names = queues
        .iter()
        .map(|queue| shown(queue))
        .collect::<Vec<_>>()
        .join(", ");
    let act = json!({ "action": "rollback", "queues": queues, "hosts": ids, "from": digest.unwrap_or_default() });
    html! {
        form data-act=(act.to_string()) data-sure={ "Roll back " (names) " to the version before?" } {
            button disabled[reason.is_some()] { "Roll back" }
            " the policy of " (names) " at " (ids.len()) " hosts"
            @if let Some(reason) = reason { p .hint { (reason) } }
            output role="status" {}
        }
    }
}

fn digests(at: &At) -> Vec<String> {
    at.status
        .policy
        .live
        .iter()
        .map(|part| part.digest.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_minutes_before_a_swap_are_compared_with_those_after_it() {
        let history = QueueHistory {
            from: Timestamp(0),
            succeeded: vec![0, 0, 10, 20, 99, 5, 6],
            retried: vec![0, 0, 1, 2, 99, 7, 8],
            dead_lettered: vec![0, 0, 0, 0, 99, 1, 1],
            discarded: vec![0; 7],
            waiting: vec![None, None, Some(1), Some(1), Some(1), Some(1), Some(1)],
            ..QueueHistory::default()
        };
        let (before, after) = effects(&history, Timestamp(4 * MINUTE + 5)).unwrap();
        assert_eq!((before.done, before.retried, before.minutes), (30, 3, 2));
        assert_eq!((after.done, after.retried, after.dead), (11, 15, 2));
        // In the first known minute, and in the last one.
        assert_eq!(effects(&history, Timestamp(2 * MINUTE)), None);
        assert_eq!(effects(&history, Timestamp(6 * MINUTE)), None);
    }
}
