//! How a call ends without success, in one line.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::decision::{Action, DecidedBy, Decision, REASON_BYTES};
use crate::failure::{Error, Milliseconds};
use crate::text::{Escaping, head};

crate::names! {
    /// How a call of a program's retrier ended without success.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum End {
        /// The deadline came, or would have come before the next attempt.
        DeadlineExceeded = "deadline-exceeded",
        /// The policy allowed a retry, but the retry budget did not.
        BudgetExhausted = "budget-exhausted",
        /// The circuit breaker refused the attempt.
        BreakerOpen = "breaker-open",
        /// The attempt found no place in the bulkhead, and did not wait for one.
        BulkheadFull = "bulkhead-full",
        /// The policy says that every further attempt would fail.
        Permanent = "permanent",
        /// The policy, or the retrier's own limit of attempts, allows no further attempt.
        GaveUp = "gave-up",
    }
}

/// The state of a call at its end. Shown, it is one line without control characters, whatever the error's code: `gave up after 3 attempts: max-attempts of 3 reached: HTTP 503`
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the errors of the retrier document them")]
pub struct Ended<'a> {
    pub end: End,
    pub attempts: u32,
    pub description: Option<&'a Error>,
    pub decision: Option<&'a Decision>,
    pub refused_by: Option<&'a str>,
    pub next_probe: Option<Duration>,
    pub time_left: Option<Duration>,
}

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = self.attempts;
        let counted = Attempts(attempts);
        let refused_by = OneLine(self.refused_by.unwrap_or_default());
        match self.end {
            End::DeadlineExceeded if attempts == 0 => {
                return f.write_str("the deadline had passed before the first attempt");
            }
            End::DeadlineExceeded => {
                write!(f, "the deadline ended the call after {counted}")?;
                if let Some(wanted) = self.delay_wanted()
                    && let Some(left) = self.time_left
                    && !left.is_zero()
                {
                    let left = Milliseconds::from_duration(left);
                    write!(f, ", with {left} left and a delay of {wanted}")?;
                }
            }
            End::BudgetExhausted => {
                write!(f, "the retry budget is exhausted after {counted}")?;
            }
            End::BreakerOpen => {
                write!(f, "the breaker `{refused_by}` ")?;
                match self.next_probe {
                    Some(time) => {
                        let time = Milliseconds::from_duration(time);
                        write!(f, "is open, with the next probe in {time}, ")?;
                    }
                    None => f.write_str("lets only a few attempts through, ")?,
                }
                write!(f, "{}", Reached(attempts))?;
            }
            End::BulkheadFull => {
                let reached = Reached(attempts);
                write!(f, "the bulkhead `{refused_by}` is full, {reached}")?;
            }
            End::Permanent => write!(f, "permanent error after {counted}")?,
            End::GaveUp => {
                write!(f, "gave up after {counted}")?;
                if let Some(reason) = self.reason() {
                    return write!(f, ": {}", OneLine(reason));
                }
            }
        }
        match self.description {
            Some(error) => write!(f, ": {}", OneLine(&error.code)),
            None => Ok(()),
        }
    }
}

/// At most [`REASON_BYTES`] of a text from outside, escaped.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Write::write_str(&mut Escaping(f), head(self.0, REASON_BYTES))
    }
}

/// `1 attempt`, `2 attempts`
struct Attempts(u32);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} attempt{plural}", self.0)
    }
}

/// `before the first attempt`, `after 2 attempts`
struct Reached(u32);

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("before the first attempt"),
            attempts => write!(f, "after {}", Attempts(attempts)),
        }
    }
}

impl Ended<'_> {
    /// The delay that the policy wanted, before it was cut.
    fn delay_wanted(&self) -> Option<Milliseconds> {
        let decision = self.decision?;
        match (&decision.action, &decision.decided_by) {
            (Action::Retry { .. }, DecidedBy::Shortened(wanted)) => Some(*wanted),
            (Action::Retry { delay }, _) => Some(*delay),
            (Action::DeadLetter { .. } | Action::Discard { .. }, _) => None,
        }
    }

    fn reason(&self) -> Option<&str> {
        match &self.decision?.action {
            Action::DeadLetter { reason } | Action::Discard { reason } => Some(reason),
            Action::Retry { .. } => None,
        }
    }

    /// The last failure, with the call's end in its message: for a handler of a queue, a Lambda function, or a retrier around this one. Its details have `attempts` and `end`.
    ///
    /// The code is the one of the last failure, so that what is worth a retry there is worth one here. If there was no failure, it is `Timeout` since the deadline came before the first attempt, or `BreakerOpen` or `BulkheadFull` with the status 503. The next probe of a breaker is its `retry_after`, unless the last failure asked for more.
    pub fn as_failure(&self) -> Error {
        let mut last = self.description.cloned().unwrap_or_else(|| match self.end {
            End::BreakerOpen => refused("BreakerOpen"),
            End::BulkheadFull => refused("BulkheadFull"),
            End::DeadlineExceeded | End::BudgetExhausted | End::Permanent | End::GaveUp => {
                Error::new("Timeout", "")
            }
        });
        last.message = match last.message.as_str() {
            "" => self.to_string(),
            message => format!("{self}: {message}"),
        };
        let next_probe = self.next_probe.map(Milliseconds::from_duration);
        last.retry_after = last.retry_after.max(next_probe);
        let attempts = ("attempts", self.attempts.to_string());
        let end = ("end", self.end.to_string());
        last.details([attempts, end]).within_bounds()
    }
}

/// An attempt that was never made. Its status, which no server has sent, makes policies retry it that know only statuses, or the errors of AWS.
fn refused(code: &str) -> Error {
    Error::new(code, "").status(503)
}
