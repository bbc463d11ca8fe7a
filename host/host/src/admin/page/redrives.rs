//! The runs that move dead letters back: what each has done, live, and the buttons that stop it or go on with it.

use maud::{Markup, html};
use serde_json::json;

use super::fleet::{Missing, STATUS, all_missing, id};
use super::history::who;
use super::layout::{page, scrolling};
use super::text::{Table, count, link, shown, time};
use super::view::View;
use crate::admin::routes::{HostRedrive, HostRedrives, HostStatus};
use crate::letters::{MOST_IDS, RunDetail, RunReport};

/// A run, and the host that is asked to stop it or to go on with it.
struct Known {
    host: String,
    id: String,
    report: RunReport,
}

/// The runs of all hosts, each once: of several that know a run, the one that carries it out.
struct Runs {
    known: Vec<Known>,
    places: Vec<(String, Result<String, String>)>,
    more: u64,
    missing: Vec<Missing>,
}

impl Runs {
    async fn of(view: &View<'_>) -> Self {
        let path = ["v1", "redrives"];
        let answers = view.fleet.get::<HostRedrives>(&view.by, &path, &[]).await;
        let mut runs = Self {
            known: Vec::new(),
            places: Vec::new(),
            more: 0,
            missing: answers.missing,
        };
        for (host, found) in answers.of {
            runs.more += found.more;
            let place = match (found.problem, found.place) {
                (Some(problem), _) => Err(problem),
                (None, place) => Ok(place.unwrap_or_default()),
            };
            runs.places.push((host.clone(), place));
            for report in found.runs {
                runs.add(&host, &found.host, report);
            }
        }
        let newest = |it: &Known| std::cmp::Reverse(it.report.run.clone());
        runs.known.sort_by_key(newest);
        runs
    }

    fn add(&mut self, host: &str, id: &str, report: RunReport) {
        let new = Known {
            host: host.to_owned(),
            id: id.to_owned(),
            report,
        };
        let mut known = self.known.iter_mut();
        match known.find(|it| it.report.run == new.report.run) {
            // Another host may know less: the run is in a folder of its own.
            Some(known) if worth(&new.report) > worth(&known.report) => *known = new,
            Some(_) => {}
            None => self.known.push(new),
        }
    }
}

/// Which of two reports of a run says more.
fn worth(report: &RunReport) -> u8 {
    u8::from(report.here) * 2 + u8::from(report.can_resume)
}

pub(super) async fn view(view: &View<'_>) -> Markup {
    if let Some(run) = view.value("run") {
        return detail(view, run).await;
    }
    let runs = Runs::of(view).await;
    let body = html! {
        p .hint { "Runs of the page and of " code { "backstop dlq redrive" } " by the same user, in " @for (host, place) in &runs.places {
            @match place {
                Ok(place) => { code { (shown(place)) } " (" (shown(host)) ") " }
                Err(problem) => { strong { (shown(host)) ": " (shown(problem)) } " " }
            }
        } }
        @if runs.known.is_empty() { p { "There are none. " a href="/dead-letters" { "Dead letters" } " leads to one." } }
        @for known in &runs.known { (card(view, known)) }
        @if runs.more > 0 { p { (count(runs.more)) " older runs: " code { "backstop dlq runs" } " lists them." } }
    };
    page(view, "/redrives", &runs.missing, body)
}

fn card(view: &View<'_>, known: &Known) -> Markup {
    let report = &known.report;
    let run = &report.run;
    html! {
        section .card id={ "run-" (shown(run)) } {
            h2 { a href=(link("/redrives", &[("run", run)])) { (shown(run)) } }
            // With the outcome in its name, so that the view is loaded again when that changes, with other buttons.
            div id={ "run-" (shown(run)) "-" (report.outcome.replace(' ', "-")) } data-live { (state(view, known)) }
            (buttons(view, known))
        }
    }
}

fn state(view: &View<'_>, known: &Known) -> Markup {
    let report = &known.report;
    let counts = &report.counts;
    let class = match report.outcome.as_str() {
        "done" => "good",
        "running" => "paused",
        _ => "bad",
    };
    html! {
        p { strong .state class=(class) { (shown(&report.outcome)) }
            @if report.here { ", carried out by " (shown(&known.host)) }
            @if let Some(text) = &report.text { ": " (shown(text)) }
        }
        p { code { (shown(&report.queue)) } ", started " (time(report.started, view.now)) " by " (shown(who(&report.who))) @if let Some(why) = &report.why { ": " (shown(why)) } }
        @if let Some(letters) = counts.letters && report.here { progress max=(letters.max(1)) value=(counts.moved + counts.refused) aria-label="Letters that were moved" {} }
        dl .numbers {
            div { dt { "letters" } dd { (counts.letters.map_or_else(|| "unknown".to_owned(), count)) } }
            div { dt { "moved" } dd { (count(counts.moved)) } }
            div .bad[counts.failed_again > 0] { dt { "failed again" } dd { (count(counts.failed_again)) } }
            div .bad[counts.refused > 0] { dt { "refused" } dd { (count(counts.refused)) } }
            @if counts.uncertain + counts.in_doubt > 0 { div .bad { dt { "may arrive twice" } dd { (count(counts.uncertain + counts.in_doubt)) } } }
            @if let Some(missing) = report.missing.filter(|it| *it > 0) { div { dt { "could not be received" } dd { (count(missing)) } } }
            @if report.later > 0 { div { dt { "arrived later" } dd { (count(report.later)) } } }
            div { dt { "steps" } dd { (shown(&report.steps)) } }
        }
        @if let Some(to) = &report.to { p .hint { "To " code { (shown(to)) } } }
        @if let Some(copies) = &report.copies { p .hint { "Copies of the letters: " code { (shown(copies)) } } }
    }
}

