//! The preview of a run: which letters it would move and how, from the survey that was looked at.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::fleet::DoneAt;
use super::layout::still;
use super::text::{count, link, parse_duration, shown};
use super::view::View;
use crate::admin::routes::HostAnswer;
use crate::letters::Started;

/// The texts of the form that go into the request as they are.
const TEXTS: [&str; 7] = [
    "queue",
    "survey",
    "grouped-by",
    "only",
    "ramp",
    "rate",
    "stop-at",
];

pub(super) async fn preview(view: &View<'_>) -> Markup {
    let wrong = |why: &str| {
        let body = html! { p .notice.bad { (why) } p { a href=(back(view)) { "Back" } } };
        still(view, "/dead-letters", &[], body)
    };
    if let (Some("value"), Some(reason)) = (view.value("grouped-by"), view.may_see_bodies()) {
        return wrong(reason);
    }
    let Some(host) = view.value("host") else {
        return wrong("The address names no host: choose groups of a survey first.");
    };
    let body = match body(view) {
        Ok(body) => body,
        Err(why) => return wrong(why),
    };
    let counting = with(&body, "dry-run", true.into());
    let path = ["v1", "redrive"];
    let done = view
        .fleet
        .post(&view.by, &path, |id| (id == host).then(|| counting.clone()));
    let answer = match done.await.into_iter().next() {
        Some(DoneAt { answer, .. }) => answer,
        None => Err(
            "the host that has made the survey does not answer: look at the letters again"
                .to_owned(),
        ),
    };
    match answer.and_then(HostAnswer::<Started>::read) {
        Ok(started) => still(
            view,
            "/dead-letters",
            &[],
            shown_preview(view, host, &body, &started),
        ),
        Err(why) => wrong(&shown(&why)),
    }
}

/// The request that the form makes.
fn body(view: &View<'_>) -> Result<Value, &'static str> {
    let groups: Vec<_> = view.values("group").collect();
    if groups.is_empty() {
        return Err("Nothing is chosen: choose one group or more.");
    }
    let mut body = json!({ "groups": groups });
    for name in TEXTS {
        if let Some(value) = view.value(name) {
            body = with(&body, name, value.into());
        }
    }
    if let Some(text) = view.value("watch-for") {
        let watch = parse_duration(text).ok_or(
            "The time after which failing letters are looked for is no duration: expected one such as 1m or 30s.",
        )?;
        body = with(&body, "watch-for", watch.0.into());
    }
    if let Some(why) = view.value("why") {
        body = with(&body, "why", why.into());
    }
    if view.value("keep-copies").is_some() {
        body = with(&body, "keep-copies", true.into());
    }
    Ok(body)
}

fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    if let Some(object) = body.as_object_mut() {
        object.insert(name.to_owned(), value);
    }
    body
}

fn back(view: &View<'_>) -> String {
    let value = |name| view.value(name).unwrap_or_default();
    link(
        "/dead-letters",
        &[
            ("queue", value("queue")),
            ("grouped-by", value("grouped-by")),
        ],
    )
}

fn shown_preview(view: &View<'_>, host: &str, body: &Value, started: &Started) -> Markup {
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(shown);
    let reason = view.may_not_act();
    let act = json!({ "action": "redrive", "host": host, "request": body });
    html! {
        section .card {
            h2 { "Preview of a run for " (text("queue").unwrap_or_default()) }
            p { strong { (count(started.letters)) } " letters would be moved to " code { (shown(&started.to)) } ", where their attempts start again." }
            @if started.elsewhere > 0 { p .notice { (count(started.elsewhere)) " of the chosen ones come from elsewhere, and stay: " code { "backstop dlq redrive" } " moves them." } }
            @if started.moved_since { p .notice { "A run has moved letters since the survey: some of these may be gone. The run waits two minutes for letters that it can't find." } }
            @if started.asked != started.active { p .notice { strong { "Another version is active: " } (shown(&started.active)) ", and " (shown(&started.asked)) " was asked. The active one decides about what is moved back." } }
            dl .facts {
                dt { "From" } dd { code { (shown(&started.dead_letter_queue)) } }
                dt { "Steps" } dd { (text("ramp").unwrap_or_else(|| "all at once".to_owned())) }
                @if let Some(stop_at) = text("stop-at") { dt { "Stops if more fail again than" } dd { (stop_at) } }
                @else if text("ramp").is_some() { dt { "Stops if more fail again than" } dd { "5%" } }
                dt { "Looks for them after" } dd { @match body.get("watch-for").and_then(Value::as_u64) { Some(watch) => (super::text::duration(watch)), None if text("ramp").is_some() => "1m", None => "no time" } }
                dt { "Of the chosen groups" } dd { @if text("only").as_deref() == Some("retry") { "those that would be retried" } @else { "all letters" } }
                @if let Some(why) = text("why") { dt { "Why" } dd { (why) } }
                @if let Some(rate) = text("rate") { dt { "Rate, at most" } dd { (rate) } }
                dt { "Copies" } dd { @if body.get("keep-copies").is_some() { "each letter is written to a file of the run before it is sent" } @else { "none are kept" } }
            }
            p .hint { "These letters are moved, and no others. A letter that its queue does not accept stays where it is, and so does one that somebody else has taken meanwhile. The run can be stopped, and goes on after a stop or a kill where it was." }
            form data-act=(act.to_string()) data-done="/redrives" {
                button disabled[reason.is_some()] { "Move these " (count(started.letters)) " letters" }
                " " a href=(back(view)) { "Back" }
                output role="status" {}
            }
            @if let Some(reason) = reason { p .hint { (reason) } }
        }
    }
}
