//! One message: its life as the records of the hosts tell it, and what they remember of it while it waits.

use backstop_core::failure::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::fleet::all_missing;
use super::layout::still;
use super::story::Story;
use super::text::{link, shown, time};
use super::view::View;
use crate::admin::routes::HostMessages;
use crate::waiting::MessageReport;

pub(super) async fn view(view: &View<'_>) -> Markup {
    let id = view.value("id");
    let (found, story, missing) = match id {
        Some(id) => {
            let path = ["v1", "messages", id];
            let answers = view.fleet.get::<HostMessages>(&view.by, &path, &[]);
            let (answers, mut story) = tokio::join!(answers, Story::of(view, id));
            let missing = all_missing([answers.missing, std::mem::take(&mut story.missing)]);
            (answers.of, story, missing)
        }
        None => (Vec::new(), Story::default(), Vec::new()),
    };
    let known: Vec<_> = found
        .iter()
        .filter(|(_, it)| !it.messages.is_empty())
        .collect();
    still(
        view,
        "/message",
        &missing,
        html! {
            form method="get" .filters role="search" {
                label { "Message id" input name="id" required size="40" value=[id.map(shown)]; }
                button { "Find" }
            }
            @if let Some(id) = id {
                p .copy { "For the whole story, with the decision records: " code #why { "backstop why " (quoted(id)) }
                    " " button type="button" data-copy="why" { "Copy" }
                }
                @if known.is_empty() && story.is_empty() {
                    p .notice { "No host that answers knows a message with this id." @if !story.has_records() { " They write no decision records to files, which would tell more: " code { "decisions.record" } "." } @else { " It has not failed, or it failed at a host that does not answer, or whose records are elsewhere: the command above reads archives and further records, too." } }
                } @else if known.is_empty() {
                    p { "It does not wait at a host that answers." }
                }
            }
            @if !story.is_empty() { (story.show(view)) }
            @for (host, answer) in known {
                @for message in &answer.messages { (report(view, host, message)) }
            }
        },
    )
}

/// An id as an argument of a shell.
fn quoted(id: &str) -> String {
    format!("'{}'", shown(id).replace('\'', "'\\''"))
}

fn report(view: &View<'_>, host: &str, message: &MessageReport) -> Markup {
    let at = |time: Timestamp| super::text::time(time, view.now);
    let today = serde_json::to_value(&message.today).unwrap_or_default();
    html! {
        section .card {
            h2 { (shown(&message.id)) }
            dl .facts {
                dt { "Queue" } dd { a href=(link("/waiting", &[("queue", &message.queue)])) { (shown(&message.queue)) } }
                dt { "Known to" } dd { (shown(host)) }
                dt { "Sent" } dd { (at(message.sent)) }
                dt { "Failed" } dd { (at(message.failed_at)) ", attempt " (message.attempt) ", received " (message.receives) " times" }
                dt { "Code" } dd { (shown(&message.code)) }
                dt { "Class" } dd { (shown(&message.class)) }
                @if !message.group.is_empty() { dt { "Group" } dd { (shown(&message.group)) } }
                @if let Some(error) = &message.error { dt { "Error" } dd .error { (shown(&error.message)) } }
                dt { "Decided by" } dd { (shown(&message.policy)) }
                dt { "Due" } dd { (at(message.due)) @if let Some(decided) = message.decided_due { ", made earlier: it was to be due " (time(decided, view.now)) } }
                dt { "Visible" } dd { (at(message.visible)) }
                dt { "The active version would decide" } dd { (decision(&today)) }
            }
            p { a href=(link("/waiting", &[("queue", &message.queue), ("id", &message.id)])) { "Wake this message" } }
        }
    }
}

fn decision(today: &Value) -> String {
    if let Some(text) = today.as_str() {
        return shown(text);
    }
    shown(&today.get("decision").unwrap_or(today).to_string())
}
