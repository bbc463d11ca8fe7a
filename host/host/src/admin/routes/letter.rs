//! `GET /v1/dead-letters/ID`: a letter of a survey with its body.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::letters::LetterSample;

/// The letters with an id of which a survey of this host has kept the bodies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostLetter {
    /// Its process id.
    pub process: u32,
    /// The letters. None if a survey has not kept it, or there is none.
    pub letters: Vec<LetterSample>,
}

/// The letters with this id.
pub(super) async fn letter(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    Answer::json(&HostLetter {
        process: std::process::id(),
        letters: host.desk()?.letters(&call.variable),
    })
}
