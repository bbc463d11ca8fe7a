//! What waits: groups by code, class and attempt, and what can be done about it. A wake acts on the messages that its preview has counted, and on no others.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use maud::{Markup, html};
use serde_json::json;

use super::chart::timeline;
use super::fleet::{Missing, all_missing};
use super::layout::{page, scrolling, still};
use super::reconsider;
use super::served::{At, served, versions};
use super::text::{Table, count, link, shown, time};
use super::view::View;
use super::wake::{self, CHOICE};
use crate::admin::routes::HostWaiting;
use crate::waiting::{Count, Due, Group, QueueReport, Reach};

/// The most groups by the queue's own key that are shown: the largest.
const GROUPS: usize = 50;

/// What waits in the queues, added over all hosts.
#[derive(Debug)]
pub(super) struct Waits {
    queues: BTreeMap<String, (QueueReport, Vec<Reach>)>,
    pub(super) missing: Vec<Missing>,
}

impl Waits {
    /// What waits of the messages that match.
    pub(super) async fn of(view: &View<'_>, query: &[(&str, &str)]) -> Self {
        let answers = view
            .fleet
            .get::<HostWaiting>(&view.by, &["v1", "waiting"], query)
            .await;
        let mut queues = BTreeMap::<String, (QueueReport, Vec<Reach>)>::new();
        for report in answers.of.into_iter().flat_map(|(_, it)| it.queues) {
            let (sum, reaches) = queues.entry(report.queue.clone()).or_default();
            reaches.push(report.reach);
            add(sum, report);
        }
        Self {
            queues,
            missing: answers.missing,
        }
    }

    pub(super) fn waiting(&self, queue: &str) -> u64 {
        let report = self.queues.get(queue).map(|(report, _)| report);
        report.map_or(0, |it| it.waiting + it.not_remembered)
    }

    pub(super) fn due(&self, queue: &str) -> Option<&Due> {
        let (report, _) = self.queues.get(queue)?;
        (!report.due.counts.is_empty()).then_some(&report.due)
    }
}

/// Adds what another host says of the same queue.
fn add(sum: &mut QueueReport, other: QueueReport) {
    sum.add_groups(&other);
    sum.queue = other.queue;
    sum.waiting += other.waiting;
    sum.resent += other.resent;
    sum.not_remembered += other.not_remembered;
    sum.wakes = sum.wakes.max(other.wakes);
    sum.unlisted += other.unlisted;
    if sum.due.counts.is_empty() {
        sum.due = other.due;
    } else {
        sum.due.add(&other.due);
    }
    for group in other.groups {
        let same = |it: &&mut Group| it.code == group.code && it.class == group.class;
        match sum.groups.iter_mut().find(same) {
            Some(known) => {
                known.count += group.count;
                known.next = known.next.min(group.next);
                known.last = known.last.max(group.last);
            }
            None => sum.groups.push(group),
        }
    }
    sum.groups
        .sort_by_key(|group| std::cmp::Reverse(group.count));
    for Count { value, count } in other.attempts {
        match sum.attempts.iter_mut().find(|it| it.value == value) {
            Some(known) => known.count += count,
            None => sum.attempts.push(Count { value, count }),
        }
    }
    sum.attempts.sort_by_key(|it| it.value);
}

/// The parameters that choose messages, for hosts.
fn query<'a>(view: &'a View<'_>) -> Vec<(&'static str, &'a str)> {
    CHOICE
        .into_iter()
        .filter_map(|name| Some((name, view.value(name)?)))
        .collect()
}

