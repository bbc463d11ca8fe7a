//! What if: another policy, against what waits and what was recorded. Nothing is changed.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::chart::timeline;
use super::history::who;
use super::layout::{page, scrolling, still};
use super::served::served;
use super::text::{count, duration, link, shown, time};
use super::view::View;
use crate::admin::answer::Refused;
use crate::admin::call::Call;
use crate::admin::caller::Caller;
use crate::admin::interface::Interface;
use crate::admin::tools::Replayed;
pub(super) use crate::admin::what_if::FILE_BYTES;
use crate::admin::what_if::{Asked, Finding, Question};
use crate::waiting::Supposed;
use backstop_core::settings::parse_pairs;

/// The most rows of a table.
const ROWS: usize = 30;

/// What the form sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Form {
    queue: String,
    #[serde(default)]
    policy: String,
    #[serde(default)]
    file: String,
    #[serde(default)]
    settings: String,
}

/// Begins to find out what somebody asks.
pub(super) fn ask(interface: &Interface, by: &Caller, call: &Call) -> Result<Value, Refused> {
    let form: Form = call.json()?;
    let tools = interface.tools()?;
    let queue = interface.queue(&form.queue)?;
    let settings = match form.settings.trim() {
        "" => Vec::new(),
        text => parse_pairs(text).map_err(|error| Refused::invalid(error.to_string()))?,
    };
    let given = |text: &String| Some(text.clone()).filter(|it| !it.is_empty());
    let asked = Asked {
        queue: form.queue.clone(),
        // A file counts before the list, which has always one.
        built_in: given(&form.policy).filter(|_| form.file.is_empty()),
        file: given(&form.file),
        settings,
    };
    let bounds = interface.desk()?.bounds(&form.queue).unwrap_or_default();
    let waiting = queue.waiting.clone();
    let what_ifs = interface.what_ifs();
    let question = what_ifs.ask(tools.clone(), &asked, (waiting, bounds), &by.to_string())?;
    Ok(json!({ "question": question }))
}

/// The picture of a question, if there is one.
pub(super) fn chart(interface: &Interface, id: &str) -> Option<String> {
    let finding = interface.what_ifs().question(id)?.found?.ok()?;
    let replayed = finding.replayed.as_ref().ok()?.as_ref()?;
    Some(replayed.chart.clone())
}

pub(super) async fn view(view: &View<'_>, interface: &Interface) -> Markup {
    let question = view
        .value("question")
        .map(|id| (id, interface.what_ifs().question(id)));
    let (id, question) = match question {
        None => return form(view, interface).await,
        Some((_, None)) => {
            let body = html! { p .notice.bad { "This host does not know the question: it has restarted, or others came after it." } p { a href="/policies/what-if" { "Ask again" } } };
            return still(view, "/policies", &[], body);
        }
        Some((id, Some(question))) => (id, question),
    };
    let body = html! {
        section .card {
            h2 { "What if " (shown(&question.asked)) " decided for " (shown(&question.queue)) "?" }
            p .hint { "Asked " (time(question.at, view.now)) " by " (shown(who(&question.by))) ". This host answers from what it remembers and has recorded itself; nothing is changed." }
            @match &question.found {
                None => div #under-way data-live { p .notice role="status" { "It is being found out …" } },
                Some(Err(why)) => p .notice.bad { (shown(why)) },
                Some(Ok(finding)) => { (found(view, (&interface.id, id), &question, finding)) }
            }
        }
        p { a href=(link("/policies/what-if", &[("queue", &question.queue)])) { "Ask something else" } }
    };
    if question.found.is_some() {
        still(view, "/policies", &[], body)
    } else {
        page(view, "/policies", &[], body)
    }
}

