//! How the messages of a queue will wait: how many at once, for how long, and which hold they need. Pure: makes no requests.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use backstop_backoff::format_duration;
use backstop_core::rate::Rate;
use serde::Serialize;

use super::{Finding, Findings, Severity};
use crate::decision::{Bounds, Hold};
use crate::failure::Milliseconds;
use crate::hold::{HIGH, HoldMode, LIMIT, longest_hold};
use crate::policy::Policy;
use crate::queue::{Description, LONGEST_VISIBILITY, VisibilityTimeout};

/// The load to check a configuration for.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// How many messages fail, if that is known.
    pub rate: Option<Rate>,
    /// Simulates messages that always fail.
    pub simulate: Simulate,
}

/// Simulates messages that always fail. The simulation is in the workbench, which this library does not depend on: the command passes it in.
pub type Simulate = fn(&Policy, &Scope) -> Waits;

/// Whose messages are simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The queue's ARN.
    pub source: String,
    /// The limits that hold whatever the policy decides.
    pub bounds: Bounds,
    /// How many receives of a message the queue allows, if that limits its attempts.
    pub max_receives: Option<NonZeroU32>,
}

/// How long messages wait that always fail. Durations are in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// For each message, all its delays together.
    pub of_messages: Vec<u64>,
    /// The longest delay of all.
    pub longest_delay: u64,
    /// The most attempts of a message that was given up.
    pub most_attempts: u64,
    /// The last attempt to which messages were followed, if some of them are retried even then.
    pub unended_at: Option<NonZeroU32>,
}

/// How the messages of a queue will wait, as numbers. Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct HoldForecast {
    /// The mode: `visibility` for a FIFO queue, whatever is configured.
    pub mode: HoldMode,
    /// How messages wait. In the mode `auto`, `resend` means those that can't wait by visibility.
    pub hold: Hold,
    /// Whether visibility suffices.
    pub visibility_suffices: bool,
    /// The number of simulated messages.
    pub simulated: usize,
    /// The longest delay.
    pub longest_delay: u64,
    /// The mean of all delays of a message together.
    pub mean_wait: u64,
    /// The longest of all delays of a message together.
    pub longest_wait: u64,
    /// How many messages fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many messages wait at once, at this rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// The rate from which too many messages wait for visibility alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility_up_to: Option<Rate>,
}

/// A queue, and how it can hold messages by visibility. Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    mode: HoldMode,
    is_fifo: bool,
    /// The longest delay.
    longest_delay: Option<u64>,
    /// The longest time for all delays of a message together.
    longest_wait: Option<u64>,
    max_receives: Option<NonZeroU32>,
    source: String,
}

impl Waiting {
    /// In a queue of a consumer.
    pub(super) fn in_queue(mode: HoldMode, queue: &Description) -> Self {
        let mode = mode.of(queue);
        let redrive = queue.redrive.as_ref();
        // A delay of 12 hours is cut by a minute, which matters to no policy; `auto` sends its message again.
        let longest_delay = match mode {
            HoldMode::Visibility => VisibilityTimeout::MAX.seconds() * 1_000,
            HoldMode::Auto | HoldMode::Resend => LONGEST_VISIBILITY.0,
        };
        Self {
            mode,
            is_fifo: queue.fifo,
            longest_delay: Some(longest_delay.into()),
            longest_wait: Some(queue.retention.0.into()),
            // Each message that is sent again has a receive count of its own.
            max_receives: redrive
                .filter(|_| mode != HoldMode::Resend)
                .map(|redrive| redrive.max_receive_count),
            source: queue.arn.clone(),
        }
    }

    /// In a retry queue. A record is received again before 12 hours are over, and each attempt has a record of its own: the retention limits one delay.
    pub(super) fn in_retry_queue(mode: HoldMode, queue: Option<&Description>) -> Self {
        Self {
            mode,
            is_fifo: false,
            longest_delay: queue.map(|queue| {
                let longest = longest_hold(queue.retention);
                Milliseconds::from_duration(longest).0.into()
            }),
            longest_wait: None,
            max_receives: None,
            source: queue.map_or_else(|| "retries".to_owned(), |queue| queue.arn.clone()),
        }
    }

