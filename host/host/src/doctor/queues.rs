//! What is wrong with a queue by itself, whoever uses it: its delay and its access policy. Pure: makes no requests.

use backstop_backoff::format_duration;

use super::access::Access;
use super::{Findings, Severity};
use crate::failure::Milliseconds;
use crate::queue::Description;

/// Whether messages that arrive are visible at once.
pub(super) fn delay(queue: &Description) -> Option<String> {
    (queue.delay > Milliseconds(0)).then(|| {
        format!(
            "hides each message that is sent to it, or moved back to it, for {} (DelaySeconds), and an attempt comes so much later. Set its DelaySeconds to 0, unless that is meant",
            format_duration(queue.delay.0.into())
        )
    })
}

/// Whether strangers may use it.
pub(super) fn access(queue: &Description) -> Option<(Severity, String)> {
    match Access::of(queue.access_policy.as_deref()?) {
        Access::Limited => None,
        Access::Open(actions) => Some((
            Severity::Warning,
            format!(
                "lets everybody {} (its access policy has Principal \"*\" without a Condition that says who): work, attributes and envelopes can be forged. Name those who may in Principal, or add a Condition such as aws:SourceArn",
                actions.join(", ")
            ),
        )),
        Access::Unclear(why) => Some((
            Severity::Unknown,
            format!("not checked: whom its access policy admits, since {why}"),
        )),
    }
}

/// Adds what is wrong with the queue of a consumer, and nothing if it is in order.
pub(super) fn check(findings: &mut Findings, queue: &Description) {
    if let Some(text) = delay(queue) {
        findings.add(Severity::Warning, text);
    }
    if let Some((severity, text)) = access(queue) {
        findings.add(severity, text);
    }
}
