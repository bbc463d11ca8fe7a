//! A policy for messages that charge a card: the payment API's errors by its own codes, full jitter, and an end after so many attempts.

use backstop_policy::{
    Duration, Error, ErrorClass, Failure, Policy, Verdict, default_class, default_verdict, jitter,
};

/// The ceiling of the first delay, and of every delay, in milliseconds.
const BASE: u32 = 500;
const CAP: u32 = 3_600_000;

const DAY: Duration = Duration::from_secs(86_400);

/// How the payment service's failures are met.
pub struct Payments {
    attempts: u32,
}

impl Policy for Payments {
    fn configure(settings: &[(String, String)]) -> Result<Self, String> {
        let mut attempts = 8;
        for (name, value) in settings {
            match (name.as_str(), value.parse()) {
                ("attempts", Ok(number @ 1..)) if !value.starts_with('+') => attempts = number,
                ("attempts", _) => {
                    return Err(format!(
                        "setting `attempts` is `{value}`: expected a whole number from 1"
                    ));
                }
                _ => return Err(format!("unknown setting `{name}`: expected `attempts`")),
            }
        }
        Ok(Self { attempts })
    }

    /// The API's own codes; the host's default table for everything else.
    fn classify(&self, error: &Error) -> ErrorClass {
        match error.code.as_str() {
            "card_declined" | "expired_card" | "invalid_number" => ErrorClass::Permanent,
            "rate_limit" => ErrorClass::Throttled,
            "lock_timeout" => ErrorClass::Transient,
            "fraud_review" => ErrorClass::Other("review".to_owned()),
            _ => default_class(error),
        }
    }

    /// A review is a person's work: an hour. Everything else waits with full jitter, and no less than the API asks for, up to a day.
    fn delay(&self, failure: &Failure, class: &ErrorClass) -> Duration {
        let ceiling = jitter::exponential(BASE, CAP, failure.attempt);
        let delay = match class {
            ErrorClass::Other(_) => CAP,
            _ => jitter::full(0, ceiling, failure.random),
        };
        let asked_for = failure.error.asked_for().unwrap_or_default();
        Duration::from_millis(delay.into()).max(asked_for.min(DAY))
    }

    fn judge(&self, failure: &Failure, class: &ErrorClass) -> Verdict {
        match default_verdict(failure, class) {
            Verdict::Retry if failure.attempt >= self.attempts => {
                Verdict::DeadLetter(format!("not charged after {} attempts", failure.attempt))
            }
            verdict => verdict,
        }
    }
}

backstop_policy::export!(Payments);

/// Rust that needs no WebAssembly: `cargo test`. What the built policy answers is in scenarios.toml: `backstop policy test`.
#[cfg(test)]
mod tests {
    use super::*;
    use backstop_policy::testing::failure;

    #[test]
    fn a_busy_api_is_left_alone_for_as_long_as_it_asks() {
        let mut busy = failure("rate_limit");
        busy.error.retry_after = Some(30_000);
        let payments = Payments { attempts: 8 };
        let class = payments.classify(&busy.error);
        assert_eq!(class, ErrorClass::Throttled);
        assert_eq!(payments.delay(&busy, &class), Duration::from_secs(30));
    }
}
