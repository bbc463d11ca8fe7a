//! Which hold a configuration uses, for waits that are given.

use super::*;
use crate::queue::{Connections, Redrive};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

async fn queue(name: &str) -> Description {
    let connections = Connections::default();
    let described = connections.by_url(name).await.describe().await;
    Description {
        retention: Milliseconds(4 * 86_400_000),
        ..described.unwrap()
    }
}

/// Messages that wait for this long in all.
fn waits(longest_delay: u64, of_messages: &[u64]) -> Waits {
    Waits {
        of_messages: of_messages.to_vec(),
        longest_delay,
        most_attempts: 12,
        unended_at: None,
    }
}

fn report(waiting: &Waiting, waits: &Waits, rate: &str) -> Finding {
    let mut findings = Findings::about("queue orders");
    waiting.report(&mut findings, waits.clone(), rate.parse().ok());
    assert_eq!(findings.found.len(), 1);
    findings.found.remove(0)
}

#[tokio::test]
async fn each_mode_is_judged_by_delay_retention_and_number() {
    let queue = queue("local:orders").await;
    use HoldMode::{Auto, Resend, Visibility};
    use Severity::{Good, Unknown, Warning};
    let short = waits(30_000, &[60_000]);
    let long = waits(13 * HOUR, &[13 * HOUR]);
    let kept = waits(HOUR, &[4 * DAY + 1]);
    let capped = waits(12 * HOUR, &[12 * HOUR]);
    for (mode, waits, rate, severity, hold, part) in [
        (
            Visibility,
            &capped,
            "",
            Good,
            Hold::Visibility,
            "visibility suffices",
        ),
        (
            Auto,
            &capped,
            "",
            Unknown,
            Hold::Resend,
            "invisible for 12h",
        ),
        (
            Visibility,
            &short,
            "",
            Good,
            Hold::Visibility,
            "visibility suffices",
        ),
        (
            Auto,
            &short,
            "",
            Good,
            Hold::Visibility,
            "From 100000 messages in flight on (if about 1666/s fail like this)",
        ),
        (
            Resend,
            &short,
            "",
            Unknown,
            Hold::Resend,
            "needs sqs:SendMessage",
        ),
        (
            Visibility,
            &short,
            "1666/s",
            Good,
            Hold::Visibility,
            "about 99960 messages",
        ),
        (
            Visibility,
            &short,
            "1999/s",
            Good,
            Hold::Visibility,
            "about 119940 messages",
        ),
        (
            Visibility,
            &short,
            "2000/s",
            Warning,
            Hold::Visibility,
            "SQS allows 120000 in flight",
        ),
        (
            Auto,
            &short,
            "1666/s",
            Good,
            Hold::Visibility,
            "visibility holds all of them",
        ),
        (
            Auto,
            &short,
            "1667/s",
            Unknown,
            Hold::Resend,
            "auto changes at 100000 in flight",
        ),
        (
            Visibility,
            &long,
            "",
            Warning,
            Hold::Visibility,
            "invisible for 12h). Set hold = \"auto\"",
        ),
        (
            Auto,
            &long,
            "1/h",
            Unknown,
            Hold::Resend,
            "needs sqs:SendMessage",
        ),
        (
            Visibility,
            &kept,
            "",
            Warning,
            Hold::Visibility,
            "keeps a message for 4d",
        ),
        (
            Auto,
            &kept,
            "",
            Unknown,
            Hold::Resend,
            "keeps a message for 4d",
        ),
    ] {
        let finding = report(&Waiting::in_queue(mode, &queue), waits, rate);
        assert!(finding.text.contains(part), "{part:?}: {}", finding.text);
        let forecast = finding.hold.unwrap();
        assert_eq!(
            (finding.severity, forecast.hold),
            (severity, hold),
            "{part}"
        );
        assert_eq!(
            forecast.visibility_suffices,
            severity == Good || mode == Resend
        );
    }
}

#[tokio::test]
async fn a_fifo_queue_has_no_other_hold() {
    let queue = queue("local:orders.fifo").await;
    let waiting = Waiting::in_queue(HoldMode::Auto, &queue);
    let found = report(&waiting, &waits(30_000, &[60_000]), "1999/s");
    assert_eq!(found.severity, Severity::Good);
    assert!(found.text.ends_with("visibility of a FIFO queue suffices"));
    let found = report(&waiting, &waits(30_000, &[60_000]), "2000/s");
    assert_eq!(found.severity, Severity::Warning);
    assert!(
        found.text.contains("use a standard queue"),
        "{}",
        found.text
    );
    assert_eq!(found.hold.unwrap().mode, HoldMode::Visibility);
}