pub(super) async fn view(view: &View<'_>) -> Markup {
    if view
        .value("attempt")
        .is_some_and(|it| it.parse::<NonZeroU32>().is_err())
    {
        return still(
            view,
            "/waiting",
            &[],
            html! {
                p .notice.bad { "`attempt` is no number of failed attempts: expected one from 1." }
            },
        );
    }
    let (waits, (served, missing)) = tokio::join!(all(view), served(view));
    let missing = all_missing([missing, waits.missing.clone()]);
    let chosen = view.value("queue");
    let hosts = chosen.and_then(|queue| served.get(queue));
    page(
        view,
        "/waiting",
        &missing,
        html! {
            (form(view, served.keys()))
            @if let (Some(queue), Some(hosts)) = (chosen, hosts) {
                (controls(view, queue, hosts))
                p { "Version: " (shown(&versions(hosts).into_iter().collect::<Vec<_>>().join(", "))) "." }
            }
            @if waits.queues.is_empty() { p { "No host that answers serves such a queue." } }
            @for (name, (report, reaches)) in &waits.queues {
                section .card id={ "waiting-" (shown(name)) } data-live { (queue(view, name, report, reaches)) }
            }
            p { "Keep this table: "
                a href=(with(view, "format", "csv")) { "CSV" } ", "
                a href=(with(view, "format", "json")) { "JSON" } "."
            }
        },
    )
}

/// What waits of the messages that are chosen, in the queue that is named. All hosts are asked for all queues: one that does not serve this one is not missing.
async fn all(view: &View<'_>) -> Waits {
    let mut waits = Waits::of(view, &query(view)).await;
    if let Some(queue) = view.value("queue") {
        waits.queues.retain(|name, _| name == queue);
    }
    waits
}

/// This view with another parameter.
fn with(view: &View<'_>, name: &str, value: &str) -> String {
    let mut parameters = query(view);
    parameters.push(("queue", view.value("queue").unwrap_or_default()));
    parameters.push((name, value));
    link("/waiting", &parameters)
}

fn form<'a>(view: &View<'_>, queues: impl Iterator<Item = &'a String>) -> Markup {
    let value = |name| view.value(name).map(shown);
    html! {
        form method="get" .filters role="search" {
            label { "Queue"
                select name="queue" {
                    option value="" { "all" }
                    @for queue in queues { option value=(queue) selected[view.value("queue") == Some(queue)] { (shown(queue)) } }
                }
            }
            label { "Code" input name="code" placeholder="HTTP 5*" value=[value("code")]; }
            label { "Class" input name="class" placeholder="transient" value=[value("class")]; }
            label { "Attempt" input name="attempt" inputmode="numeric" placeholder="3" value=[value("attempt")]; }
            label { "Message id" input name="id" value=[value("id")]; }
            label { "Group" input name="group" placeholder="a tenant" value=[value("group")]; }
            button { "Show" }
        }
    }
}

/// Pause and resume.
fn controls(view: &View<'_>, queue: &str, hosts: &[(String, At)]) -> Markup {
    let reason = view.may_not_act();
    let hosts: Vec<_> = hosts.iter().map(|(_, at)| &at.host).collect();
    let pause = json!({ "action": "pause", "queue": queue, "hosts": hosts });
    let resume = json!({ "action": "resume", "queue": queue, "hosts": hosts });
    html! {
        section .card.controls aria-label="What can be done about the queue" {
            form data-act=(pause.to_string()) {
                label { "Pause for" input name="for" placeholder="30m, or empty: until it is resumed"; }
                label { "Why" input name="why" maxlength="500"; }
                button disabled[reason.is_some()] { "Pause" }
            }
            form data-act=(resume.to_string()) {
                label { "Let messages in flight grow over" input name="ramp" placeholder="5m"; }
                button disabled[reason.is_some()] { "Resume" }
            }
            @if let Some(reason) = reason { p .hint { (reason) } }
            output role="status" {}
        }
    }
}

