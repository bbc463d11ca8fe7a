//! The validation that every policy must pass before it is used: it is evaluated for a fixed set of failures ([`examples`]) under the limits of production.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_core::examples;
use backstop_core::failure::MESSAGE_BYTES;
use backstop_core::policy::LogLine;

use crate::instance::EvaluationError;
use crate::payload::Payload;
use crate::policy::Policy;

/// The most lines of the log in an error.
const LINES: usize = 12;

/// Why a policy does not pass validation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it {broken}{}", self.circumstances())]
pub struct ProbeError {
    /// The error.
    pub broken: EvaluationError,
    /// The lines that it logged before.
    pub log: Vec<LogLine>,
    /// The error code of the failure.
    pub code: String,
    /// The attempt of the failure.
    pub attempt: NonZeroU32,
}

impl ProbeError {
    /// Whether other settings may pass.
    pub fn is_about_settings(&self) -> bool {
        matches!(
            self.broken,
            EvaluationError::Settings(_) | EvaluationError::NoSettings(_)
        )
    }

    /// The failure and the log, which do not matter if it rejects its settings.
    fn circumstances(&self) -> String {
        if self.is_about_settings() {
            return String::new();
        }
        let attempt = self.attempt;
        let failure = match self.code.len() {
            MESSAGE_BYTES => ", evaluated for the largest failure that is possible".to_owned(),
            _ => format!(
                ", evaluated for attempt {attempt} with the error `{}`",
                self.code
            ),
        };
        let logged = self.log.iter().flat_map(|line| line.message.lines());
        let lines: Vec<_> = logged.filter(|line| !line.trim().is_empty()).collect();
        match lines.as_slice() {
            [] => failure,
            [line] => format!("{failure}; it logged: {line}"),
            lines => {
                // The message of a stack trace is at its top or, in Python, at its bottom.
                let (top, bottom) = lines.split_at(lines.len().saturating_sub(LINES / 2));
                let top = top.iter().take(LINES / 2);
                let shown: Vec<_> = top.chain(bottom).copied().collect();
                format!("{failure}; it logged:\n  {}", shown.join("\n  "))
            }
        }
    }
}

/// Evaluates the policy for every failure of the set, up to the first error.
pub fn run(policy: &Policy) -> Result<(), ProbeError> {
    let payload = Arc::new(Payload::new(r#"{"probe": true}"#));
    for failure in examples::failures() {
        let evaluation = policy.evaluate(&failure, &payload);
        if let Err(broken) = evaluation.answer {
            return Err(ProbeError {
                broken,
                log: evaluation.log,
                code: failure.error.code,
                attempt: failure.attempt,
            });
        }
    }
    Ok(())
}
