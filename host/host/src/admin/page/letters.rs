//! Dead letters: what the last survey of each queue has found, in groups, with what the policy would do. Looking costs the letters no receive.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::json;

use super::fleet::{Missing, THIS};
use super::history::who;
use super::layout::{page, scrolling};
use super::text::{Table, count, link, shown, time};
use super::view::View;
use crate::admin::routes::{HostLetters, LettersReading, QueueLetters};
use crate::failure::Timestamp;
use crate::letters::{Grouping, LetterGroup, QueueSeen, SurveyReport};

/// How old a survey may be before the page says so, in milliseconds.
const OLD: u64 = 15 * 60 * 1_000;

/// The dead letters of a queue, as the hosts know them.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) queue: String,
    dead_letter_queues: Vec<String>,
    /// The host that is asked for a survey: this one, if it serves the queue.
    surveyor: (String, String),
    reading: Option<LettersReading>,
    failed: Option<String>,
    /// The versions that are active at the hosts.
    active: BTreeSet<String>,
    moved_since: bool,
    /// The newest survey, with the name and the id of its host.
    pub(super) found: Option<(String, String, SurveyReport)>,
}

/// What the hosts know of dead letters, by queue, and the hosts that did not answer.
pub(super) async fn known(view: &View<'_>) -> (Vec<Known>, Vec<Missing>) {
    let mut query = vec![("grouped-by", grouping(view).as_str())];
    query.extend(view.value("queue").map(|queue| ("queue", queue)));
    let path = ["v1", "dead-letters"];
    let answers = view.fleet.get::<HostLetters>(&view.by, &path, &query).await;
    let mut known = Vec::<Known>::new();
    for (name, host) in answers.of {
        for queue in host.queues {
            let place = known.iter().position(|it| it.queue == queue.queue);
            match place.and_then(|place| known.get_mut(place)) {
                Some(known) => known.add(&name, &host.host, queue),
                None => known.push(Known::of(&name, &host.host, queue)),
            }
        }
    }
    known.sort_by(|one, other| one.queue.cmp(&other.queue));
    (known, answers.missing)
}

impl Known {
    fn of(host: &str, id: &str, queue: QueueLetters) -> Self {
        let place = (host.to_owned(), id.to_owned());
        Self {
            queue: queue.queue,
            dead_letter_queues: queue.dead_letter_queues,
            found: queue.found.map(|it| (place.0.clone(), place.1.clone(), it)),
            surveyor: place,
            reading: queue.reading,
            failed: queue.failed,
            active: [queue.active].into(),
            moved_since: queue.moved_since,
        }
    }

    /// Adds what another host knows of the same queue.
    fn add(&mut self, host: &str, id: &str, queue: QueueLetters) {
        if host == THIS {
            self.surveyor = (host.to_owned(), id.to_owned());
        }
        self.reading = self.reading.take().or(queue.reading);
        self.active.insert(queue.active);
        self.moved_since |= queue.moved_since;
        let is_newer = |found: &SurveyReport| match &self.found {
            Some((.., known)) => found.at > known.at,
            None => true,
        };
        if let Some(found) = queue.found.filter(is_newer) {
            // What failed elsewhere before is no longer of interest.
            self.failed = queue.failed;
            self.found = Some((host.to_owned(), id.to_owned(), found));
        }
    }
}

/// What the letters are grouped by.
pub(super) fn grouping(view: &View<'_>) -> Grouping {
    let given = view.value("grouped-by").and_then(|text| text.parse().ok());
    let is_allowed = |it: &Grouping| *it != Grouping::Value || view.may_see_bodies().is_none();
    given.filter(is_allowed).unwrap_or_default()
}