async fn form(view: &View<'_>, interface: &Interface) -> Markup {
    let (served, missing) = served(view).await;
    let tools = interface.tools();
    let reason = match &tools {
        Ok(_) => view.may_not_act().map(str::to_owned),
        Err(refused) => Some(refused.to_string()),
    };
    let names = tools.map(|it| it.built_in()).unwrap_or_default();
    let body = html! {
        section .card {
            h2 { "What if another policy decided?" }
            p { "It is asked about every message that waits at this host, and about every failure in its decision records. Nothing is changed." }
            form .filters data-what-if="/policies/what-if" {
                label { "Queue" select name="queue" {
                    @for queue in served.keys() { option value=(queue) selected[view.value("queue") == Some(queue)] { (shown(queue)) } }
                } }
                label { "Built-in policy" select name="policy" { @for name in names { option value=(name) { (name) } } } }
                label { "Or a file (.wasm)" input type="file" name="upload" accept=".wasm,.wat"; }
                label { "Settings" input name="settings" placeholder="base=2s, cap=5m"; }
                button disabled[reason.is_some()] { "Find out" }
                output role="status" {}
            }
            @if let Some(reason) = reason { p .hint { (reason) } }
        }
    };
    still(view, "/policies", &missing, body)
}

fn found(
    view: &View<'_>,
    (host, id): (&str, &str),
    question: &Question,
    finding: &Finding,
) -> Markup {
    html! {
        @match &finding.waiting {
            Some(supposed) => (waiting(&question.queue, supposed)),
            None => p { "Nothing is remembered of what waits." },
        }
        h3 { "The recorded failures" }
        @match &finding.replayed {
            Err(why) => p .notice.bad { (shown(why)) },
            Ok(None) => p { "This host writes no decision records to a file: " code { "decisions.record" } " does." },
            Ok(Some(replayed)) => (replay(id, replayed)),
        }
        h3 { "The dead letters" }
        (letters(view, (host, id), question))
    }
}

fn waiting(queue: &str, it: &Supposed) -> Markup {
    html! {
        h3 { "What waits now" }
        dl .numbers {
            div { dt { "messages wait" } dd { (count(it.waiting)) } }
            div { dt { "would come sooner" } dd { (count(it.sooner)) } }
            div { dt { "at the same time" } dd { (count(it.same)) } }
            div { dt { "would wait for longer" } dd { (count(it.later)) } }
            div .bad[it.dead_letter > 0] { dt { "would be dead" } dd { (count(it.dead_letter)) } }
            div { dt { "would be discarded" } dd { (count(it.discard)) } }
            div .bad[it.broken > 0] { dt { "it breaks" } dd { (count(it.broken)) } }
            div { dt { "not comparable" } dd { (count(it.not_comparable + it.not_remembered)) } }
        }
        @if it.not_reached > 0 { p .notice { (count(it.not_reached)) " messages were not asked about: there was no time." } }
        @if it.sooner + it.same + it.later > 0 {
            p .hint { "When those are due that would be retried: as was decided, and as it would decide." }
            (timeline(queue, &it.due).svg())
            (timeline(queue, &it.would_be_due).svg())
        }
    }
}

fn replay(id: &str, replayed: &Replayed) -> Markup {
    let report = &replayed.report;
    let number = |name: &str| report.get(name).and_then(Value::as_u64).unwrap_or_default();
    html! {
        @if let Some(left_out) = &replayed.left_out { p .notice { (shown(left_out)) } }
        dl .numbers {
            div { dt { "failures" } dd { (count(number("records"))) } }
            div { dt { "decided as before" } dd { (count(number("same"))) } }
            div { dt { "decided differently" } dd { (count(number("different"))) } }
        }
        (pairs("Verdicts, before and now", report.get("verdicts")))
        (pairs("Classes, before and now", report.get("classes")))
        (changes(report.get("changes")))
        (numbers("Not comparable", report.get("not-comparable")))
        (numbers("How it breaks", report.get("broken")))
        (delays(report))
        p { img src=(link("/page/chart", &[("question", id)])) alt="The delays before and now, as two histograms" width="820" height="484" .picture; }
    }
}

/// How many records have these two values.
fn pairs(title: &str, pairs: Option<&Value>) -> Markup {
    let rows = pairs.and_then(Value::as_array).into_iter().flatten();
    let text = |row: &Value, name: &str| {
        row.get(name)
            .and_then(Value::as_str)
            .map(shown)
            .unwrap_or_default()
    };
    html! {
        (scrolling(title, html! { table {
            thead { tr { th { (title) } th { "Now" } th .number { "Failures" } } }
            tbody { @for row in rows.take(ROWS) {
                tr {
                    td { (text(row, "old")) }
                    td { @if text(row, "old") == text(row, "new") { (text(row, "new")) } @else { strong { (text(row, "new")) } } }
                    td .number { (count(row.get("records").and_then(Value::as_u64).unwrap_or_default())) }
                }
            } }
        } }))
    }
}

