//! What every policy must stand before it is put to work: a fixed set of failures ([`examples`]) under the limits of production.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_core::examples;
use backstop_core::failure::MESSAGE_BYTES;

use crate::host::LogLine;
use crate::instance::EvaluationError;
use crate::payload::Payload;
use crate::policy::Policy;

/// How many of the lines that a policy wrote are told of its end.
const LINES: usize = 12;

/// How a policy did not stand the probe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it {broken}{}", self.circumstances())]
pub struct ProbeError {
    /// How it broke.
    pub broken: EvaluationError,
    /// What it wrote before.
    pub log: Vec<LogLine>,
    /// The error code of the failure that it broke on.
    pub code: String,
    /// The attempt of the failure that it broke on.
    pub attempt: NonZeroU32,
}

impl ProbeError {
    /// What it was asked and what it wrote; neither matters where it refuses its settings.
    fn circumstances(&self) -> String {
        if let EvaluationError::Settings(_) | EvaluationError::NoSettings(_) = self.broken {
            return String::new();
        }
        let attempt = self.attempt;
        let asked = match self.code.len() {
            MESSAGE_BYTES => ", asked about the largest failure that there can be".to_owned(),
            _ => format!(
                ", asked about attempt {attempt} with the error `{}`",
                self.code
            ),
        };
        let written = self.log.iter().flat_map(|line| line.message.lines());
        let lines: Vec<_> = written.filter(|line| !line.trim().is_empty()).collect();
        match lines.as_slice() {
            [] => asked,
            [line] => format!("{asked}; it wrote: {line}"),
            lines => {
                // A message is at the top of a trace, or, as Python has it, at the bottom.
                let (top, bottom) = lines.split_at(lines.len().saturating_sub(LINES / 2));
                let top = top.iter().take(LINES / 2);
                let told: Vec<_> = top.chain(bottom).copied().collect();
                format!("{asked}; it wrote:\n  {}", told.join("\n  "))
            }
        }
    }
}

/// Asks the policy about every failure of the set; the first that breaks it ends the probe.
pub fn run(policy: &Policy) -> Result<(), ProbeError> {
    let payload = Arc::new(Payload::new(r#"{"probe": true}"#));
    for failure in examples::failures() {
        let asked = policy.evaluate(&failure, &payload);
        if let Err(broken) = asked.answer {
            return Err(ProbeError {
                broken,
                log: asked.log,
                code: failure.error.code,
                attempt: failure.attempt,
            });
        }
    }
    Ok(())
}