pub(super) async fn view(view: &View<'_>) -> Markup {
    let (known, missing) = known(view).await;
    let is_one = view.value("queue").is_some();
    let body = html! {
        p .hint {
            "A survey receives every letter once: it is invisible to others meanwhile, and its receive count goes up by one. What it has found is kept by the host until the next survey or its end, for everybody. Looking receives nothing."
        }
        @if known.is_empty() { p { "No host that answers serves such a queue with a dead-letter queue." } }
        @for queue in &known {
            section .card id={ "letters-" (shown(&queue.queue)) } {
                h2 { a href=(link("/dead-letters", &[("queue", &queue.queue)])) { (shown(&queue.queue)) } }
                (state(view, queue))
                (survey(view, queue, is_one))
                @if let (true, Some((host, id, found))) = (is_one, &queue.found) { (groups(view, queue, (host, id), found)) }
            }
        }
    };
    page(view, "/dead-letters", &missing, body)
}

/// What is under way, and what the last survey has seen. It has the survey's name, so that the view is loaded again when there is another one.
fn state(view: &View<'_>, known: &Known) -> Markup {
    let name = known
        .found
        .as_ref()
        .map_or("none", |(.., it)| it.survey.as_str());
    html! {
        div id={ "survey-" (shown(&known.queue)) "-" (name) } data-live {
            p .hint { "In " @for queue in &known.dead_letter_queues { code { (shown(queue)) } " " } }
            @if known.dead_letter_queues.is_empty() { p { "It has no dead-letter queue." } }
            @if let Some(reading) = &known.reading {
                p .notice role="status" { "A survey is under way, begun " (time(reading.since, view.now)) " by " (shown(who(&reading.by))) ": " strong { (count(reading.read)) } " letters read." }
            }
            @if let Some(failed) = &known.failed { p .notice.bad { "The last survey failed: " (shown(failed)) } }
            @match &known.found {
                None if known.reading.is_none() => p { "Nobody has surveyed its dead letters since the hosts started." },
                None => {},
                Some((host, _, found)) => {
                    (summary(view, host, found))
                    (since(known, found))
                },
            }
        }
    }
}

fn summary(view: &View<'_>, host: &str, found: &SurveyReport) -> Markup {
    let verdict = |name: &str| found.verdicts.get(name).copied().unwrap_or_default();
    html! {
        p { strong { (count(found.letters)) } " letters were seen " (time(found.at, view.now)) ", asked for by " (shown(who(&found.by))) "; " (shown(host)) " keeps what was found." }
        @if is_old(found.at, view.now) { p .notice { "That is a while ago: letters may have come or gone. Survey again before you act." } }
        @for queue in &found.queues { (seen(queue, found.queues.len() > 1)) }
        @if found.elsewhere > 0 { p .notice { (count(found.elsewhere)) " of them come from elsewhere (another queue, a function or a topic): the page does not move these, " code { "backstop dlq redrive" } " does." } }
        dl .numbers {
            div { dt { "would be retried" } dd { (count(verdict("retry"))) } }
            div { dt { "would die again" } dd { (count(verdict("dead-letter"))) } }
            div { dt { "would be discarded" } dd { (count(verdict("discard"))) } }
            div .bad[verdict("broken") > 0] { dt { "the policy breaks" } dd { (count(verdict("broken"))) } }
            div { dt { "error unknown" } dd { (count(verdict("not classified"))) } }
        }
        p .hint { "That is what " (shown(&found.policy)) " would do, asked about "
            @if found.attempts == backstop_dead_letters::Attempts::Keep { "the last attempt of each." } @else { "a first attempt, as after a redrive." }
            @for (what, number) in &found.unknown { " " (count(*number)) " letters do not say " (shown(what)) "." }
        }
    }
}

/// What has changed since the survey.
fn since(known: &Known, found: &SurveyReport) -> Markup {
    html! {
        @if known.moved_since { p .notice { "A run has moved letters since: survey again to see what is left." } }
        @if !known.active.contains(&found.policy) {
            p .notice { strong { "Another version is active: " } (shown(&known.active.iter().cloned().collect::<Vec<_>>().join(", "))) ". It decides about what is moved back, and may decide otherwise." }
        }
    }
}

