//! What a shadow would have decided otherwise: counts over all hosts, and the last failures.

use maud::{Markup, html};

use super::layout::scrolling;
use super::served::At;
use super::text::{count, link, share, shown, time};
use super::view::View;
use crate::admin::routes::ShadowStatus;
use backstop_decider::shadow::Difference;

/// The most samples that are shown.
const MOST: usize = 20;

pub(super) fn view(view: &View<'_>, hosts: &[(String, At)]) -> Markup {
    let shadows = hosts
        .iter()
        .filter_map(|(host, at)| Some((host, at.status.shadow.as_ref()?)));
    let shadows: Vec<(&String, &ShadowStatus)> = shadows.collect();
    let sum = |of: fn(&ShadowStatus) -> u64| shadows.iter().map(|(_, it)| of(it)).sum::<u64>();
    let (agreed, differed) = (sum(|it| it.compared.agreed), sum(|it| it.compared.differed));
    let broken = sum(|it| it.compared.broken);
    let all = agreed + differed + broken;
    let mut samples: Vec<(&String, &Difference)> = shadows
        .iter()
        .flat_map(|(host, it)| {
            it.compared
                .differences
                .iter()
                .map(move |sample| (*host, sample))
        })
        .collect();
    samples.sort_by_key(|(_, it)| std::cmp::Reverse(it.time));
    samples.truncate(MOST);
    html! {
        @if let Some((_, first)) = shadows.first() {
            h3 { "The shadow " (shown(&first.title)) }
            @if shadows.iter().any(|(_, it)| it.title != first.title) { p .notice { "Hosts have other versions of the shadow, too, and these numbers are of all of them." } }
            p .hint { "Since the last swap of the policy or of the shadow, at each host." }
            dl .numbers {
                div { dt { "decided the same" } dd { (count(agreed)) " (" (share(agreed, all)) ")" } }
                div { dt { "decided otherwise" } dd { (count(differed)) " (" (share(differed, all)) ")" } }
                div .bad[broken > 0] { dt { "broke" } dd { (count(broken)) } }
                div { dt { "another verdict" } dd { (count(sum(|it| it.compared.differed_in_verdict))) } }
                div { dt { "another class" } dd { (count(sum(|it| it.compared.differed_in_class))) } }
                div { dt { "another delay" } dd { (count(sum(|it| it.compared.differed_in_delay))) } }
            }
            @if !samples.is_empty() {
                (scrolling("What the shadow decided otherwise", html! { table {
                    thead { tr { th { "When" } th { "Host" } th { "Failure" } th { "Decided" } th { "The shadow" } } }
                    tbody { @for (host, it) in samples { tr {
                        td { (time(it.time, view.now)) }
                        td { (shown(host)) }
                        td { a href=(link("/message", &[("id", &it.message_id)])) { (shown(&it.code)) } ", attempt " (it.attempt) }
                        td .error { (shown(&it.live)) }
                        td .error { (shown(&it.shadow)) }
                    } } }
                } }))
            }
        }
    }
}
