//! The preview of a reconsideration, and the reconsideration: the active version decides again about what waits. It acts on the messages that the preview has counted, with the version that the preview was made with.

use std::collections::{BTreeMap, BTreeSet};

use backstop_core::failure::{Milliseconds, Timestamp};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fleet::{Answers, DoneAt, Fleet, Missing, STATUS};
use super::layout::{scrolling, still};
use super::served::served;
use super::text::{count, link, parse_duration, shown};
use super::view::View;
use super::wake::counted;
use crate::admin::answer::Refused;
use crate::admin::caller::Caller;
use crate::admin::routes::{HostAnswer, HostStatus, in_requests};
use crate::waiting::{EarlierTime, Reconsidered, Taken};

/// What a host has counted: when, and by which version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Previewed {
    as_of: Timestamp,
    digests: Vec<String>,
}

/// The form that leads to the preview.
pub(super) fn link_to_preview(queue: &str) -> Markup {
    html! {
        form method="get" action="/waiting/reconsider" .wake {
            input type="hidden" name="queue" value=(queue);
            label { "Overdue ones spread over (0: at once)" input name="spread" value="0"; }
            button { "Preview a reconsideration" }
            span .hint { "The active version decides again about all that waits." }
        }
    }
}

pub(super) async fn preview(view: &View<'_>) -> Markup {
    let wrong = |why: &str| still(view, "/waiting", &[], html! { p .notice.bad { (why) } });
    let Some(queue) = view.value("queue") else {
        return wrong("Nothing is chosen: name a queue.");
    };
    let Some(spread) = parse_duration(view.value("spread").unwrap_or("0")) else {
        return wrong(
            "The time to spread over is no duration of at most 14 days: expected one such as 5m or 30s, or 0.",
        );
    };
    let (served, missing) = served(view).await;
    let Some(hosts) = served.get(queue) else {
        let text = html! { p .notice.bad { "No host that answers serves this queue." } };
        return still(view, "/waiting", &missing, text);
    };
    let body = json!({ "queue": queue, "spread": spread, "dry-run": true });
    let is_serving = |id: &str| hosts.iter().any(|(_, at)| at.host == id);
    let done = view.fleet.post(&view.by, &["v1", "reconsider"], |id| {
        is_serving(id).then(|| body.clone())
    });
    let (counted, lost) = counted(done.await, missing, read);
    let shown = shown_preview(view, queue, spread, &counted, &lost);
    still(view, "/waiting", &lost, shown)
}

fn read(answer: Value) -> Result<Reconsidered, String> {
    let result = HostAnswer::<Reconsidered>::read(answer)?;
    // A host that is too old says neither, and would decide about all that waits by then.
    if result.digests.is_empty() || result.as_of == Timestamp::default() {
        return Err("it does not say about which messages and by which version: it is too old, or its policy has no component".to_owned());
    }
    Ok(result)
}

fn shown_preview(
    view: &View<'_>,
    queue: &str,
    spread: Milliseconds,
    counted: &[(String, String, Reconsidered)],
    lost: &[Missing],
) -> Markup {
    let sum = |of: fn(&Reconsidered) -> u64| counted.iter().map(|(.., it)| of(it)).sum::<u64>();
    let sooner = sum(|it| it.hurried + it.resent);
    let seen: BTreeMap<_, _> = counted
        .iter()
        .map(|(_, id, it)| {
            let (as_of, digests) = (it.as_of, it.digests.clone());
            (id.clone(), Previewed { as_of, digests })
        })
        .collect();
    let versions: BTreeSet<_> = counted.iter().map(|(.., it)| &it.digests).collect();
    let act = json!({ "action": "reconsider", "queue": queue, "spread": spread, "hosts": seen });
    let reason = if !lost.is_empty() {
        Some("Not every host has answered: a part only would be reconsidered.")
    } else if sooner == 0 {
        Some("None of them would come sooner.")
    } else {
        view.may_not_act()
    };
    html! {
        section .card {
            h2 { "Preview of a reconsideration in " (shown(queue)) }
            p {
                strong { (count(sum(|it| it.waiting))) } " messages wait, and " strong { (count(sooner)) } " of them would come sooner by the active version"
                @if spread.0 == 0 { "." } @else { ", those that are overdue by then over " (spread) "." }
            }
            @if versions.len() > 1 { p .notice.bad { "The hosts have different versions: each decides with its own." } }
            @if sum(|it| it.not_remembered) > 0 { p .notice { (count(sum(|it| it.not_remembered))) " more wait and are not remembered one by one: nothing is decided about them." } }
            @if sum(|it| it.not_reached) > 0 { p .notice { "There was no time for " (count(sum(|it| it.not_reached))) ": reconsider again after this, and it goes on with them." } }
            (scrolling("The preview by host", html! { table {
                thead { tr {
                    th { "Host" } th { "Version" } th .number { "Wait" } th .number { "Come sooner" } th .number { "Sent again, sooner" }
                    th .number { "As they do" } th .number { "Would wait longer" } th .number { "Would be dead-lettered" } th .number { "Would be discarded" } th .number { "Can't be decided" }
                } }
                tbody { @for (host, _, it) in counted { tr {
                    td { (shown(host)) } td { (shown(&it.policy)) }
                    td .number { (count(it.waiting)) } td .number { (count(it.hurried)) } td .number { (count(it.resent)) }
                    td .number { (count(it.same + it.before)) } td .number { (count(it.later)) } td .number { (count(it.dead_letter)) } td .number { (count(it.discard)) }
                    td .number { (count(it.broken + it.not_comparable + it.too_large + it.elsewhere)) }
                } } }
            } }))
            p .hint { "Only what comes sooner is changed: messages that the version would let wait for longer, dead-letter or discard keep their time. No message that fails after this preview is meant, and nothing is done once another version is active." }
            form data-act=(act.to_string()) {
                button disabled[reason.is_some()] { "Bring these " (count(sooner)) " messages sooner" }
                " " a href=(link("/waiting", &[("queue", queue)])) { "Back" }
                output role="status" {}
            }
            @if let Some(reason) = reason { p .hint { (reason) } }
        }
    }
}

