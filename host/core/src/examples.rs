//! Failures to test a policy with: ordinary, extreme, unusual and as large as possible.

use std::num::NonZeroU32;

use crate::decision::LONGEST_DELAY;
use crate::failure::{
    ATTRIBUTE_BYTES, DETAIL_BYTES, Error, Failure, ID_BYTES, MESSAGE_BYTES, Milliseconds, PAIRS,
    SOURCE_BYTES, Timestamp,
};
use crate::text::cut;

/// The most ordinary failure: the service was unavailable at the first attempt.
pub fn ordinary_failure() -> Failure {
    Failure {
        message_id: "probe".to_owned(),
        source: "local:probe".to_owned(),
        attempt: NonZeroU32::MIN,
        age: Milliseconds(1_000),
        failed_at: Timestamp::OF_TESTS,
        previous_delay: None,
        error: Error {
            status: Some(503),
            ..Error::new("HTTP 503", "service unavailable")
        },
        attributes: Vec::new(),
        random: 0.5,
    }
}

/// The largest possible failure. Whatever a sender puts into a message, no policy receives a larger one.
fn largest_failure() -> Failure {
    let text = |of: &str, bytes: usize| -> String {
        let mut text = of.repeat(bytes / of.len() + 1);
        cut(&mut text, bytes);
        text
    };
    let pairs = |bytes: usize| -> Vec<_> {
        let pair = |number: usize| {
            let name = format!("x-{number:04}");
            // Text that some languages have to widen, and others to unescape.
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

/// Ordinary, extreme and unusual failures, and the largest possible one.
pub fn failures() -> [Failure; 7] {
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
    fn the_largest_failure_reaches_every_limit() {
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