    /// What to simulate.
    pub(super) fn scope(&self, bounds: &Bounds) -> Scope {
        Scope {
            source: self.source.clone(),
            bounds: Bounds {
                // The policy's own delays are simulated, and then compared with the retention.
                retention: None,
                ..*bounds
            },
            max_receives: self.max_receives,
        }
    }

    /// Whether nothing but the policy ends the retries of a message, or not even that. Under `visibility`, the queue's retention does.
    pub(super) fn endless(&self, bounds: &Bounds, waits: &Waits) -> Option<&'static str> {
        let has_end = bounds.max_attempts.is_some()
            || bounds.max_age.is_some()
            || self.max_receives.is_some()
            || self.mode == HoldMode::Visibility;
        if has_end {
            return None;
        }
        Some(match waits.unended_at {
            Some(_) => {
                "nothing ends the retries of a message that keeps failing: it is tried again forever. Set max-attempts or max-age (--max-attempts, --max-age)"
            }
            None => {
                "only the policy ends the retries of a message: while it is broken, and the fallback decides, or after a mistake in a new version, a message is tried again forever. Set max-attempts or max-age (--max-attempts, --max-age)"
            }
        })
    }

    /// Whether the attempts of a message need every receive that the queue allows, so that none is left for one without an attempt. If they need more, a start says so.
    pub(super) fn tight(&self, waits: &Waits) -> Option<String> {
        let receives = u64::from(self.max_receives?.get());
        (waits.most_attempts == receives).then(|| {
            let lower = match receives {
                1 => String::new(),
                _ => format!(", or lower max-attempts to {}", receives - 1),
            };
            format!(
                "SQS moves a message to the dead-letter queue after {receives} receives, and its attempts need all of them: a receive without an attempt, as when the worker or a host ends, costs the last one, and the dead letter has no reason. Set the queue's maxReceiveCount well above{lower}"
            )
        })
    }

    /// Adds what these waits mean for the queue.
    pub(super) fn report(&self, findings: &mut Findings, mut waits: Waits, rate: Option<Rate>) {
        if waits.longest_delay == 0 {
            findings.add(
                Severity::Good,
                "no message waits: the policy does not delay one that fails with HTTP 503",
            );
            return;
        }
        if self.mode == HoldMode::Visibility {
            let longest = self.longest_wait.unwrap_or(u64::MAX);
            // Retries that would never end do so at the queue's retention.
            if waits.unended_at.is_some() {
                for wait in &mut waits.of_messages {
                    *wait = longest.min(*wait);
                }
            }
        }
        let waiting = rate.map(|rate| rate.waiting(&waits.of_messages));
        let obstacles = self.obstacles(&waits, waiting);
        let (severity, text) = self.assess(&obstacles, &waits);
        let text = format!("{}: {text}", describe(&waits, rate.zip(waiting)));
        let hold = match self.mode {
            HoldMode::Visibility => Hold::Visibility,
            HoldMode::Resend => Hold::Resend,
            HoldMode::Auto if obstacles.is_empty() => Hold::Visibility,
            HoldMode::Auto => Hold::Resend,
        };
        let forecast = HoldForecast {
            mode: self.mode,
            hold,
            visibility_suffices: obstacles.is_empty(),
            simulated: waits.of_messages.len(),
            longest_delay: waits.longest_delay,
            mean_wait: mean(&waits.of_messages),
            longest_wait: longest(&waits.of_messages),
            rate,
            waiting,
            visibility_up_to: Rate::at(self.most_waiting(), &waits.of_messages),
        };
        findings.found.push(Finding {
            subject: findings.subject.clone(),
            severity,
            text,
            hold: Some(Box::new(forecast)),
        });
    }

    /// How many messages may wait by visibility at once.
    fn most_waiting(&self) -> u64 {
        let most = match self.mode {
            HoldMode::Auto => HIGH,
            HoldMode::Visibility | HoldMode::Resend => LIMIT,
        };
        most as u64
    }

    /// Why visibility does not suffice.
    fn obstacles(&self, waits: &Waits, waiting: Option<u64>) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(most) = self.longest_delay
            && waits.longest_delay > most
        {
            found.push(match self.longest_wait {
                Some(_) => "SQS keeps a message invisible for 12h".to_owned(),
                None => format!("the retry queue keeps a record for {} of delay", text(most)),
            });
        }
        if let Some(most) = self.longest_wait
            && longest(&waits.of_messages) > most
        {
            found.push(format!("the queue keeps a message for {}", text(most)));
        }
        if let Some(waiting) = waiting
            && waiting >= self.most_waiting()
        {
            found.push(match self.mode {
                HoldMode::Auto => format!("auto changes at {HIGH} in flight"),
                HoldMode::Visibility | HoldMode::Resend => {
                    format!("SQS allows {LIMIT} in flight")
                }
            });
        }
        found
    }

    fn assess(&self, obstacles: &[String], waits: &Waits) -> (Severity, String) {
        const NEEDS: &str = "This needs sqs:SendMessage on the queue, which can't be checked";
        let reasons = obstacles.join(", and ");
        match self.mode {
            HoldMode::Visibility if obstacles.is_empty() => {
                let why = if self.is_fifo { " of a FIFO queue" } else { "" };
                (Severity::Good, format!("visibility{why} suffices"))
            }
            HoldMode::Visibility if self.is_fifo => (
                Severity::Warning,
                format!(
                    "visibility does not suffice ({reasons}), and a FIFO queue has no other hold. Lower the policy's delays or max-age, or use a standard queue"
                ),
            ),
            HoldMode::Visibility => (
                Severity::Warning,
                format!(
                    "hold = \"visibility\" does not suffice ({reasons}). Set hold = \"auto\" (which needs envelope-key-file if idempotency has no key), or lower the policy's delays or max-age"
                ),
            ),
            HoldMode::Resend => (
                Severity::Unknown,
                format!("all are sent again, as hold = \"resend\" says. {NEEDS}"),
            ),
            HoldMode::Auto if obstacles.is_empty() => {
                let rate = Rate::at(self.most_waiting(), &waits.of_messages);
                let rate = rate.map(|rate| format!(" (if about {rate} fail like this)"));
                (
                    Severity::Good,
                    format!(
                        "visibility holds all of them. From {HIGH} messages in flight on{}, hold = \"auto\" sends further ones again instead, which needs sqs:SendMessage on the queue",
                        rate.unwrap_or_default()
                    ),
                )
            }
            HoldMode::Auto => (
                Severity::Unknown,
                format!(
                    "auto sends those again that can't wait by visibility ({reasons}). {NEEDS}"
                ),
            ),
        }
    }
}

