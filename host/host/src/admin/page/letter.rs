//! One dead letter with its body, for those who may see bodies.

use maud::{Markup, html};

use super::layout::{scrolling, still};
use super::text::{link, shown, time};
use super::view::View;
use crate::admin::routes::HostLetter;
use crate::letters::LetterSample;

pub(super) async fn view(view: &View<'_>) -> Markup {
    let id = view.value("id").unwrap_or_default();
    if let Some(reason) = view.may_see_bodies() {
        let body = html! { p .notice.bad { (reason) } (life(id)) };
        return still(view, "/dead-letters", &[], body);
    }
    let path = ["v1", "dead-letters", id];
    let answers = view.fleet.get::<HostLetter>(&view.by, &path, &[]).await;
    let letters: Vec<_> = answers.of.iter().flat_map(|(_, it)| &it.letters).collect();
    let body = html! {
        @if letters.is_empty() {
            p .notice { "No survey has kept the body of this letter: a survey keeps three of each cause, and 300 in all. " code { "backstop dlq show" } " reads it from its queue." }
        }
        @for letter in letters { (shown_letter(view, letter)) }
        (life(id))
    };
    still(view, "/dead-letters", &answers.missing, body)
}

fn life(id: &str) -> Markup {
    html! { p { a href=(link("/message", &[("id", id)])) { "The life of its message" } } }
}

fn shown_letter(view: &View<'_>, letter: &LetterSample) -> Markup {
    let facts = [
        ("Queue", Some(letter.queue.clone())),
        ("Reason", letter.reason.clone()),
        ("Error", letter.error.clone()),
        ("Class", letter.class.clone()),
        ("Attempts", letter.attempt.map(|it| it.to_string())),
        ("Was in", letter.source.clone()),
        ("Decided by", letter.policy.clone()),
        ("The policy of the survey would", Some(letter.would.clone())),
    ];
    html! {
        section .card {
            h2 { (shown(&letter.id)) }
            dl .facts {
                dt { "Died" } dd { (time(letter.died, view.now)) }
                @for (name, value) in facts { @if let Some(value) = value { dt { (name) } dd { (shown(&value)) } } }
            }
            h3 { "Body" @if letter.is_cut { " (its first 16 KiB)" } }
            // Each line as it is, with every character that does not show as an escape.
            pre .body tabindex="0" aria-label="The body" { @for line in letter.body.lines() { (shown(line)) "\n" } }
            @if !letter.attributes.is_empty() {
                (scrolling("Attributes", html! { table {
                    thead { tr { th { "Attribute" } th { "Value" } } }
                    tbody { @for (name, value) in &letter.attributes { tr { td { (shown(name)) } td .error { (shown(value)) } } } }
                } }))
            }
        }
    }
}
