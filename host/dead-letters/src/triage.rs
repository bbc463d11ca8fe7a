//! The failure that a letter died of, rebuilt from the letter, to pass it to another policy.

use std::num::NonZeroU32;

use backstop_backoff::{Class, classify};
use backstop_core::failure::{Error, Failure, Milliseconds, random};
use backstop_queue::dead_letter::{ATTRIBUTES, DIED};
use serde::{Deserialize, Serialize};

use crate::letter::Letter;
use crate::origin::Origin;

/// Whether the attempts of a letter count in its next life: which attempt a policy is asked about, and which one follows a redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attempts {
    /// The one that failed last, as it was.
    Keep,
    /// The first one of a new life, as after a redrive that resets attempts.
    Reset,
}

impl Attempts {
    /// [`Keep`](Self::Keep) if they are to be kept.
    pub fn keep_if(is_kept: bool) -> Self {
        if is_kept { Self::Keep } else { Self::Reset }
    }
}

/// A failure, and what of it the letter does not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// The failure, as a host would pass it to a policy.
    pub failure: Failure,
    /// What the letter does not say, and what is assumed of it.
    pub unknown: Vec<&'static str>,
}

/// The failure that the letter died of. `None` if nobody has recorded its error and none is `assumed`.
///
/// The random number is derived from the message's id and the attempt, so it is the one of the failure itself.
///
/// ```
/// use backstop_queue::{Connections, Outgoing, Queue};
/// use backstop_core::failure::Error;
/// use backstop_dead_letters::{Attempts, Letter, rebuild};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dead = Connections::default().local.named("orders-dead");
/// dead.send(&[Outgoing::new("an order")]).await?;
/// let received = dead.receive(1, Default::default(), Default::default()).await?;
/// let letter = Letter::of(received[0].clone());
/// // Nobody knows its error.
/// assert_eq!(rebuild(&letter, Attempts::Keep, None), None);
/// let assumed = Error::new("HTTP 503", "");
/// let rebuilt = rebuild(&letter, Attempts::Keep, Some(&assumed)).ok_or("no failure")?;
/// assert_eq!(rebuilt.failure.error.code, "HTTP 503");
/// assert!(rebuilt.unknown.iter().any(|it| it.starts_with("the attempt")));
/// # Ok(())
/// # }
/// ```
pub fn rebuild(letter: &Letter, attempts: Attempts, assumed: Option<&Error>) -> Option<Rebuilt> {
    let mut unknown = Vec::new();
    let mut error = match (&letter.error, assumed) {
        (Some(error), _) => error.clone(),
        (None, Some(assumed)) => {
            unknown.push("the error: the one that was given is assumed");
            assumed.clone()
        }
        (None, None) => return None,
    };
    if letter.origin == Origin::Backstop {
        unknown.push(match error.retry_after {
            Some(_) => "the error's details: none are assumed",
            None => "the error's details and Retry-After: none are assumed",
        });
        if !letter.says_status && error.status.is_none() {
            error.status = status_of_class(letter, &error);
            unknown.push(match error.status {
                Some(_) => "the error's status: one of the class that it died of is assumed",
                None => "the error's status: none is assumed",
            });
        }
    }
    let attempt = match attempts {
        Attempts::Reset => NonZeroU32::MIN,
        Attempts::Keep => {
            // Only a first attempt has no delay before it.
            let attempt = letter.attempt.and_then(NonZeroU32::new);
            if attempt.is_none() {
                unknown.push("the attempt: the first is assumed");
            }
            let attempt = attempt.unwrap_or(NonZeroU32::MIN);
            if attempt > NonZeroU32::MIN {
                unknown.push("the delay before the last attempt: none is assumed");
            }
            attempt
        }
    };
    let failed_at = letter.last_alive();
    let age = match (letter.first_sent, letter.dead_since) {
        (Some(first), Some(died)) => died.since(first),
        (Some(first), None) => {
            unknown.push("the time of the failure: that of the first receive is assumed");
            failed_at.since(first)
        }
        (None, _) => {
            unknown.push("the age: zero is assumed");
            Default::default()
        }
    };
    if letter.source.is_none() {
        unknown.push("the source: an empty one is assumed");
    }
    let mut attributes = letter.message.attribute_texts();
    attributes.retain(|(name, _)| !ATTRIBUTES.contains(&name.as_str()) && name != DIED);
    let failure = Failure {
        random: random(&letter.original_id, attempt),
        message_id: letter.original_id.clone(),
        source: letter
            .source
            .as_ref()
            .map_or_else(String::new, |source| source.arn().to_owned()),
        attempt,
        age: Milliseconds::from_duration(age),
        failed_at,
        previous_delay: None,
        error: error.within_bounds(),
        attributes,
    };
    Some(Rebuilt { failure, unknown })
}

/// A status with which the error is of the class that the policy saw, if it is of another one without. The policy knew the status, and the letter does not say it.
fn status_of_class(letter: &Letter, error: &Error) -> Option<u16> {
    let (class, status) = match letter.class.as_deref()? {
        "permanent" => (Class::Permanent, 400),
        "throttled" => (Class::Throttled, 429),
        "transient" => (Class::Transient, 503),
        _ => return None,
    };
    let is_other = classify(&error.code, None) != class;
    (is_other && classify(&error.code, Some(status)) == class).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::letter::tests::letter;

    async fn rebuilt(more: &[(&str, &str)]) -> Rebuilt {
        let attributes = [("BackstopReason", "r"), ("BackstopError", "OutOfStock: x")];
        let letter = letter("b", &[&attributes[..], more].concat()).await;
        rebuild(&letter, Attempts::Keep, None).unwrap()
    }

    #[tokio::test]
    async fn the_policy_gets_the_status_that_it_saw_or_one_of_the_same_class() {
        let permanent = ("BackstopClass", "permanent");
        let throttled = ("BackstopClass", "throttled");
        let own = ("BackstopClass", "out-of-stock");
        for (attributes, status) in [
            (&[permanent, ("BackstopStatus", "422")][..], Some(422)),
            // It is said that there was none: the policy had a rule of its own.
            (&[permanent, ("BackstopStatus", "0")], None),
            (&[permanent], Some(400)),
            (&[throttled], Some(429)),
            (&[own], None),
            (&[("BackstopClass", "transient")], None),
            (&[], None),
            (&[permanent, ("BackstopStatus", "-7")], Some(400)),
        ] {
            let rebuilt = rebuilt(attributes).await;
            assert_eq!(rebuilt.failure.error.status, status, "{attributes:?}");
            let says = attributes.iter().any(|(_, it)| ["422", "0"].contains(it));
            let is_unknown = |it: &&str| it.starts_with("the error's status");
            let unknown = rebuilt.unknown.iter().any(is_unknown);
            assert_eq!(unknown, !says, "{attributes:?}");
        }
        let rebuilt = rebuilt(&[("BackstopRetryAfter", "1500")]).await;
        let retry_after = rebuilt.failure.error.retry_after;
        assert_eq!(retry_after, Some(Milliseconds(1_500)));
    }
}