/// The waits in words.
fn describe(waits: &Waits, load: Option<(Rate, u64)>) -> String {
    let (mean, most) = (mean(&waits.of_messages), longest(&waits.of_messages));
    let (mean, most) = (text(mean), text(most));
    let mean = if mean == most {
        format!("{mean} in all")
    } else {
        format!("{mean} in all on average, {most} at most")
    };
    let delay = text(waits.longest_delay);
    let mut words = match load {
        Some((rate, 1)) => format!(
            "at {rate}, about 1 message waits at once, for {mean}, by delays of up to {delay} each"
        ),
        Some((rate, waiting)) => format!(
            "at {rate}, about {waiting} messages wait at once, each for {mean}, by delays of up to {delay} each"
        ),
        None => format!(
            "a message that keeps failing waits for {mean}, by delays of up to {delay} each"
        ),
    };
    if let Some(attempts) = waits.unended_at {
        let _ = write!(words, " (it is still retried after {attempts} attempts)");
    }
    words
}

/// Rounded up.
fn mean(waits: &[u64]) -> u64 {
    let total: u64 = waits.iter().sum();
    total.div_ceil(waits.len().max(1) as u64)
}

fn longest(waits: &[u64]) -> u64 {
    waits.iter().copied().max().unwrap_or_default()
}

/// The duration, in whole seconds if it is longer than ten seconds.
fn text(milliseconds: u64) -> String {
    let is_long = milliseconds > 10_000;
    format_duration(if is_long {
        (milliseconds + 500) / 1_000 * 1_000
    } else {
        milliseconds
    })
}

#[cfg(test)]
#[path = "holds_tests.rs"]
mod tests;
