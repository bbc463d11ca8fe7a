//! Whether a queue, its dead-letter queue, the policy and the options match each other, from their attributes and from the policy's answers to made-up failures. Makes no requests.

use std::time::Duration;

use backstop_backoff::format_duration;

use super::{Fault, Ready, Warning, each_once};
use crate::consumer::{Options, longest_linger};
use crate::decision::{Action, Bounds, DecidedBy};
use crate::failure::{Failure, Milliseconds};
use crate::queue::{Description, VisibilityTimeout, short_name};
use backstop_core::examples::ordinary_failure;
use backstop_decider::Decider;

/// A heartbeat renews a visibility timeout after each third of it. With a shorter one than this, one slow request makes the message visible to other consumers.
const SHORT_VISIBILITY: Duration = Duration::from_secs(5);

/// Problems of the queues and of the options that depend on them.
pub(super) fn queues(ready: &Ready, options: &Options, queue: &str) -> Vec<Warning> {
    let here = &ready.description;
    let visibility = options
        .visibility_timeout
        .unwrap_or(here.visibility_timeout)
        .max(VisibilityTimeout::rounded_up(Duration::from_secs(1)));
    let short = visibility.as_duration() < SHORT_VISIBILITY;
    let short = short.then(|| Warning::Visibility {
        queue: queue.to_owned(),
        seconds: visibility.seconds(),
    });
    let longest = longest_linger(visibility);
    let lingers = (options.linger > longest).then(|| Warning::Linger {
        queue: queue.to_owned(),
        linger: text(Milliseconds::from_duration(options.linger)),
        longest: text(Milliseconds::from_duration(longest)),
    });
    let queues = ready.dead_letters.iter();
    let dead_letters: Vec<_> = queues
        .flat_map(|default| each_once(default, &ready.class_dead_letters))
        .collect();
    let forgets = dead_letters
        .iter()
        .filter(|(_, there)| there.retention < here.retention)
        .map(|(dead, there)| Warning::DeadLetterRetention {
            url: dead.url().to_owned(),
            retention: text(there.retention),
            queue: queue.to_owned(),
            own: text(here.retention),
        });
    let smaller = dead_letters
        .iter()
        .filter(|(_, there)| there.max_message_bytes < here.max_message_bytes)
        .map(|(dead, there)| Warning::MessageSize {
            queue: queue.to_owned(),
            most: here.max_message_bytes,
            dead_letters: short_name(dead.url()).to_owned(),
            less: there.max_message_bytes,
        });
    let own = [short, lingers].into_iter().flatten();
    own.chain(forgets).chain(smaller).collect()
}

/// Whether an attempt may take longer than a shutdown waits for it, if either is not the default.
pub(crate) fn grace(options: &Options, queue: &str) -> Option<Warning> {
    let default = Options::default();
    let is_chosen =
        options.attempt_timeout != default.attempt_timeout || options.grace != default.grace;
    (is_chosen && options.attempt_timeout > options.grace).then(|| Warning::Grace {
        queue: queue.to_owned(),
        attempt_timeout: text(Milliseconds::from_duration(options.attempt_timeout)),
        grace: text(Milliseconds::from_duration(options.grace)),
    })
}

/// Whether SQS moves a message to the dead-letter queue before the policy gives it up: the policy still retries after the last attempt that SQS allows. That is a fault if the operator has configured more attempts.
pub(super) fn receives(
    queue: &Description,
    decider: &Decider,
    bounds: &Bounds,
    name: &str,
) -> Option<Result<Warning, Fault>> {
    let most = queue.redrive.as_ref()?.max_receive_count;
    let last = Failure {
        attempt: most,
        ..failure(queue)
    };
    let Action::Retry { .. } = decider.rehearse(&last).action else {
        return None;
    };
    Some(match bounds.max_attempts {
        Some(max_attempts) => Err(Fault::MaxAttempts {
            queue: name.to_owned(),
            most,
            max_attempts,
        }),
        None => Ok(Warning::MaxReceiveCount {
            queue: name.to_owned(),
            most,
        }),
    })
}

/// Whether the operator or the policy relies on messages that are older than the queue's retention.
pub(super) fn ages(
    queue: &Description,
    decider: &Decider,
    bounds: &Bounds,
    name: &str,
) -> Option<Warning> {
    if let Some(max_age) = bounds.max_age
        && max_age > queue.retention
    {
        return Some(Warning::Retention {
            queue: name.to_owned(),
            max_age: text(max_age),
            retention: text(queue.retention),
        });
    }
    let of_age = |age| {
        decider.rehearse(&Failure {
            age,
            ..failure(queue)
        })
    };
    let (kept, dropped) = (of_age(queue.retention), of_age(Milliseconds(u32::MAX)));
    let gives_up = !matches!(dropped.action, Action::Retry { .. });
    let is_policy = dropped.decided_by == DecidedBy::Policy;
    let retries = matches!(kept.action, Action::Retry { .. });
    (retries && gives_up && is_policy).then(|| Warning::PolicyMaxAge {
        queue: name.to_owned(),
        retention: text(queue.retention),
    })
}