fn buttons(view: &View<'_>, known: &Known) -> Markup {
    let report = &known.report;
    let (run, queue) = (&report.run, report.of_queue.as_deref().unwrap_or_default());
    let act = |action: &str| {
        json!({ "action": action, "host": known.id, "queue": queue, "run": run }).to_string()
    };
    let may_not = view.may_not_act();
    html! {
        @if report.here {
            form data-act=(act("stop-run")) {
                button disabled[may_not.is_some()] { "Stop" }
                output role="status" {}
            }
        } @else if report.can_resume {
            form data-act=(act("resume-run")) {
                button disabled[may_not.is_some()] { "Go on" }
                output role="status" {}
            }
        }
        @if let (true, Some(reason)) = (report.here || report.can_resume, may_not) { p .hint { (reason) } }
        @if report.outcome == "running" && !report.here { p .hint { "Another process carries it out: " code { "backstop dlq stop" } " stops it." } }
    }
}

/// One run, with the letters that went wrong.
async fn detail(view: &View<'_>, run: &str) -> Markup {
    let path = ["v1", "redrives", run];
    let one = view.fleet.get::<HostRedrive>(&view.by, &path, &[]);
    let (answers, status) = tokio::join!(one, view.fleet.get::<HostStatus>(&view.by, &STATUS, &[]));
    let missing = all_missing([answers.missing, status.missing]);
    let found = answers
        .of
        .into_iter()
        .filter_map(|(host, it)| Some((host, it.run?)));
    let found = found.max_by_key(|(_, it)| worth(&it.report));
    let ids = status.of.iter();
    let id_of = |name: &str| ids.clone().find(|(host, _)| host == name);
    let body = html! {
        @match &found {
            Some((host, detail)) => {
                (card(view, &Known {
                    host: host.clone(),
                    id: id_of(host).map(|(name, status)| id(name, status)).unwrap_or_default(),
                    report: detail.report.clone(),
                }))
                (letters(detail))
            },
            None => p { "No host that answers knows this run." },
        }
    };
    page(view, "/redrives", &missing, body)
}

fn letters(detail: &RunDetail) -> Markup {
    let of = |title: &str, rows: &[(String, String)], what: [&str; 2]| {
        html! {
            @if !rows.is_empty() {
                h3 { (title) }
                (scrolling(title, html! { table {
                    thead { tr { @for name in what { th { (name) } } } }
                    tbody { @for (one, other) in rows {
                        tr { td { a href=(link("/message", &[("id", one)])) { (shown(one)) } } td { (shown(other)) } }
                    } }
                } }))
            }
        }
    };
    html! {
        (of("Refused", &detail.refusals, ["Letter", "Why"]))
        (of("Failed again", &detail.came_back, ["Letter", "Is again"]))
        @if !detail.uncertain_ids.is_empty() {
            h3 { "May have arrived twice" }
            p .ids { @for id in &detail.uncertain_ids { a href=(link("/message", &[("id", id)])) { (shown(id)) } " " } }
        }
        @if [detail.refusals.len(), detail.came_back.len(), detail.uncertain_ids.len()].contains(&MOST_IDS) { p .hint { "A list has " (MOST_IDS) " letters at most; the numbers above count all." } }
        @if !detail.damaged_lines.is_empty() { p .notice.bad { "Lines of the journal can't be read: " @for line in &detail.damaged_lines { (line) " " } } }
    }
}

/// The runs, as a file.
pub(super) async fn table(view: &View<'_>) -> (Table, Vec<Missing>) {
    let runs = Runs::of(view).await;
    let older = (runs.more > 0).then(|| {
        let mut row = vec![format!("{} older runs are not listed", runs.more)];
        row.resize(10, String::new());
        row
    });
    let rows = runs.known.into_iter().map(|Known { report, .. }| {
        let counts = report.counts;
        let letters = counts.letters.map(|it| it.to_string());
        vec![
            report.run,
            report.queue,
            report.started.rfc3339(),
            report.who,
            report.why.unwrap_or_default(),
            report.outcome,
            letters.unwrap_or_default(),
            counts.moved.to_string(),
            counts.failed_again.to_string(),
            counts.refused.to_string(),
        ]
    });
    let table = Table {
        names: vec![
            "run",
            "queue",
            "started",
            "who",
            "why",
            "outcome",
            "letters",
            "moved",
            "failed-again",
            "refused",
        ],
        rows: rows.chain(older).collect(),
    };
    // A file does not say what it lacks.
    let unread = runs
        .places
        .into_iter()
        .filter_map(|(host, place)| place.err().map(|why| Missing { host, why }));
    let missing = runs.missing.into_iter().chain(unread).collect();
    (table, missing)
}