fn seen(queue: &QueueSeen, is_named: bool) -> Markup {
    html! {
        @if let Some(why) = &queue.partial {
            p .notice {
                strong { "This is not all" } @if is_named { " of " code { (shown(&queue.queue)) } } ": " (shown(why)) ". "
                (count(queue.letters)) " were seen" @if let Some(about) = queue.about { " of about " (count(about)) } "."
            }
        }
        @if queue.held_by_others > 0 { p .notice { "Others held about " (count(queue.held_by_others)) " letters." } }
        @if queue.later > 0 { p .hint { (count(queue.later)) " more arrived meanwhile and are left out." } }
        @if queue.not_made_visible > 0 { p .notice { (count(queue.not_made_visible)) " could not be made visible, and are when their visibility timeout ends." } }
    }
}

/// The form that begins a survey.
fn survey(view: &View<'_>, known: &Known, is_one: bool) -> Markup {
    let reason = if known.dead_letter_queues.is_empty() {
        Some("It has no dead-letter queue.")
    } else {
        view.may_not_act()
    };
    let act = json!({ "action": "survey", "queue": known.queue, "host": known.surveyor.1 });
    html! {
        form .filters data-act=(act.to_string()) {
            @if is_one {
                label { "Group by a value in the body, too" input name="pointer" placeholder="/order/customer"; }
                label .inline { input type="checkbox" name="keep-attempts" value="yes"; " ask about the last attempt, not about a first one" }
            }
            button disabled[reason.is_some()] { "Survey now" }
            output role="status" {}
            @if let Some(reason) = reason { p .hint { (reason) } }
        }
    }
}

/// The groups, and the form that leads to the preview of a run.
fn groups(view: &View<'_>, known: &Known, (_, id): (&str, &str), found: &SurveyReport) -> Markup {
    let queue = known.queue.as_str();
    let by = found.grouped_by;
    html! {
        p .ranges { "Grouped by "
            @for grouping in Grouping::ALL {
                @if grouping != Grouping::Value || (found.pointer.is_some() && view.may_see_bodies().is_none()) {
                    a href=(link("/dead-letters", &[("queue", queue), ("grouped-by", grouping.as_str())])) aria-current=[(grouping == by).then_some("true")] {
                        @match (&found.pointer, grouping) {
                            (Some(pointer), Grouping::Value) => (shown(pointer)),
                            _ => (grouping.title()),
                        }
                    } " "
                }
            }
        }
        form method="get" action="/dead-letters/redrive" {
            input type="hidden" name="queue" value=(queue);
            input type="hidden" name="host" value=(id);
            input type="hidden" name="survey" value=(found.survey);
            input type="hidden" name="grouped-by" value=(by.as_str());
            (scrolling("Dead letters in groups", html! { table {
                thead { tr { th { "Choose" } th { (title(by, found)) } th .number { "Letters" } th { "Died" } th .number { "Would be retried" } th .number { "Would die again" } th { "Some of them" } } }
                tbody {
                    @for group in &found.groups { (row(view, by, group)) }
                    @if found.ungrouped > 0 { tr { td colspan="7" { (count(found.ungrouped)) " more in further groups" } } }
                }
            } }))
            @if found.groups.is_empty() { p { "No letter is there." } } @else { (how()) }
        }
        p { "Keep this table: "
            a href=(link("/dead-letters", &[("queue", queue), ("grouped-by", by.as_str()), ("format", "csv")])) { "CSV" } ", "
            a href=(link("/dead-letters", &[("queue", queue), ("grouped-by", by.as_str()), ("format", "json")])) { "JSON" } "."
        }
    }
}

/// How the chosen groups are to be moved.
fn how() -> Markup {
    html! {
        fieldset .filters {
            legend { "Move the chosen groups back to their queue" }
            label { "Which of them"
                select name="only" {
                    option value="retry" { "those that would be retried" }
                    option value="all" { "all" }
                }
            }
            label { "Steps" input name="ramp" value="10,100,all"; }
            label { "Stop if more fail again than" input name="stop-at" value="5%"; }
            label { "Look for them after" input name="watch-for" value="1m"; }
            label { "Rate, at most" input name="rate" placeholder="50/s"; }
            label { "Why" input name="why" maxlength="500"; }
            label .inline { input type="checkbox" name="keep-copies" value="yes" checked; " keep a copy of each letter" }
            button { "Preview" }
        }
    }
}

