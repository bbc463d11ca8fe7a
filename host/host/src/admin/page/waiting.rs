//! What waits: groups by code, class and attempt, and what can be done about it. A wake acts on the messages that its preview has counted, and on no others.

use std::collections::BTreeMap;

use backstop_core::failure::Timestamp;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::chart::timeline;
use super::fleet::{DoneAt, Missing};
use super::layout::{page, scrolling};
use super::served::{served, versions};
use super::text::{Table, count, link, parse_duration, shown, time};
use super::view::View;
use crate::admin::routes::{HostAnswer, HostWaiting};
use crate::waiting::{Count, Due, Group, QueueReport, Reach, Woken};

/// The fields of the form that choose messages.
const CHOICE: [&str; 4] = ["code", "class", "attempt", "id"];

/// What waits in the queues, added over all hosts.
#[derive(Debug)]
pub(super) struct Waits {
    queues: BTreeMap<String, (QueueReport, Vec<Reach>)>,
    missing: Vec<Missing>,
}

impl Waits {
    /// What waits of the messages that match.
    pub(super) async fn of(view: &View<'_>, query: &[(&str, &str)]) -> Self {
        let answers = view
            .fleet
            .get::<HostWaiting>(&view.by, "/v1/waiting", query)
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
    let names = std::iter::once("queue").chain(CHOICE);
    names
        .filter_map(|name| Some((name, view.value(name)?)))
        .collect()
}

pub(super) async fn view(view: &View<'_>) -> Markup {
    let (waits, (served, _)) = tokio::join!(all(view), served(view));
    let chosen = view.value("queue");
    let hosts = chosen.and_then(|queue| served.get(queue));
    page(
        view,
        "/waiting",
        &waits.missing,
        html! {
            (form(view, served.keys()))
            @if let (Some(queue), Some(hosts)) = (chosen, hosts) {
                (controls(view, queue, hosts.len()))
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

async fn all(view: &View<'_>) -> Waits {
    Waits::of(view, &query(view)).await
}

/// This view with another parameter.
fn with(view: &View<'_>, name: &str, value: &str) -> String {
    let mut parameters = query(view);
    parameters.push(("all", view.value("all").unwrap_or_default()));
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
            button { "Show" }
        }
    }
}

/// Pause and resume.
fn controls(view: &View<'_>, queue: &str, hosts: usize) -> Markup {
    let reason = view.may_not_act();
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
                            td { a href=(link("/waiting", &[("queue", name), ("code", &group.code), ("class", &group.class)])) { (shown(&group.code)) } }
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
            p { "Failed attempts: "
                @for Count { value, count: number } in &report.attempts {
                    a href=(link("/waiting", &[("queue", name), ("attempt", &value.to_string())])) { (value) } " × " (count(*number)) "  "
                }
            }
        }
        @if view.value("queue") == Some(name) { (wake(view, name)) }
    }
}

/// The link to the preview of a wake, with what it needs.
fn wake(view: &View<'_>, name: &str) -> Markup {
    let is_chosen = CHOICE.iter().any(|field| view.value(field).is_some());
    html! {
        form method="get" action="/waiting/wake" .wake {
            input type="hidden" name="queue" value=(name);
            @for field in CHOICE {
                @if let Some(value) = view.value(field) { input type="hidden" name=(field) value=(value); }
            }
            @if !is_chosen { label { input type="checkbox" name="all" value="yes" required; " all of them" } }
            label { "Spread over (0: at once)" input name="spread" value="0"; }
            button { "Preview a wake" }
        }
    }
}

/// The preview of a wake: the exact messages, counted at each host.
pub(super) async fn preview(view: &View<'_>) -> Markup {
    let Some((queue, filter)) = choice(view) else {
        return page(
            view,
            "/waiting",
            &[],
            html! {
                p .notice.bad { "Nothing is chosen: name a queue and a code, a class, an attempt or an id, or choose all." }
            },
        );
    };
    let spread = parse_duration(view.value("spread").unwrap_or("0"));
    let Some(spread) = spread else {
        return page(
            view,
            "/waiting",
            &[],
            html! {
                p .notice.bad { "`spread` is no duration: expected one such as 5m or 30s, or 0." }
            },
        );
    };
    let (served, missing) = served(view).await;
    let serving = served.get(queue).into_iter().flatten();
    let serving: Vec<_> = serving.map(|(_, queue)| queue.host.clone()).collect();
    let body = wake_body(queue, &filter, spread.0, None, true);
    let meant = |id: &str| serving.iter().any(|it| it == id).then(|| body.clone());
    let done = view.fleet.post(&view.by, "/v1/wake", meant).await;
    let mut counted = Vec::new();
    let mut lost = missing;
    for DoneAt { host, id, answer } in done {
        let read = answer.and_then(|it| {
            serde_json::from_value::<HostAnswer<Woken>>(it).map_err(|error| error.to_string())
        });
        match read {
            Ok(answer) => counted.push((host, id, answer.result)),
            Err(why) => lost.push(Missing { host, why }),
        }
    }
    let total: u64 = counted.iter().map(|(.., it)| it.matched).sum();
    let sooner: u64 = counted.iter().map(|(.., it)| it.woken + it.resent).sum();
    let out = Reach::missing(counted.iter().map(|(.., it)| it.reach)).unwrap_or_default();
    let hosts: Map<String, Value> = counted
        .iter()
        .map(|(_, id, it)| (id.clone(), json!(it.as_of.0)))
        .collect();
    let act = json!({ "action": "wake", "queue": queue, "filter": filter, "spread": spread.0, "as-of": hosts });
    let reason = view
        .may_not_act()
        .or((sooner == 0).then_some("None of them would come sooner."));
    page(
        view,
        "/waiting",
        &lost,
        html! {
            section .card {
                h2 { "Preview of a wake in " (shown(queue)) }
                p {
                strong { (count(total)) } " messages match, and " strong { (count(sooner)) } " of them would come sooner, "
                @if spread.0 == 0 { "at once." } @else { "spread over " (spread) "." }
            }
                @if !lost.is_empty() { p .notice.bad { "The hosts above have not answered: their messages are not among these, and stay as they are." } }
                @if out > 0 { p .notice { "About " (count(out)) " more messages are invisible and out of reach of all hosts." } }
                (scrolling("The preview by host", html! { table {
                    thead { tr { th { "Host" } th .number { "Match" } th .number { "Come sooner" } th .number { "As soon anyway" } th .number { "Sent again, sooner" } } }
                    tbody { @for (host, _, it) in &counted {
                        tr { td { (shown(host)) } td .number { (count(it.matched)) } td .number { (count(it.woken)) } td .number { (count(it.as_soon)) } td .number { (count(it.resent)) } }
                    } }
                } }))
                p .hint { "Exactly these are woken: no message that fails after this preview, at these hosts only." }
                form data-act=(act.to_string()) {
                    button disabled[reason.is_some()] { "Wake these " (count(sooner)) " messages" }
                    " " a href=(with(view, "", "")) { "Back" }
                    output role="status" {}
                }
                @if let Some(reason) = reason { p .hint { (reason) } }
            }
        },
    )
}

/// The queue and the filter that the address names. Nothing chooses nothing.
fn choice<'a>(view: &'a View<'_>) -> Option<(&'a str, Value)> {
    let queue = view.value("queue")?;
    let mut filter = Map::new();
    for field in CHOICE {
        if let Some(value) = view.value(field) {
            let value = match field {
                "attempt" => json!([value.parse::<u32>().ok()?]),
                _ => json!([value]),
            };
            filter.insert(field.to_owned(), value);
        }
    }
    let is_all = view.value("all").is_some();
    (is_all == filter.is_empty()).then_some((queue, filter.into()))
}

/// The body of a wake. `until` narrows it to what had failed by then.
pub(super) fn wake_body(
    queue: &str,
    filter: &Value,
    spread: u32,
    until: Option<Timestamp>,
    dry_run: bool,
) -> Value {
    let mut filter = filter.clone();
    if let (Some(until), Some(filter)) = (until, filter.as_object_mut()) {
        filter.insert("failed-until".to_owned(), json!(until.0));
    }
    let mut body = json!({ "queue": queue, "spread": spread, "dry-run": dry_run });
    let is_all = filter.as_object().is_none_or(Map::is_empty);
    if let Some(body) = body.as_object_mut() {
        let (name, value) = if is_all {
            ("all", json!(true))
        } else {
            ("filter", filter)
        };
        body.insert(name.to_owned(), value);
    }
    body
}

/// The groups, as a file.
pub(super) async fn table(view: &View<'_>) -> Table {
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
    Table {
        names: vec!["queue", "code", "class", "messages", "next-due", "last-due"],
        rows: rows.collect(),
    }
}