/// Refuses if another version is active at one of these hosts than the one that was previewed: nothing is done at the others either.
pub(super) async fn expect_versions(
    fleet: &Fleet,
    by: &Caller,
    queue: &str,
    seen: &BTreeMap<String, Previewed>,
) -> Result<(), Refused> {
    let answers: Answers<HostStatus> = fleet.get(by, &STATUS, &[]).await;
    for (host, status) in answers.of {
        let id = super::fleet::id(&host, &status);
        let served = status.queues.into_iter().find(|it| it.queue == queue);
        let (Some(seen), Some(served)) = (seen.get(&id), served) else {
            continue;
        };
        let live = served
            .policy
            .live
            .iter()
            .map(|part| part.digest.to_string());
        if !live.eq(seen.digests.iter().cloned()) {
            return Err(Refused::conflict(format!(
                "nothing was done: {} is active at {host} now, and the preview was made with another version. Look again, then repeat it",
                served.policy.title
            )));
        }
    }
    Ok(())
}

/// What each host is asked to do.
pub(super) fn body(
    queue: &str,
    spread: Milliseconds,
    seen: &BTreeMap<String, Previewed>,
    id: &str,
) -> Option<Value> {
    let Previewed { as_of, digests } = seen.get(id)?;
    Some(json!({
        "queue": queue, "spread": spread, "list": seen.len() > 1,
        "failed-until": as_of, "digests": digests,
    }))
}

/// What was done at each host, and how many messages come sooner. Each passes the new times of messages that are sent again on to all others: any of them may receive such a message.
pub(super) async fn finish(
    fleet: &Fleet,
    by: &Caller,
    queue: &str,
    done: Vec<DoneAt>,
) -> (Vec<(String, Result<String, String>)>, u64) {
    let mut results = Vec::new();
    for DoneAt { host, id, answer } in done {
        results.push((host, id, answer.and_then(read)));
    }
    let mut times = BTreeMap::new();
    for (_, id, result) in &mut results {
        let times_of = result.as_mut().map(|it| std::mem::take(&mut it.earlier));
        times.insert(id.clone(), times_of.unwrap_or_default());
    }
    let (taken, mut untold) = pass_on(fleet, by, queue, &times).await;
    let mut total = 0;
    let at_hosts = results.into_iter().map(|(host, id, result)| {
        let text = result.and_then(|it| {
            let resent = it.resent + taken.get(&id).copied().unwrap_or_default();
            total += it.hurried + resent;
            let text = format!(
                "{} come sooner, {} when their hop ends",
                count(it.hurried),
                count(resent)
            );
            let left = match it.refused + it.not_reached + it.unlisted {
                0 => String::new(),
                left => format!("; {} were NOT changed", count(left)),
            };
            let untold = untold.remove(&id).map_or_else(String::new, |why| {
                format!("; it did NOT take the times of the others: {why}")
            });
            match format!("{text}{left}{untold}") {
                whole if left.is_empty() && untold.is_empty() => Ok(whole),
                part => Err(part),
            }
        });
        (host, text)
    });
    (at_hosts.collect(), total)
}

/// Passes the times of each host on to the others. Returns for each how many messages come sooner that it has sent again, and why it did not take them, if so.
async fn pass_on(
    fleet: &Fleet,
    by: &Caller,
    queue: &str,
    times: &BTreeMap<String, Vec<EarlierTime>>,
) -> (BTreeMap<String, u64>, BTreeMap<String, String>) {
    let (mut taken, mut untold) = (BTreeMap::<_, u64>::new(), BTreeMap::new());
    let parts: BTreeMap<_, _> = times
        .keys()
        .map(|id| {
            let others = times.iter().filter(|(other, _)| *other != id);
            (id, in_requests(others.flat_map(|(_, times)| times)))
        })
        .collect();
    let most = parts.values().map(Vec::len).max().unwrap_or_default();
    for number in 0..most {
        let body = |id: &str| {
            let messages = parts.get(&id.to_owned())?.get(number)?;
            Some(json!({ "queue": queue, "messages": messages }))
        };
        let mut silent: BTreeSet<String> = parts
            .iter()
            .filter(|(_, parts)| parts.len() > number)
            .map(|(id, _)| (*id).clone())
            .collect();
        for DoneAt { id, answer, .. } in fleet.post(by, &["v1", "earlier"], body).await {
            silent.remove(&id);
            match answer.and_then(HostAnswer::<Taken>::read) {
                Ok(result) => *taken.entry(id).or_default() += result.resent,
                Err(why) => drop(untold.insert(id, why)),
            }
        }
        for id in silent {
            untold.insert(id, "it does not answer".to_owned());
        }
    }
    (taken, untold)
}