#[tokio::test]
async fn in_a_retry_queue_only_one_delay_has_to_fit_the_retention() {
    let queue = queue("local:retries").await;
    let waiting = Waiting::in_retry_queue(HoldMode::Visibility, Some(&queue));
    let found = report(&waiting, &waits(3 * DAY, &[10 * DAY]), "10/h");
    assert_eq!(found.severity, Severity::Good, "{}", found.text);
    assert!(found.text.starts_with("at 10/h, about 2400 messages wait"));
    let found = report(&waiting, &waits(4 * DAY, &[10 * DAY]), "10/h");
    assert_eq!(found.severity, Severity::Warning);
    let part = "keeps a record for 3d23h45m of delay";
    assert!(found.text.contains(part), "{}", found.text);
}

#[tokio::test]
async fn retries_without_an_end_stop_at_the_retention() {
    let queue = Description {
        redrive: Some(Redrive {
            dead_letter_arn: "local:dead".to_owned(),
            max_receive_count: NonZeroU32::MIN,
        }),
        ..queue("local:orders").await
    };
    let endless = Waits {
        unended_at: NonZeroU32::new(999),
        ..waits(HOUR, &[10 * DAY])
    };
    let waiting = Waiting::in_queue(HoldMode::Visibility, &queue);
    let found = report(&waiting, &endless, "1/h");
    assert_eq!(found.severity, Severity::Good);
    let start = "at 1/h, about 96 messages wait at once, each for 4d in all, by delays of up to 1h each (it is still retried after 999 attempts)";
    assert!(found.text.starts_with(start), "{}", found.text);
    let receives = |mode| {
        let waiting = Waiting::in_queue(mode, &queue);
        waiting.scope(&Bounds::default()).max_receives
    };
    assert_eq!(receives(HoldMode::Auto), NonZeroU32::new(1));
    assert_eq!(receives(HoldMode::Resend), None);
}

#[tokio::test]
async fn attempts_that_need_every_receive_are_reported() {
    for (receives, mode, expected) in [
        (12, HoldMode::Auto, true),
        (12, HoldMode::Visibility, true),
        // A message that is sent again has new receives.
        (12, HoldMode::Resend, false),
        (13, HoldMode::Auto, false),
        // A start says that it is too few.
        (11, HoldMode::Auto, false),
    ] {
        let queue = Description {
            redrive: NonZeroU32::new(receives).map(|max_receive_count| Redrive {
                dead_letter_arn: "local:dead".to_owned(),
                max_receive_count,
            }),
            ..queue("local:orders").await
        };
        let found = Waiting::in_queue(mode, &queue).tight(&waits(1_000, &[1_000]));
        assert_eq!(found.is_some(), expected, "{receives}, {mode:?}");
        if let Some(text) = found {
            assert!(text.ends_with("well above, or lower max-attempts to 11"));
            super::super::documented::expect_row(Severity::Warning, &text);
        }
    }
}

#[tokio::test]
async fn a_policy_that_does_not_retry_needs_no_hold() {
    let queue = queue("local:orders").await;
    let waiting = Waiting::in_queue(HoldMode::Resend, &queue);
    let found = report(&waiting, &waits(0, &[0]), "10/s");
    assert_eq!((found.severity, found.hold), (Severity::Good, None));
}

#[tokio::test]
async fn retries_without_an_end_are_reported_unless_the_queue_ends_them() {
    let queue = queue("local:orders").await;
    let ended = waits(1_000, &[1_000]);
    let unended = Waits {
        unended_at: NonZeroU32::new(1_000),
        ..ended.clone()
    };
    let none = Bounds::default();
    let auto = Waiting::in_queue(HoldMode::Auto, &queue);
    let text = auto.endless(&none, &unended).unwrap();
    assert!(text.starts_with("nothing ends the retries"), "{text}");
    let text = auto.endless(&none, &ended).unwrap();
    assert!(text.starts_with("only the policy ends"), "{text}");
    for waits in [&ended, &unended] {
        let text = auto.endless(&none, waits).unwrap();
        super::super::documented::expect_row(Severity::Warning, text);
    }
    let resend = Waiting::in_queue(HoldMode::Resend, &queue);
    assert!(resend.endless(&none, &ended).is_some());
    // The retention ends them.
    let visibility = Waiting::in_queue(HoldMode::Visibility, &queue);
    assert_eq!(visibility.endless(&none, &unended), None);
    for bounds in [
        Bounds {
            max_attempts: NonZeroU32::new(3),
            ..none
        },
        Bounds {
            max_age: Some(Milliseconds(1)),
            ..none
        },
    ] {
        assert_eq!(auto.endless(&bounds, &unended), None, "{bounds:?}");
    }
    // So does SQS, except for messages that are sent again.
    let redriven = Description {
        redrive: Some(Redrive {
            dead_letter_arn: "local:dead".to_owned(),
            max_receive_count: NonZeroU32::new(5).unwrap(),
        }),
        ..queue.clone()
    };
    let auto = Waiting::in_queue(HoldMode::Auto, &redriven);
    assert_eq!(auto.endless(&none, &unended), None);
    let resend = Waiting::in_queue(HoldMode::Resend, &redriven);
    assert!(resend.endless(&none, &unended).is_some());
}
