//! The preview of a wake: which messages at which hosts. The wake acts on those that the preview has counted, and on no others.

use std::num::NonZeroU32;

use backstop_core::failure::{Milliseconds, Timestamp};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::fleet::{DoneAt, Missing};
use super::layout::{scrolling, still};
use super::served::served;
use super::text::{count, link, parse_duration, shown};
use super::view::View;
use crate::admin::routes::HostAnswer;
use crate::waiting::{Filter, Reach, Woken};

/// The fields of the form that choose messages.
pub(super) const CHOICE: [&str; 5] = ["code", "class", "attempt", "id", "group"];

/// Which messages a wake reaches of those that match.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// It only counts.
    Counting,
    /// Those that had failed when a preview counted them.
    Preview(Timestamp),
}

/// The form that leads to the preview, with what is chosen.
pub(super) fn link_to_preview(view: &View<'_>, queue: &str) -> Markup {
    let is_chosen = CHOICE.iter().any(|field| view.value(field).is_some());
    html! {
        form method="get" action="/waiting/wake" .wake {
            input type="hidden" name="queue" value=(queue);
            @for field in CHOICE {
                @if let Some(value) = view.value(field) { input type="hidden" name=(field) value=(value); }
            }
            @if !is_chosen { label { input type="checkbox" name="all" value="yes" required; " all of them" } }
            label { "Spread over (0: at once)" input name="spread" value="0"; }
            button { "Preview a wake" }
        }
    }
}

pub(super) async fn preview(view: &View<'_>) -> Markup {
    let wrong = |why: &str| still(view, "/waiting", &[], html! { p .notice.bad { (why) } });
    let queue = view.value("queue");
    let (Some(queue), Ok(filter)) = (queue, filter(view)) else {
        return wrong(
            "Nothing is chosen: name a queue and a code, a class, an attempt from 1, an id or a group, or choose all.",
        );
    };
    let Some(spread) = parse_duration(view.value("spread").unwrap_or("0")) else {
        return wrong(
            "The time to spread over is no duration of at most 14 days: expected one such as 5m or 30s, or 0.",
        );
    };
    let (served, missing) = served(view).await;
    let Some(hosts) = served.get(queue) else {
        return still(
            view,
            "/waiting",
            &missing,
            html! { p .notice.bad { "No host that answers serves this queue." } },
        );
    };
    let body = wake_body(queue, &filter, spread, Until::Counting);
    let is_serving = |id: &str| hosts.iter().any(|(_, at)| at.host == id);
    let done = view.fleet.post(&view.by, &["v1", "wake"], |id| {
        is_serving(id).then(|| body.clone())
    });
    let (counted, lost) = counted(done.await, missing, HostAnswer::<Woken>::read);
    still(
        view,
        "/waiting",
        &lost,
        shown_preview(view, (queue, &filter, spread), &counted, &lost),
    )
}

/// What each host has counted, and those that have not.
pub(super) fn counted<T>(
    done: Vec<DoneAt>,
    missing: Vec<Missing>,
    read: impl Fn(Value) -> Result<T, String>,
) -> (Vec<(String, String, T)>, Vec<Missing>) {
    let (mut counted, mut lost) = (Vec::new(), missing);
    for DoneAt { host, id, answer } in done {
        match answer.and_then(&read) {
            Ok(result) => counted.push((host, id, result)),
            Err(why) => lost.push(Missing { host, why }),
        }
    }
    (counted, lost)
}

fn shown_preview(
    view: &View<'_>,
    (queue, filter, spread): (&str, &Filter, Milliseconds),
    counted: &[(String, String, Woken)],
    lost: &[Missing],
) -> Markup {
    let sum = |of: fn(&Woken) -> u64| counted.iter().map(|(.., it)| of(it)).sum::<u64>();
    let (total, sooner) = (sum(|it| it.matched), sum(|it| it.woken + it.resent));
    let not_remembered = sum(|it| it.not_remembered);
    let out = Reach::missing(counted.iter().map(|(.., it)| it.reach)).unwrap_or_default();
    let hosts: Map<String, Value> = counted
        .iter()
        .map(|(_, id, it)| (id.clone(), json!(it.as_of)))
        .collect();
    let is_all = filter.is_empty();
    let act = json!({
        "action": "wake", "queue": queue, "spread": spread, "as-of": hosts, "all": is_all,
        "filter": (!is_all).then_some(filter),
    });
    let reason = if !lost.is_empty() {
        Some("Not every host has answered: a wake would reach a part only.")
    } else if sooner == 0 {
        Some("None of them would come sooner.")
    } else {
        view.may_not_act()
    };
    html! {
        section .card {
            h2 { "Preview of a wake in " (shown(queue)) }
            p { "Chosen: " strong { (words(filter)) } "." }
            p {
                strong { (count(total)) } " messages match, and " strong { (count(sooner)) } " of them would come sooner, "
                @if spread.0 == 0 { "at once." } @else { "spread over " (spread) "." }
            }
            @if not_remembered > 0 { p .notice { (count(not_remembered)) " more wait and are not remembered one by one: they are not woken." } }
            @if out > 0 { p .notice { "About " (count(out)) " more messages are invisible and out of reach of these hosts." } }
            (scrolling("The preview by host", html! { table {
                thead { tr { th { "Host" } th .number { "Match" } th .number { "Come sooner" } th .number { "As soon anyway" } th .number { "Sent again, sooner" } } }
                tbody { @for (host, _, it) in counted {
                    tr { td { (shown(host)) } td .number { (count(it.matched)) } td .number { (count(it.woken)) } td .number { (count(it.as_soon)) } td .number { (count(it.resent)) } }
                } }
            } }))
            p .hint { "These are woken, and no message that fails after this preview. Messages that are sent again are woken at the end of their hop, also those that another host has sent." }
            form data-act=(act.to_string()) {
                button disabled[reason.is_some()] { "Wake these " (count(sooner)) " messages" }
                " " a href=(back(view, queue)) { "Back" }
                output role="status" {}
            }
            @if let Some(reason) = reason { p .hint { (reason) } }
        }
    }
}

