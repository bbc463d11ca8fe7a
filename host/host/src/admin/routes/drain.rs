//! `POST /v1/drain`: the host stops as at SIGTERM, and says what it has in hand.

use std::sync::Arc;

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;

use super::status;

/// Stops the host. What is in hand ends within the grace period, and the rest is returned.
pub(super) async fn drain(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let serde_json::Map { .. } = call.json()?;
    let answer = status::of(&host)?;
    if !host.begin_stop() {
        let text = "the host is starting, or is part of a program that stops by itself";
        return Err(Refused::unavailable(text));
    }
    Ok(Answer::json(&answer)?.with_result("stopping"))
}
