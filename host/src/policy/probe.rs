//! What every policy must stand before it is put to work: a fixed set of failures under the limits of production.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Broken, LogLine, Payload, Policy};
use crate::decision::LONGEST_DELAY;
use crate::failure::{
    ATTRIBUTE_BYTES, DETAIL_BYTES, Error, Failure, ID_BYTES, MESSAGE_BYTES, Milliseconds, PAIRS,
    SOURCE_BYTES, Timestamp,
};
use crate::text::cut;

/// How many of the lines that a policy wrote are told of its end.
const LINES: usize = 12;

/// How a policy did not stand the probe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it {broken}{}", self.circumstances())]
pub struct ProbeError {
    /// How it broke.
    pub broken: Broken,
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
        if let Broken::Settings(_) | Broken::NoSettings(_) = self.broken {
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
pub(crate) fn run(policy: &Policy) -> Result<(), ProbeError> {
    let payload = Arc::new(Payload::new(r#"{"probe": true}"#));
    for failure in failures() {
        let asked = policy.ask(&failure, &payload);
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

/// The most ordinary failure: a service that was away, at the first attempt.
pub(crate) fn ordinary_failure() -> Failure {
    Failure {
        message_id: "probe".to_owned(),
        source: "local:probe".to_owned(),
        attempt: NonZeroU32::MIN,
        age: Milliseconds(1_000),
        failed_at: Timestamp(1_767_225_600_000),
        previous_delay: None,
        error: Error {
            status: Some(503),
            ..Error::new("HTTP 503", "service unavailable")
        },
        attributes: Vec::new(),
        random: 0.5,
    }
}

/// The largest failure that there can be: whatever a sender puts into a message, no policy at work is told of a larger one.
fn largest_failure() -> Failure {
    let text = |of: &str, bytes: usize| -> String {
        let mut text = of.repeat(bytes / of.len() + 1);
        cut(&mut text, bytes);
        text
    };
    let pairs = |bytes: usize| -> Vec<_> {
        let pair = |number: usize| {
            let name = format!("x-{number:04}");
            // What one language has to widen, and another to unescape.
            let of = ["v", "é\n\""].get(number % 2).copied().unwrap_or("v");
            let value = text(of, bytes / PAIRS - name.len());
            (name, value)
        };
        (0..PAIRS).map(pair).collect()
    };
    Failure {
        message_id: text("probe", ID_BYTES),
        source: text("local:probe", SOURCE_BYTES),
        error: Error {
            status: Some(503),
            details: pairs(DETAIL_BYTES),
            ..Error::new(
                text("Code", MESSAGE_BYTES),
                text("service unavailable ", MESSAGE_BYTES),
            )
        },
        attributes: pairs(ATTRIBUTE_BYTES),
        ..ordinary_failure()
    }
}

/// The ordinary, the extreme, the odd and the largest.
pub(crate) fn failures() -> [Failure; 7] {
    let ordinary = ordinary_failure();
    let throttled = Error {
        status: Some(429),
        retry_after: Some(Milliseconds(30_000)),
        details: vec![("retry-after".to_owned(), "30".to_owned())],
        ..Error::new("ThrottlingException", "rate exceeded")
    };
    [
        Failure {
            attempt: NonZeroU32::MIN.saturating_add(4),
            previous_delay: Some(Milliseconds(8_000)),
            error: throttled,
            ..ordinary.clone()
        },
        Failure {
            error: Error {
                status: Some(400),
                ..Error::new("ValidationException", "no such field")
            },
            ..ordinary.clone()
        },
        Failure {
            error: Error::new("", ""),
            random: 0.0,
            ..ordinary.clone()
        },
        Failure {
            // The highest maxReceiveCount and the longest retention of SQS.
            attempt: NonZeroU32::MIN.saturating_add(999),
            age: LONGEST_DELAY,
            previous_delay: Some(LONGEST_DELAY),
            random: 1.0 - f64::EPSILON / 2.0,
            ..ordinary.clone()
        },
        Failure {
            error: Error::new("😀", "\u{0}é".repeat(1_000)),
            attributes: vec![("tenant".to_owned(), "é\n\"".to_owned()); 10],
            ..ordinary.clone()
        },
        largest_failure(),
        ordinary,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_failure_is_at_every_bound() {
        let failure = largest_failure();
        assert_eq!(*failure.within_bounds(), failure);
        assert_eq!(failure.message_id.len(), ID_BYTES);
        assert_eq!(failure.source.len(), SOURCE_BYTES);
        assert_eq!(failure.error.code.len(), MESSAGE_BYTES);
        assert_eq!(failure.error.message.len(), MESSAGE_BYTES);
        for (pairs, most) in [
            (&failure.error.details, DETAIL_BYTES),
            (&failure.attributes, ATTRIBUTE_BYTES),
        ] {
            let sizes = pairs.iter().map(|(name, value)| name.len() + value.len());
            let total: usize = sizes.sum();
            assert_eq!(pairs.len(), PAIRS);
            assert!((most - 4 * PAIRS..=most).contains(&total), "{total}");
        }
    }
}
