//! The spans of a decision, and of the requests that settle a message. Each is a part of the attempt in whose scope it is made; without one there is none, as for a hop.

use backstop_traces::{Destination, Kind, Span, Start, Under};

use crate::decision::Action;
use crate::queue::SubmitError;
use backstop_decider::Decided;

/// Makes a request about a message in a span.
pub(crate) async fn in_span<T>(
    kind: Kind,
    at: &Destination,
    id: Option<&str>,
    request: impl Future<Output = Result<T, SubmitError>>,
) -> Result<T, SubmitError> {
    let span = Span::start(|| Start::new(kind, at, Under::Current));
    span.record(|attributes| {
        if let Some(id) = id {
            attributes.text("messaging.message.id", id);
        }
    });
    let result = request.await;
    if let Err(error) = &result {
        span.fail(error.code());
    }
    span.end();
    result
}

/// Decides in a span, which says what was decided.
pub async fn decided(at: &Destination, id: &str, decide: impl Future<Output = Decided>) -> Decided {
    let span = Span::start(|| Start::new(Kind::Decide, at, Under::Current));
    let decided = decide.await;
    span.record(|attributes| {
        let Decided {
            decision, policy, ..
        } = &decided;
        attributes.text("messaging.message.id", id);
        attributes.text("backstop.class", decision.class.to_string());
        attributes.text("backstop.verdict", decision.action.verdict().as_str());
        attributes.text("backstop.by", decision.decided_by.as_str());
        attributes.text("backstop.policy.digest", policy);
        match &decision.action {
            Action::Retry { delay } => {
                attributes.seconds("backstop.delay", delay.as_duration().as_secs_f64());
                attributes.text("backstop.hold", decision.hold.as_str());
            }
            Action::DeadLetter { reason } | Action::Discard { reason } => {
                attributes.text("backstop.reason", reason);
            }
        }
    });
    span.end();
    decided
}
