//! What operators did: who, when, at which host, and with which outcome.

use maud::{Markup, html};

use super::fleet::Missing;
use super::layout::{page, scrolling};
use super::text::{Table, link, shown, time};
use super::view::View;
use crate::admin::audit::{Done, KEPT};
use crate::admin::routes::HostAudit;

/// The actions at all hosts, the newest first, of one queue if the address names one.
async fn actions(view: &View<'_>) -> (Vec<(String, Done)>, Vec<Missing>) {
    let answers = view
        .fleet
        .get::<HostAudit>(&view.by, &["v1", "audit"], &[])
        .await;
    let mut actions: Vec<_> = answers
        .of
        .into_iter()
        .flat_map(|(host, audit)| {
            audit
                .actions
                .into_iter()
                .map(move |done| (host.clone(), done))
        })
        .collect();
    if let Some(queue) = view.value("queue") {
        actions.retain(|(_, done)| done.queues.iter().any(|it| it == queue));
    }
    actions.sort_by_key(|(_, done)| std::cmp::Reverse(done.at));
    (actions, answers.missing)
}

pub(super) async fn view(view: &View<'_>) -> Markup {
    let (actions, missing) = actions(view).await;
    let queue = view.value("queue").unwrap_or_default();
    page(
        view,
        "/audit",
        &missing,
        html! {
            p .hint { "The last " (KEPT) " actions of each host since its start. The log has all of them." }
            form method="get" .filters role="search" {
                label { "Queue" input name="queue" value=(shown(queue)); }
                button { "Show" }
            }
            div #actions data-live {
                @if actions.is_empty() { p { "Nobody has done anything." } }
                @else {
                    (scrolling("Actions", html! { table {
                        thead { tr { th { "When" } th { "Host" } th { "What" } th { "Who" } th { "Request" } th { "Outcome" } } }
                        tbody {
                            @for (host, done) in &actions {
                                tr {
                                    td { (time(done.at, view.now)) }
                                    td { (shown(host)) }
                                    td { (shown(done.action.trim_start_matches("/v1/"))) }
                                    td { (shown(&done.by)) }
                                    td { code { (shown(&done.request)) } }
                                    td { (shown(&outcome(done))) }
                                }
                            }
                        }
                    } }))
                }
            }
            p { "Keep this table: "
                a href=(link("/audit", &[("queue", queue), ("format", "csv")])) { "CSV" } ", "
                a href=(link("/audit", &[("queue", queue), ("format", "json")])) { "JSON" } "."
            }
        },
    )
}

fn outcome(done: &Done) -> String {
    match (&done.result, &done.refused) {
        (Some(result), _) => result.clone(),
        (None, refused) => format!("refused: {}", refused.as_deref().unwrap_or_default()),
    }
}

/// The actions, as a file.
pub(super) async fn table(view: &View<'_>) -> (Table, Vec<Missing>) {
    let (actions, missing) = actions(view).await;
    let rows = actions.into_iter().map(|(host, done)| {
        let outcome = outcome(&done);
        vec![
            done.at.rfc3339(),
            host,
            done.action,
            done.by,
            done.request,
            outcome,
        ]
    });
    let table = Table {
        names: vec!["at", "host", "action", "by", "request", "outcome"],
        rows: rows.collect(),
    };
    (table, missing)
}