fn title(by: Grouping, found: &SurveyReport) -> String {
    match (by, &found.pointer) {
        (Grouping::Value, Some(pointer)) => shown(pointer),
        _ => {
            let title = by.title();
            let mut letters = title.chars();
            let first = letters.next().map(|it| it.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        }
    }
}

fn row(view: &View<'_>, by: Grouping, group: &LetterGroup) -> Markup {
    let what = key(group);
    html! {
        tr {
            td { input type="checkbox" name="group" value=(group.id) aria-label={ "Choose " (what) }; }
            td .key-of[by == Grouping::Cause] { (what) @if group.elsewhere > 0 { " (" (count(group.elsewhere)) " from elsewhere)" } }
            td .number { (count(group.count)) }
            td { (time(group.first, view.now)) @if group.first != group.last { " to " (time(group.last, view.now)) } }
            td .number { (count(group.retry)) }
            td .number { (count(group.dead_letter + group.discard)) @if group.broken > 0 { " (breaks: " (count(group.broken)) ")" } @if group.not_classified > 0 { " (unknown: " (count(group.not_classified)) ")" } }
            td .ids { @for id in &group.samples { a href=(link("/dead-letters/letter", &[("id", id)])) { (shown(id)) } " " } }
        }
    }
}

/// What letters of a group have in common, in words.
fn key(group: &LetterGroup) -> String {
    let texts = group.key.iter().map(|text| match text {
        Some(text) if text.is_empty() => "an empty text".to_owned(),
        Some(text) => shown(text),
        None => "unknown".to_owned(),
    });
    let texts: Vec<_> = texts.collect();
    match texts.as_slice() {
        // A reason ends with its code, most often.
        [reason, code] if reason.ends_with(code.as_str()) => reason.clone(),
        _ => texts.join(", "),
    }
}

fn is_old(at: Timestamp, now: Timestamp) -> bool {
    now.0.saturating_sub(at.0) > OLD
}

/// The groups, as a file.
pub(super) async fn table(view: &View<'_>) -> (Table, Vec<Missing>) {
    let (known, missing) = known(view).await;
    let found = known
        .iter()
        .filter_map(|it| Some((&it.queue, &it.found.as_ref()?.2)));
    let partial = |found: &SurveyReport| {
        let why = found.queues.iter().filter_map(|it| it.partial.clone());
        why.collect::<Vec<_>>().join(", ")
    };
    let rows = found.flat_map(|(queue, found)| {
        let partial = partial(found);
        let others = (found.ungrouped > 0).then(|| {
            let mut row = vec![
                queue.clone(),
                "further groups".to_owned(),
                found.ungrouped.to_string(),
            ];
            row.resize(10, String::new());
            row.extend([found.at.rfc3339(), partial.clone()]);
            row
        });
        let groups = found.groups.iter().map(|group| {
            vec![
                queue.clone(),
                key(group),
                group.count.to_string(),
                group.first.rfc3339(),
                group.last.rfc3339(),
                group.retry.to_string(),
                group.dead_letter.to_string(),
                group.discard.to_string(),
                group.broken.to_string(),
                group.not_classified.to_string(),
                found.at.rfc3339(),
                partial.clone(),
            ]
        });
        groups.chain(others).collect::<Vec<_>>()
    });
    let table = Table {
        names: vec![
            "queue",
            "group",
            "letters",
            "first-died",
            "last-died",
            "retry",
            "dead-letter",
            "discard",
            "broken",
            "not-classified",
            "surveyed",
            "partial",
        ],
        rows: rows.collect(),
    };
    (table, missing)
}