/// The kinds of differences, with a failure of each.
fn changes(changes: Option<&Value>) -> Markup {
    let rows: Vec<_> = changes
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(ROWS)
        .collect();
    html! {
        @if !rows.is_empty() {
            (scrolling("What is decided differently", html! { table {
                thead { tr { th { "What is decided differently" } th .number { "Failures" } th { "Such as" } th { "Before" } th { "Now" } } }
                tbody { @for row in rows {
                    @let sample = row.pointer("/samples/0");
                    tr {
                        td { (shown(&change(row))) }
                        td .number { (count(row.get("records").and_then(Value::as_u64).unwrap_or_default())) }
                        td .error { (said(sample, "/failure/error/code")) ", attempt " (said(sample, "/failure/attempt")) }
                        td { (answer(sample, "old")) }
                        td { (answer(sample, "new")) }
                    }
                } }
            } }))
        }
    }
}

fn said(sample: Option<&Value>, pointer: &str) -> String {
    match sample.and_then(|it| it.pointer(pointer)) {
        Some(Value::String(text)) => shown(text),
        Some(value) => shown(&value.to_string()),
        None => "–".to_owned(),
    }
}

/// An answer of a sample, in a few words.
fn answer(sample: Option<&Value>, side: &str) -> String {
    let Some(answer) = sample.and_then(|it| it.get(side)) else {
        return "–".to_owned();
    };
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    let delay = answer.get("delay").and_then(Value::as_u64);
    let words = [
        text("verdict").map(str::to_owned),
        text("class").map(str::to_owned),
        text("reason").or(text("cause")).map(str::to_owned),
        delay.map(|delay| format!("after {}", duration(delay))),
    ];
    shown(&words.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// A kind of difference, in words.
fn change(row: &Value) -> String {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    let from_to = |what: &str| format!("{what} {} → {}", text("old"), text("new"));
    match text("what") {
        "breaks" => "it breaks".to_owned(),
        "fixed" => "it answers where the other one broke".to_owned(),
        "verdict" => from_to("verdict"),
        "class" => from_to("class"),
        "outage" => from_to("outage"),
        "reason" => "another reason".to_owned(),
        "longer" => "a longer delay".to_owned(),
        "shorter" => "a shorter delay".to_owned(),
        other => other.to_owned(),
    }
}

fn numbers(title: &str, numbers: Option<&Value>) -> Markup {
    let rows: Vec<_> = numbers
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .take(ROWS)
        .collect();
    html! {
        @if !rows.is_empty() {
            p { strong { (title) } ": " @for (what, number) in rows { (shown(what)) " " (count(number.as_u64().unwrap_or_default())) "; " } }
        }
    }
}

fn delays(report: &Value) -> Markup {
    let of = |side: &str, what: &str| {
        let value = report.pointer(&format!("/{side}/{what}"));
        value.and_then(Value::as_u64)
    };
    let row = |title: &str, side: &str| {
        html! {
            tr {
                td { (title) }
                td .number { (count(of(side, "records").unwrap_or_default())) }
                @for what in ["median", "p90", "longest"] {
                    td .number { (of(side, what).map_or_else(|| "–".to_owned(), duration)) }
                }
            }
        }
    };
    html! {
        (scrolling("Retries and their delays", html! { table {
            thead { tr { th { "Retries" } th .number { "How many" } th .number { "Median" } th .number { "9 of 10" } th .number { "Longest" } } }
            tbody { (row("before", "old-delays")) (row("now", "new-delays")) }
        } }))
        p .hint { "Each retry is one more request to the worker." }
    }
}

/// The way to a survey that asks this policy.
fn letters(view: &View<'_>, (host, id): (&str, &str), question: &Question) -> Markup {
    let reason = view.may_not_act();
    let act = json!({ "action": "survey", "queue": question.queue, "host": host, "what-if": id });
    let done = link(
        "/dead-letters",
        &[("queue", &question.queue), ("grouped-by", "answer")],
    );
    html! {
        p { "A survey receives every dead letter once, and asks this policy what it would do with it." }
        form data-act=(act.to_string()) data-done=(done) {
            button disabled[reason.is_some()] { "Survey the dead letters with it" }
            output role="status" {}
        }
        @if let Some(reason) = reason { p .hint { (reason) } }
    }
}
