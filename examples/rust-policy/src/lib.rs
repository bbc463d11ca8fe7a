//! A policy for messages that charge a card: its own classification of the payment API's errors, full jitter, and an end after a setting's number of attempts.
//!
//! Build it with `cargo build --release --target wasm32-unknown-unknown -p rust-policy`, and name the file: `backstop run --policy target/wasm32-unknown-unknown/release/rust_policy.wasm --set attempts=6 …`.

use backstop_policy::{
    Duration, Error, ErrorClass, Failure, Policy, Verdict, default_class, default_verdict, jitter,
};

/// Waits of half a second at first, of an hour at most.
const BASE: u32 = 500;
const CAP: u32 = 3_600_000;

/// How the payment service's failures are met.
pub struct Payments {
    attempts: u32,
}

impl Policy for Payments {
    fn configure(settings: &[(String, String)]) -> Result<Self, String> {
        let mut attempts = 8;
        for (name, value) in settings {
            match (name.as_str(), value.parse()) {
                ("attempts", Ok(number @ 1..)) => attempts = number,
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

    /// The API's own codes; the default table for everything else.
    fn classify(&self, error: &Error) -> ErrorClass {
        match error.code.as_str() {
            "card_declined" | "expired_card" | "invalid_number" => ErrorClass::Permanent,
            "rate_limit" => ErrorClass::Throttled,
            "lock_timeout" => ErrorClass::Transient,
            "fraud_review" => ErrorClass::Other("review".to_owned()),
            _ => default_class(error),
        }
    }

    /// A review is a person's work: an hour. Everything else waits with full jitter.
    fn delay(&self, failure: &Failure, class: &ErrorClass) -> Duration {
        let delay = match class {
            ErrorClass::Other(_) => CAP,
            ErrorClass::Transient | ErrorClass::Throttled | ErrorClass::Permanent => jitter::full(
                0,
                jitter::exponential(BASE, CAP, failure.attempt),
                failure.random,
            ),
        };
        Duration::from_millis(delay.max(failure.error.retry_after.unwrap_or(0)).into())
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

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_policy::testing::failure;

    fn payments() -> Payments {
        Payments { attempts: 8 }
    }

    #[test]
    fn a_declined_card_is_dead_lettered_at_once() {
        let declined = failure("card_declined");
        let class = payments().classify(&declined.error);
        assert_eq!(
            payments().judge(&declined, &class),
            Verdict::DeadLetter("permanent: card_declined".to_owned())
        );
    }

    #[test]
    fn a_review_waits_for_an_hour_and_a_busy_api_for_as_long_as_it_asks() {
        let review = failure("fraud_review");
        let class = payments().classify(&review.error);
        assert_eq!(
            payments().delay(&review, &class),
            Duration::from_secs(3_600)
        );
        let mut busy = failure("rate_limit");
        busy.error.retry_after = Some(30_000);
        assert_eq!(
            payments().delay(&busy, &ErrorClass::Throttled),
            Duration::from_secs(30)
        );
    }

    #[test]
    fn the_last_attempt_is_the_one_that_is_set() {
        let settings = [("attempts".to_owned(), "3".to_owned())];
        let policy = Payments::configure(&settings).unwrap();
        for (attempt, verdict) in [
            (2, Verdict::Retry),
            (
                3,
                Verdict::DeadLetter("not charged after 3 attempts".to_owned()),
            ),
        ] {
            assert_eq!(
                policy.judge(
                    &Failure {
                        attempt,
                        ..failure("lock_timeout")
                    },
                    &ErrorClass::Transient
                ),
                verdict
            );
        }
        assert!(Payments::configure(&[("attempts".to_owned(), "0".to_owned())]).is_err());
    }
}
