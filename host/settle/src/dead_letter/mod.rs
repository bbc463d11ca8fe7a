//! Dead letters: the message unchanged, with the reason in additional attributes.

mod queue;

use crate::failure::{Error, Failure, Timestamp};
use crate::queue::{Attribute, Description, MAX_ATTRIBUTES, Message, Outgoing, is_allowed};
use crate::text::cut;
use backstop_decider::{Decided, DecidedFailure};
use backstop_queue::dead_letter::{ATTRIBUTES, is_ours};

pub(crate) use queue::DeadLetterQueues;
pub use queue::{DeadLetterQueue, Find, known};

/// The longest value of one of these attributes, in characters.
const VALUE_CHARACTERS: usize = 1_000;

/// Why a message is dead-lettered, and what identifies it.
#[derive(Debug, Clone, Copy)]
pub struct Cause<'a> {
    /// The reason, for people.
    pub reason: &'a str,
    /// Identifies the message in all of its attempts.
    pub id: &'a str,
    /// When it was first sent or, if that is unknown, when its first attempt failed.
    pub first_sent: Timestamp,
    /// The ARN of the queue that it leaves.
    pub source: &'a str,
    /// The failure and the decision; `None` if no policy was evaluated.
    pub decided: DecidedFailure<'a>,
}

impl Cause<'_> {
    /// The class of the last failure, if a policy was evaluated.
    pub fn class(&self) -> Option<String> {
        let (_, decided) = self.decided?;
        Some(decided.decision.class.to_string())
    }
}

/// The dead letter of a message: its body, the sender's attributes, and as many of [`ATTRIBUTES`] as the dead-letter queue's size limit allows.
pub fn dead_letter(message: &Message, cause: &Cause<'_>, queue: &Description) -> Outgoing {
    // A message that was redriven keeps its original values.
    let original =
        |name: &str, now: Attribute| message.attributes.get(name).cloned().unwrap_or(now);
    let of_decision = |value: fn(&Failure, &Decided) -> Attribute| {
        let (failure, decided) = cause.decided?;
        Some(value(failure, decided))
    };
    let string = |value: &str| Attribute::string(text(value));
    let first_sent = Attribute::number(cause.first_sent.0);
    let error = cause.decided.map(|(failure, _)| &failure.error);
    let values = [
        Some(string(cause.reason)),
        Some(original("BackstopMessageId", string(cause.id))),
        of_decision(|failure, _| Attribute::number(failure.attempt)),
        of_decision(|_, decided| Attribute::string(text(&decided.decision.class.to_string()))),
        of_decision(|failure, _| Attribute::string(text(&failure.error.to_string()))),
        Some(original("BackstopFirstSent", first_sent)),
        // Not of the type that is cut: a part of an ARN names nothing.
        Some(Attribute::Text {
            data_type: "String.arn".to_owned(),
            value: text(cause.source),
        }),
        error.and_then(status),
        backstop_traces::current().map(|attempt| string(&attempt.context.to_string())),
        of_decision(|_, decided| Attribute::string(text(&decided.policy))),
        error.and_then(|error| Some(Attribute::number(error.retry_after?.0))),
    ];
    // The other attributes of the earlier dead letter are out of date.
    let mut attributes = message.attributes.clone();
    attributes.retain(|name, _| !is_ours(name));
    // A FIFO queue requires a group; a standard queue uses groups for fairness.
    let own_id = || queue.fifo.then(|| message.id.clone());
    let mut letter = Outgoing {
        body: message.body.clone(),
        attributes,
        group: message.group.clone().or_else(own_id),
        deduplication_id: own_id(),
        trace_header: message.trace_header.clone(),
        delay: None,
    };
    for (name, value) in ATTRIBUTES.into_iter().zip(values) {
        let Some(value) = value else { continue };
        let bytes_left = queue
            .max_message_bytes
            .saturating_sub(letter.size() + name.len());
        if letter.attributes.len() < MAX_ATTRIBUTES
            && let Some(value) = within(value, bytes_left)
        {
            letter.attributes.insert(name.to_owned(), value);
        }
    }
    letter
}

/// The HTTP status of an error; 0 if it had none. `None` if its code says it, as `HTTP 503` does.
fn status(error: &Error) -> Option<Attribute> {
    let status = error.status.unwrap_or(0);
    let is_said = error.code.strip_prefix("HTTP ") == Some(status.to_string().as_str());
    (!is_said).then(|| Attribute::number(status))
}