fn failure(queue: &Description) -> Failure {
    Failure {
        source: queue.arn.clone(),
        ..ordinary_failure()
    }
}

fn text(duration: Milliseconds) -> String {
    format_duration(duration.0.into())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::*;
    use crate::policy::{Limits, LivePolicy, PartSpec, PolicySpec, Sandbox, Source};
    use crate::queue::{Connections, Redrive};

    const DAY: u32 = 86_400_000;

    async fn queue(retention: u32, max_receive_count: u32) -> Description {
        let connections = Connections::default();
        let described = connections.by_url("local:orders").await.describe().await;
        Description {
            retention: Milliseconds(retention),
            redrive: NonZeroU32::new(max_receive_count).map(|max_receive_count| Redrive {
                dead_letter_arn: "local:dead".to_owned(),
                max_receive_count,
            }),
            ..described.unwrap()
        }
    }

    fn decider(settings: &[(&str, &str)], bounds: Bounds) -> Decider {
        let part = PartSpec {
            source: Source::builtin("full-jitter"),
            settings: settings.iter().copied().collect(),
        };
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        let policy = LivePolicy::load(&sandbox, PolicySpec::Single(part)).unwrap();
        Decider::new("orders", policy, bounds)
    }

    #[tokio::test]
    async fn more_attempts_than_sqs_allows_are_a_fault_if_the_operator_configured_them() {
        let queue = queue(4 * DAY, 5).await;
        let bounded = |most| Bounds {
            max_attempts: NonZeroU32::new(most),
            ..Bounds::default()
        };
        let checked = |settings: &[(&str, &str)], bounds| {
            let decider = decider(settings, bounds);
            receives(&queue, &decider, &bounds, "orders")
        };
        let fault = checked(&[], bounded(6)).unwrap().unwrap_err().to_string();
        assert!(
            fault.contains("maxReceiveCount to at least 6") && fault.contains("max-attempts to 5"),
            "{fault}"
        );
        assert!(matches!(
            checked(&[], bounded(0)),
            Some(Ok(Warning::MaxReceiveCount { .. }))
        ));
        assert!(checked(&[], bounded(5)).is_none());
        assert!(
            checked(&[("max-attempts", "3")], bounded(12)).is_none(),
            "the policy gives up earlier"
        );
    }

    #[tokio::test]
    async fn an_age_beyond_the_retention_is_reported() {
        let queue = queue(4 * DAY, 0).await;
        let checked = |settings: &[(&str, &str)], max_age: u32| {
            let bounds = Bounds {
                max_age: (max_age > 0).then_some(Milliseconds(max_age)),
                ..Bounds::default()
            };
            let decider = decider(settings, bounds);
            ages(&queue, &decider, &bounds, "orders")
        };
        assert!(matches!(
            checked(&[], 5 * DAY),
            Some(Warning::Retention { .. })
        ));
        assert!(matches!(
            checked(&[("max-age", "5d")], 0),
            Some(Warning::PolicyMaxAge { .. })
        ));
        for (settings, max_age) in [
            (&[][..], 0),
            (&[], 4 * DAY),
            (&[("max-age", "4d")], 0),
            (&[("max-age", "5d")], 3 * DAY),
        ] {
            let found = checked(settings, max_age);
            assert!(found.is_none(), "{settings:?} {max_age}: {found:?}");
        }
    }

    #[tokio::test]
    async fn short_times_are_reported() {
        let connections = Connections::default();
        let here = queue(4 * DAY, 0).await;
        let there = queue(DAY, 0).await;
        let ready = |here: &Description, there: &Description| Ready {
            queue: connections.local.named("orders") as Arc<_>,
            description: here.clone(),
            dead_letters: Some((connections.local.named("dead") as Arc<_>, there.clone())),
            class_dead_letters: Default::default(),
            unavailable: None,
            envelope_keys: None,
        };
        let options = |visibility, attempt_timeout| Options {
            visibility_timeout: Some(VisibilityTimeout::rounded_up(Duration::from_secs(
                visibility,
            ))),
            attempt_timeout: Duration::from_secs(attempt_timeout),
            ..Options::default()
        };
        let found = queues(&ready(&here, &there), &options(1, 900), "orders");
        assert!(
            matches!(
                found.as_slice(),
                [
                    Warning::Visibility { seconds: 1, .. },
                    Warning::DeadLetterRetention { .. }
                ]
            ),
            "{found:?}"
        );
        assert!(
            found
                .iter()
                .all(|warning| warning.to_string().contains("orders"))
        );
        assert_eq!(
            queues(&ready(&there, &here), &options(5, 900), "orders"),
            []
        );
        let lingering = Options {
            linger: Duration::from_secs(2),
            ..options(5, 900)
        };
        let found = queues(&ready(&there, &here), &lingering, "orders");
        assert!(
            matches!(found.as_slice(), [Warning::Linger { .. }]),
            "{found:?}"
        );
        assert!(grace(&options(30, 60), "orders").is_some());
        for fine in [10, 900] {
            assert_eq!(grace(&options(30, fine), "orders"), None);
        }
    }
}
