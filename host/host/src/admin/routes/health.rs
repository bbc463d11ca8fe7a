//! `/livez` and `/readyz`: the probes of Kubernetes and of load balancers.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;

/// Whether the host answers at all.
pub(super) async fn live(_: Arc<Interface>, _: Call) -> Result<Answer, Refused> {
    Answer::json(&json!({ "live": true }))
}

/// Whether all queues are checked and polled, and the host is not stopping; if not, why. A probe may add parameters, such as `?verbose`.
pub(super) async fn ready(host: Arc<Interface>, _: Call) -> Result<Answer, Refused> {
    let (mut reasons, mut paused) = (Vec::new(), Vec::new());
    match host.queues() {
        Err(starting) => reasons.push(starting.to_string()),
        Ok(queues) => {
            if host.is_stopping() {
                reasons.push("the host is stopping".to_owned());
            }
            // The operator wants it so: the host is ready to go on.
            paused.extend(queues.iter().filter_map(|queue| {
                let pause = queue.controls.as_ref()?.pause_text()?;
                Some(format!("queue `{}` {pause}", queue.name))
            }));
            reasons.extend(queues.iter().filter_map(|queue| {
                let reason = queue.polling.problem()?;
                Some(format!("queue `{}` {reason}", queue.name))
            }));
        }
    }
    let answer = Answer::json(
        &json!({ "ready": reasons.is_empty(), "reasons": reasons, "paused": paused }),
    )?;
    Ok(if reasons.is_empty() {
        answer
    } else {
        answer.with_status(StatusCode::SERVICE_UNAVAILABLE)
    })
}