/// The value in at most `bytes_left` bytes. A text is cut, but not to nothing.
fn within(mut value: Attribute, bytes_left: usize) -> Option<Attribute> {
    let over = value.size().saturating_sub(bytes_left);
    if let Attribute::Text { data_type, value } = &mut value
        && data_type == "String"
        && value.len() > over
    {
        let most = value.len() - over;
        cut(value, most);
    }
    let is_empty = value.to_text().is_empty();
    (value.size() <= bytes_left && !is_empty).then_some(value)
}

/// A text that SQS accepts as the value of an attribute: not empty, not too long, without forbidden characters.
fn text(value: &str) -> String {
    let value: String = value
        .chars()
        .map(|c| if is_allowed(c) { c } else { '\u{fffd}' })
        .take(VALUE_CHARACTERS)
        .collect();
    if value.is_empty() {
        "-".to_owned()
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Action, DecidedBy, Decision, ErrorClass};
    use crate::failure::Milliseconds;
    use crate::queue::VisibilityTimeout;
    use crate::queue::ordinary_message;
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    fn message(body: &str, attributes: usize) -> Message {
        Message {
            body: body.into(),
            attributes: (0..attributes)
                .map(|i| (format!("a{i}"), Attribute::string("x")))
                .collect(),
            trace_header: Some("Root=1".to_owned()),
            ..ordinary_message()
        }
    }

    fn queue(fifo: bool, max_message_bytes: usize) -> Description {
        Description {
            arn: "local:dead".to_owned(),
            fifo,
            visibility_timeout: VisibilityTimeout::MAX,
            retention: Milliseconds(0),
            max_message_bytes,
            visible: None,
            in_flight: None,
            redrive: None,
            delay: Milliseconds(0),
            delayed: None,
            access_policy: None,
        }
    }

    fn letter(message: &Message, reason: &str, queue: &Description) -> Outgoing {
        let error = Error::new("HTTP 404", "no such order");
        let status = Some(404);
        letter_of(message, reason, queue, error.status(status))
    }

    fn letter_of(message: &Message, reason: &str, queue: &Description, error: Error) -> Outgoing {
        let failure = Failure {
            message_id: message.id.clone(),
            source: "local:q".to_owned(),
            attempt: NonZeroU32::MIN,
            age: Milliseconds(5),
            failed_at: Timestamp(3_000),
            previous_delay: None,
            error,
            attributes: Vec::new(),
            random: 0.0,
        };
        let decision = Decision {
            class: ErrorClass::Permanent,
            action: Action::DeadLetter {
                reason: reason.to_owned(),
            },
            decided_by: DecidedBy::Policy,
            hold: Default::default(),
            down_for: None,
        };
        let decided = Decided {
            decision,
            policy: "sha256:00".to_owned(),
            payload: None,
        };
        let cause = Cause {
            reason,
            id: &message.id,
            first_sent: message.sent,
            source: "local:q",
            decided: Some((&failure, &decided)),
        };
        dead_letter(message, &cause, queue)
    }

    #[test]
    fn a_dead_letter_has_its_reason_next_to_the_senders_attributes() {
        let letter = letter(
            &message("body", 1),
            "permanent: HTTP 404",
            &queue(false, 1 << 20),
        );
        assert_eq!(
            (letter.body.as_ref(), letter.trace_header.as_deref()),
            ("body", Some("Root=1"))
        );
        let texts: Vec<_> = letter
            .attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_text()))
            .collect();
        let expected = [
            ("BackstopAttempt", "1"),
            ("BackstopClass", "permanent"),
            ("BackstopError", "HTTP 404: no such order"),
            ("BackstopFirstSent", "1000"),
            ("BackstopMessageId", "m-1"),
            ("BackstopPolicy", "sha256:00"),
            ("BackstopReason", "permanent: HTTP 404"),
            ("BackstopSource", "local:q"),
            ("a0", "x"),
        ];
        assert_eq!(
            texts,
            expected.map(|(name, value)| (name, value.to_owned()))
        );
    }

    #[test]
    fn the_senders_attributes_take_precedence() {
        for (theirs, ours) in [(0, 8), (2, 8), (3, 7), (6, 4), (9, 1), (10, 0)] {
            let letter = letter(&message("body", theirs), "because", &queue(false, 1 << 20));
            assert_eq!(letter.attributes.len(), theirs + ours);
            assert_eq!(letter.attributes.contains_key("BackstopReason"), ours > 0);
        }
    }

    #[test]
    fn a_dead_letter_says_the_status_that_its_code_does_not() {
        let error = |code: &str, status, retry_after: Option<u32>| {
            Error::new(code, "text")
                .status(status)
                .retry_after(retry_after.map(Milliseconds))
        };
        for (error, status, retry_after) in [
            (error("OutOfStock", Some(422), None), Some("422"), None),
            (error("OutOfStock", None, None), Some("0"), None),
            (
                error("HTTP 503", Some(503), Some(1_500)),
                None,
                Some("1500"),
            ),
            (error("HTTP 503", Some(500), None), Some("500"), None),
        ] {
            let code = error.code.clone();
            // One of the sender's leaves space for all that is said.
            for theirs in [0, 1] {
                let queue = queue(false, 1 << 20);
                let letter = letter_of(&message("body", theirs), "r", &queue, error.clone());
                let text = |name: &str| letter.attributes.get(name).map(Attribute::to_text);
                assert_eq!(text("BackstopStatus").as_deref(), status, "{code}");
                assert_eq!(text("BackstopRetryAfter").as_deref(), retry_after, "{code}");
                assert!(text("BackstopPolicy").is_some(), "{code}");
            }
        }
        // A message that was redriven does not keep those of its earlier death.
        let mut again = message("body", 0);
        let old = ("BackstopRetryAfter".to_owned(), Attribute::number(7_u32));
        again.attributes.extend([old]);
        let letter = letter(&again, "r", &queue(false, 1 << 20));
        assert!(!letter.attributes.contains_key("BackstopRetryAfter"));
    }

    #[test]
    fn a_reason_is_cut_to_the_bytes_that_a_large_message_leaves() {
        for (bytes_left, expected) in [
            (40, Some("because it is so")),
            (24, Some("beca")),
            (20, None),
        ] {
            let body = "x".repeat((1 << 20) - bytes_left);
            let letter = letter(
                &message(&body, 0),
                "because it is so",
                &queue(false, 1 << 20),
            );
            let reason = letter.attributes.get("BackstopReason");
            assert_eq!(
                reason.map(Attribute::to_text).as_deref(),
                expected,
                "{bytes_left}"
            );
        }
    }

    #[test]
    fn a_message_dead_lettered_again_keeps_its_first_id_and_time() {
        let mut again = message("body", 0);
        again
            .attributes
            .insert("BackstopMessageId".to_owned(), Attribute::string("m-0"));
        again
            .attributes
            .insert("BackstopFirstSent".to_owned(), Attribute::number(7));
        again
            .attributes
            .insert("BackstopReason".to_owned(), Attribute::string("old"));
        let letter = letter(&again, "new", &queue(false, 1 << 20));
        let text = |name: &str| letter.attributes.get(name).map(Attribute::to_text);
        assert_eq!(text("BackstopMessageId").as_deref(), Some("m-0"));
        assert_eq!(text("BackstopFirstSent").as_deref(), Some("7"));
        assert_eq!(text("BackstopReason").as_deref(), Some("new"));
    }

    #[test]
    fn a_dead_letter_keeps_its_group_and_has_the_ids_that_a_fifo_queue_requires() {
        let mut message = message("body", 0);
        let ids = |message: &Message, fifo| {
            let letter = letter(message, "x", &queue(fifo, 1 << 20));
            (letter.group, letter.deduplication_id)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(ids(&message, false), (None, None));
        assert_eq!(ids(&message, true), (some("m-1"), some("m-1")));
        message.group = some("tenant-7");
        assert_eq!(ids(&message, false), (some("tenant-7"), None));
        assert_eq!(ids(&message, true), (some("tenant-7"), some("m-1")));
    }

    proptest! {
        #[test]
        fn a_dead_letter_fits_whenever_its_message_does(
            body in "[a-z]{1,2000}", theirs in 0..=10_usize, reason in ".{1,1500}", spare in 0..600_usize,
        ) {
            let message = message(&body, theirs);
            let size = Outgoing { body: message.body.clone(), attributes: message.attributes.clone(), ..Outgoing::default() }.size();
            let limit = size + spare;
            let letter = letter(&message, &reason, &queue(false, limit));
            prop_assert!(letter.size() <= limit && letter.attributes.len() <= MAX_ATTRIBUTES);
            prop_assert!(letter.attributes.values().all(|value| value.to_text().chars().all(is_allowed)));
        }
    }
}