fn queue(view: &View<'_>, name: &str, report: &QueueReport, reaches: &[Reach]) -> Markup {
    let missing = Reach::missing(reaches.iter().copied());
    html! {
        h2 { a href=(link("/waiting", &[("queue", name)])) { (shown(name)) } }
        p { strong { (count(report.waiting)) } " messages wait" @if report.resent > 0 { ", " (count(report.resent)) " of them by being sent again" } "." }
        @if report.not_remembered > 0 { p .notice { (count(report.not_remembered)) " more wait and are not listed: there are too many." } }
        @if let Some(missing) = missing && missing > 0 {
            p .notice { "About " (count(missing)) " more messages are invisible and out of reach: other hosts have them, or a host that has ended." }
        }
        @if report.waiting > 0 {
            (timeline(name, &report.due).svg())
            (scrolling("Messages that wait", html! { table {
                thead { tr { th { "Code" } th { "Class" } th .number { "Messages" } th { "Next due" } th { "Last due" } th { "Some of them" } } }
                tbody {
                    @for group in &report.groups {
                        tr {
                            td { (choose(name, group)) }
                            td { (shown(&group.class)) }
                            td .number { (count(group.count)) }
                            td { (time(group.next, view.now)) }
                            td { (time(group.last, view.now)) }
                            td .ids { @for id in &group.samples { a href=(link("/message", &[("id", id)])) { (shown(id)) } " " } }
                        }
                    }
                    @if report.unlisted > 0 { tr { td colspan="6" { (count(report.unlisted)) " more in other groups" } } }
                }
            } }))
            @if let Some(by) = &report.grouped_by { (by_group(view, name, by, report)) }
            p { "Failed attempts: "
                @for Count { value, count: number } in &report.attempts {
                    a href=(link("/waiting", &[("queue", name), ("attempt", &value.to_string())])) { (value) } " × " (count(*number)) "  "
                }
            }
        }
        @if view.value("queue") == Some(name) {
            (wake::link_to_preview(view, name))
            (reconsider::link_to_preview(name))
        }
    }
}

/// The messages by what the queue's configuration groups them by.
fn by_group(view: &View<'_>, queue: &str, by: &str, report: &QueueReport) -> Markup {
    let shown_value = |value: &str| {
        // A blank text would choose nothing.
        let is_exact = value.trim() == value && !value.is_empty();
        html! {
            @if is_exact { a href=(link("/waiting", &[("queue", queue), ("group", value)])) { (shown(value)) } }
            @else if value.is_empty() { "none" }
            @else { code { (shown(&format!("{value:?}"))) } }
        }
    };
    html! {
        (scrolling("Messages that wait, by group", html! { table {
            thead { tr { th { "By " (shown(by)) } th .number { "Messages" } th { "Next due" } th { "Last due" } } }
            tbody {
                @for group in report.by_group.iter().take(GROUPS) {
                    tr {
                        td { (shown_value(&group.value)) }
                        td .number { (count(group.count)) }
                        td { (time(group.next, view.now)) }
                        td { (time(group.last, view.now)) }
                    }
                }
                @let others: u64 = report.by_group.iter().skip(GROUPS).map(|it| it.count).sum();
                @if others + report.by_group_unlisted > 0 {
                    tr { td colspan="4" { (count(others + report.by_group_unlisted)) " more of other values" } }
                }
            }
        } }))
    }
}

/// A group's code, and the link that chooses its messages. A code that is blank or has a `*` would choose others, too.
fn choose(queue: &str, group: &Group) -> Markup {
    let is_exact = |text: &str| text.trim() == text && !text.is_empty() && !text.contains('*');
    html! {
        @if is_exact(&group.code) && is_exact(&group.class) {
            a href=(link("/waiting", &[("queue", queue), ("code", &group.code), ("class", &group.class)])) { (shown(&group.code)) }
        } @else { code { (shown(&format!("{:?}", group.code))) } }
    }
}

/// The groups, as a file.
pub(super) async fn table(view: &View<'_>) -> (Table, Vec<Missing>) {
    let waits = all(view).await;
    let rows = waits.queues.iter().flat_map(|(name, (report, _))| {
        report.groups.iter().map(|group| {
            vec![
                name.clone(),
                group.code.clone(),
                group.class.clone(),
                group.count.to_string(),
                group.next.rfc3339(),
                group.last.rfc3339(),
            ]
        })
    });
    let table = Table {
        names: vec!["queue", "code", "class", "messages", "next-due", "last-due"],
        rows: rows.collect(),
    };
    (table, waits.missing)
}