fn back(view: &View<'_>, queue: &str) -> String {
    let chosen = CHOICE
        .into_iter()
        .filter_map(|field| Some((field, view.value(field)?)));
    let parameters: Vec<_> = std::iter::once(("queue", queue)).chain(chosen).collect();
    link("/waiting", &parameters)
}

/// What a filter chooses, in words.
fn words(filter: &Filter) -> String {
    let mut words = Vec::new();
    let mut add = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            words.push(format!("{name} {}", values.join(" or ")));
        }
    };
    let quoted = |texts: &[String]| texts.iter().map(|text| shown(text)).collect::<Vec<_>>();
    add("code", quoted(&filter.code));
    add("class", quoted(&filter.class));
    add(
        "attempt",
        filter.attempt.iter().map(ToString::to_string).collect(),
    );
    add("id", quoted(&filter.id));
    add("group", quoted(&filter.group));
    if words.is_empty() {
        "all messages that wait".to_owned()
    } else {
        words.join(", ")
    }
}

/// The filter that the address names. Nothing chooses nothing, and a field that is there and blank is a mistake.
fn filter(view: &View<'_>) -> Result<Filter, &'static str> {
    if CHOICE.iter().any(|field| view.is_blank(field)) {
        return Err("a field is blank");
    }
    let texts = |name| {
        view.value(name)
            .map(str::to_owned)
            .into_iter()
            .collect::<Vec<_>>()
    };
    let attempt = view.value("attempt").map(|text| text.parse::<NonZeroU32>());
    let attempt = attempt
        .transpose()
        .map_err(|_| "the attempt is no number from 1")?;
    let filter = Filter {
        code: texts("code"),
        class: texts("class"),
        attempt: attempt.into_iter().collect(),
        id: texts("id"),
        group: texts("group"),
        ..Filter::default()
    };
    let given = Some(filter).filter(|it| !it.is_empty());
    chosen(given, view.value("all") == Some("yes"))
}

/// Which messages are meant: those of a filter, or all, and not both.
pub(super) fn chosen(filter: Option<Filter>, all: bool) -> Result<Filter, &'static str> {
    match (filter, all) {
        (None, true) => Ok(Filter::default()),
        (Some(filter), false) if !filter.is_empty() => Ok(filter),
        (Some(_) | None, _) => Err(
            "nothing is chosen: expected a filter that chooses something, or `all`, and not both",
        ),
    }
}

/// The body of a wake.
pub(super) fn wake_body(queue: &str, filter: &Filter, spread: Milliseconds, until: Until) -> Value {
    let body = |name: &str, chosen: Value, dry_run: bool| json!({ "queue": queue, "spread": spread, "dry-run": dry_run, name: chosen });
    match until {
        Until::Counting if filter.is_empty() => body("all", true.into(), true),
        Until::Counting => body("filter", json!(filter), true),
        Until::Preview(as_of) => {
            let failed_until = Some(as_of);
            body(
                "filter",
                json!(Filter {
                    failed_until,
                    ..filter.clone()
                }),
                false,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_is_narrowed_to_what_its_preview_has_counted() {
        let at = Until::Preview(Timestamp(7));
        for filter in [
            Filter::default(),
            Filter {
                code: vec!["x".to_owned()],
                ..Filter::default()
            },
        ] {
            let body = wake_body("q", &filter, Milliseconds(0), at);
            assert_eq!(
                (&body["filter"]["failed-until"], &body["all"]),
                (&json!(7), &Value::Null)
            );
        }
        assert!(chosen(None, false).is_err() && chosen(Some(Filter::default()), false).is_err());
        assert!(chosen(Some(Filter::default()), true).is_err() && chosen(None, true).is_ok());
    }
}
