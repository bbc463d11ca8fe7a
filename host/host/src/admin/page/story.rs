//! The life of one message: what the files of all hosts tell, in its order. Each id that turns up leads to further steps.

use std::collections::{BTreeMap, BTreeSet};

use backstop_core::failure::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::fleet::{Missing, all_missing};
use super::layout::scrolling;
use super::text::{duration, link, shown, time};
use super::view::View;
use crate::admin::routes::HostStory;

/// The most ids for which all hosts are asked.
const MOST_ASKED: usize = 8;

/// The most steps that are shown.
const MOST_STEPS: usize = 500;

/// What a step says in other places.
const KNOWN: [&str; 7] = [
    "time",
    "at",
    "event",
    "queue",
    "message-id",
    "original-id",
    "received-as",
];

/// The life of a message.
#[derive(Debug, Default)]
pub(super) struct Story {
    ids: Vec<String>,
    /// Each step with the hosts that tell it.
    steps: Vec<(Value, Vec<String>)>,
    gaps: BTreeSet<String>,
    with_records: usize,
    pub(super) missing: Vec<Missing>,
}

impl Story {
    /// Asks all hosts, and asks again for the ids that turn up.
    pub(super) async fn of(view: &View<'_>, id: &str) -> Self {
        let mut story = Self::default();
        let (mut to_ask, mut asked) = (vec![id.to_owned()], BTreeSet::new());
        let mut steps = BTreeMap::<String, (Value, Vec<String>)>::new();
        while let Some(id) = to_ask.pop() {
            if asked.len() >= MOST_ASKED {
                story.gaps.insert(
                    "the message has more ids than all hosts are asked for: steps may be missing"
                        .to_owned(),
                );
                break;
            }
            let path = ["v1", "story", id.as_str()];
            let answers = view.fleet.get::<HostStory>(&view.by, &path, &[]).await;
            asked.insert(id.clone());
            story.missing = all_missing([std::mem::take(&mut story.missing), answers.missing]);
            let hosts = answers.of.len();
            story.with_records = answers.of.iter().filter(|(_, it)| it.has_records).count();
            for (host, told) in answers.of {
                story.gaps.extend(told.gaps);
                for id in told.ids {
                    // A single host has followed them itself.
                    if hosts > 1 && !asked.contains(&id) && !to_ask.contains(&id) {
                        to_ask.push(id.clone());
                    }
                    if !story.ids.contains(&id) {
                        story.ids.push(id);
                    }
                }
                for step in told.steps {
                    let (_, hosts) = steps.entry(same(&step)).or_insert((step, Vec::new()));
                    if !hosts.contains(&host) {
                        hosts.push(host.clone());
                    }
                }
            }
        }
        story.steps = steps.into_values().collect();
        story.steps.sort_by_key(|(step, _)| at(step));
        story
    }

    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether some host writes records, so that it can tell anything.
    pub(super) fn has_records(&self) -> bool {
        self.with_records > 0
    }

    pub(super) fn show(&self, view: &View<'_>) -> Markup {
        let left = self.steps.len().saturating_sub(MOST_STEPS);
        html! {
            section .card {
                h2 { "Its life" }
                @if self.ids.len() > 1 { p .hint { "Its ids, in their order: " @for id in &self.ids { code { (shown(id)) } " " } } }
                @for gap in &self.gaps { p .notice { (shown(gap)) } }
                @if left > 0 { p .notice { (left) " earlier steps are left out." } }
                (scrolling("The life of the message", html! { table {
                    thead { tr { th { "When" } th { "What" } th { "Of queue" } th { "Known to" } } }
                    tbody { @for (step, hosts) in self.steps.iter().skip(left) {
                        tr {
                            td { (time(at(step), view.now)) }
                            td .error { strong { (title(step)) } " " (words(step)) @if let Some(run) = text(step, "run") { " " a href=(link("/redrives", &[("run", run)])) { "the run" } } }
                            td { (text(step, "queue").map(shown).unwrap_or_default()) }
                            td { (hosts.join(", ")) }
                        }
                    } }
                } }))
            }
        }
    }
}

/// What a step says, without the place of its line: two hosts that share a file tell the same.
fn same(step: &Value) -> String {
    let mut step = step.clone();
    if let Some(step) = step.as_object_mut() {
        step.remove("at");
    }
    step.to_string()
}

fn at(step: &Value) -> Timestamp {
    Timestamp(step.get("time").and_then(Value::as_u64).unwrap_or_default())
}

fn text<'a>(step: &'a Value, name: &str) -> Option<&'a str> {
    step.get(name).and_then(Value::as_str)
}

/// What happened, in a few words.
fn title(step: &Value) -> String {
    let number = |name: &str| step.get(name).and_then(Value::as_u64);
    match text(step, "event").unwrap_or_default() {
        "decided" => format!("attempt {} failed", number("attempt").unwrap_or_default()),
        "succeeded" => match number("attempt") {
            Some(attempt) => format!("attempt {attempt} succeeded"),
            None => "succeeded".to_owned(),
        },
        other => shown(&other.replace('-', " ")),
    }
}

/// The rest of what a step says.
fn words(step: &Value) -> String {
    if text(step, "event") == Some("decided") {
        let delay = step.get("delay").and_then(Value::as_u64);
        let delay = delay.map(|delay| format!(" in {}", duration(delay)));
        return shown(&format!(
            "{}: {}, {}{}",
            text(step, "error").unwrap_or_default(),
            text(step, "class").unwrap_or_default(),
            text(step, "verdict").unwrap_or_default(),
            delay.unwrap_or_default()
        ));
    }
    let all = step.as_object().into_iter().flatten();
    let others = all.filter(|(name, _)| {
        !KNOWN.contains(&name.as_str()) && *name != "attempt" && *name != "run"
    });
    let words = others.map(|(name, value)| {
        let name = name.replace('-', " ");
        // A number of this size is a time: milliseconds since 1970.
        let time = value.as_u64().filter(|it| *it > 1_000_000_000_000);
        match (value.as_str(), time) {
            (Some(text), _) => format!("{name} {text}"),
            (None, Some(time)) => format!("{name} {}", Timestamp(time).rfc3339()),
            (None, None) => format!("{name} {value}"),
        }
    });
    shown(&words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_step_is_told_in_words_and_once() {
        let failed = json!({ "event": "decided", "time": 7, "at": "a.jsonl:1", "attempt": 2, "error": "HTTP 503: busy", "class": "transient", "verdict": "retry", "delay": 120_000 });
        assert_eq!(title(&failed), "attempt 2 failed");
        assert_eq!(words(&failed), "HTTP 503: busy: transient, retry in 2m");
        let mut other = failed.clone();
        other["at"] = json!("b.jsonl:9");
        assert_eq!(same(&failed), same(&other));
        let woken = json!({ "event": "woken", "time": 7, "at": "x", "queue": "q", "by": "wake", "due": 1_767_225_660_000_u64 });
        assert_eq!(
            (title(&woken), words(&woken)),
            (
                "woken".to_owned(),
                "by wake, due 2026-01-01T00:01:00Z".to_owned()
            )
        );
    }
}
