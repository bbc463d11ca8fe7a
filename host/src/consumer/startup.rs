//! What is found out before the first message, so that a mistake is told at the start and not by a queue that fills up.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_backoff::{format_duration, jitter};
use tokio::time::{Instant, sleep};

use crate::decider::Decider;
use crate::decision::{Action, Bounds};
use crate::failure::{Error, Failure, Milliseconds};
use crate::handler::Handler;
use crate::policy::ordinary_failure;
use crate::queue::{Connections, Description, Queue, QueueError, short_name};

/// How often a request is made at most, for how long it is begun again, and the waits in between, in milliseconds.
const TRIES: u32 = 4;
const PERSISTENCE: Duration = Duration::from_secs(10);
const BASE: u32 = 200;
const CAP: u32 = 2_000;

/// A queue that was found and fits its dead-letter queue.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// What it says of itself.
    pub description: Description,
    /// Where its dead letters go.
    pub dead_letters: Option<(Arc<dyn Queue>, Description)>,
}

/// What keeps a consumer from starting, with what to change.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no such queue.
    #[error(
        "the {role} {url} does not exist: create it or correct its URL; the account and region must be those of the credentials"
    )]
    Missing {
        /// `queue` or `dead-letter queue`.
        role: &'static str,
        /// Its URL or ARN.
        url: String,
    },
    /// A permission is missing.
    #[error(
        "access to the {role} {url} is denied: allow {actions} on it, and check which credentials are in use"
    )]
    Denied {
        /// `queue` or `dead-letter queue`.
        role: &'static str,
        /// Its URL or ARN.
        url: String,
        /// What it takes.
        actions: &'static str,
        /// What SQS said.
        #[source]
        cause: QueueError,
    },
    /// Something else went wrong.
    #[error(
        "can't reach the {role} {url}: check the credentials, the network, the region and the endpoint"
    )]
    Unreachable {
        /// `queue` or `dead-letter queue`.
        role: &'static str,
        /// Its URL or ARN.
        url: String,
        /// What happened.
        #[source]
        cause: QueueError,
    },
    /// Nowhere to put dead letters.
    #[error(
        "the queue {url} has no dead-letter queue: name one with `dead-letter-queue` (--dead-letter-queue), or give the queue a redrive policy"
    )]
    NoDeadLetterQueue {
        /// The queue's URL.
        url: String,
    },
    /// A standard queue can't be the dead-letter queue of a FIFO queue, nor the other way round.
    #[error("the queue {url} is {} but its dead-letter queue {dead_letters} is {}: name one of the same kind", kind(*.fifo), kind(!*.fifo))]
    Kind {
        /// The queue's URL.
        url: String,
        /// The dead-letter queue's URL.
        dead_letters: String,
        /// Whether the queue itself is a FIFO queue.
        fifo: bool,
    },
    /// Dead letters would come back.
    #[error("the queue {url} is its own dead-letter queue: name another")]
    Itself {
        /// The queue's URL.
        url: String,
    },
    /// The handler can't work.
    #[error("the handler can't work: {cause}")]
    Handler {
        /// Why.
        cause: Error,
    },
}

fn kind(fifo: bool) -> &'static str {
    if fifo {
        "a FIFO queue"
    } else {
        "a standard queue"
    }
}

/// Something that will not work out as the operator expects, with what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// SQS will move messages away before the policy has decided to.
    #[error(
        "SQS moves a message of {queue} away after {most} receives, but the policy still retries then: those dead letters bear no reason. Set max-attempts to at most {most}, or raise the queue's maxReceiveCount (receives without an attempt count too)"
    )]
    MaxReceiveCount {
        /// The queue's name.
        queue: String,
        /// Its `maxReceiveCount`.
        most: NonZeroU32,
    },
    /// The bound can't be reached.
    #[error(
        "max-age is {max_age}, but {queue} keeps a message for {retention} only: what is older is dead-lettered before SQS drops it. Raise the queue's retention or lower max-age"
    )]
    Retention {
        /// The queue's name.
        queue: String,
        /// The operator's bound.
        max_age: String,
        /// The queue's retention.
        retention: String,
    },
    /// A large message can't be dead-lettered.
    #[error(
        "{queue} takes messages of up to {most} bytes, but its dead-letter queue {dead_letters} only up to {less}: it refuses larger ones, which stay in {queue} until SQS drops them. Raise its MaximumMessageSize to {most}"
    )]
    MessageSize {
        /// The queue's name.
        queue: String,
        /// Its `MaximumMessageSize`.
        most: usize,
        /// The dead-letter queue's name.
        dead_letters: String,
        /// The dead-letter queue's `MaximumMessageSize`.
        less: usize,
    },
    /// The dead-letter queue could not be looked at.
    #[error(
        "can't look at the dead-letter queue {url}: {cause}. Allow sqs:GetQueueAttributes on it to have it checked"
    )]
    Unchecked {
        /// Its URL.
        url: String,
        /// Why.
        cause: String,
    },
}

/// Finds the queue and its dead-letter queue, checks that they fit each other, the handler and the policy.
pub async fn check(
    connections: &Connections,
    url: &str,
    dead_letters: Option<&str>,
    handler: &dyn Handler,
    decider: &Decider,
    bounds: &Bounds,
) -> Result<(Ready, Vec<Warning>), Fault> {
    let queue = connections.by_url(url).await;
    let description = persist(|| queue.describe()).await.map_err(|cause| {
        fault("queue", url, "sqs:GetQueueAttributes, sqs:ReceiveMessage, sqs:ChangeMessageVisibility and sqs:DeleteMessage", cause)
    })?;
    let mut warnings = Vec::new();
    let dead_letters =
        find_dead_letters(connections, url, dead_letters, &description, &mut warnings).await?;
    let (dead, there) = &dead_letters;
    if there.arn == description.arn {
        return Err(Fault::Itself {
            url: url.to_owned(),
        });
    }
    if there.fifo != description.fifo {
        return Err(Fault::Kind {
            url: url.to_owned(),
            dead_letters: dead.url().to_owned(),
            fifo: description.fifo,
        });
    }
    handler
        .check()
        .await
        .map_err(|cause| Fault::Handler { cause })?;
    if there.max_message_bytes < description.max_message_bytes {
        warnings.push(Warning::MessageSize {
            queue: short_name(url).to_owned(),
            most: description.max_message_bytes,
            dead_letters: short_name(dead.url()).to_owned(),
            less: there.max_message_bytes,
        });
    }
    warnings.extend(too_few_receives(&description, decider, short_name(url)));
    warnings.extend(too_short_a_retention(&description, bounds, short_name(url)));
    Ok((
        Ready {
            queue,
            description,
            dead_letters: Some(dead_letters),
        },
        warnings,
    ))
}

/// The named one, or the one of the queue's redrive policy.
async fn find_dead_letters(
    connections: &Connections,
    url: &str,
    named: Option<&str>,
    description: &Description,
    warnings: &mut Vec<Warning>,
) -> Result<(Arc<dyn Queue>, Description), Fault> {
    const ROLE: &str = "dead-letter queue";
    const ACTIONS: &str = "sqs:GetQueueUrl, sqs:GetQueueAttributes and sqs:SendMessage";
    let queue = match (named, &description.redrive) {
        (Some(named), _) => connections.by_url(named).await,
        (None, Some(redrive)) => {
            let arn = &redrive.dead_letter_arn;
            persist(|| connections.by_arn(arn))
                .await
                .map_err(|cause| fault(ROLE, arn, ACTIONS, cause))?
        }
        (None, None) if url.starts_with("local:") => {
            connections.by_url(&local_dead_letters(url)).await
        }
        (None, None) => {
            return Err(Fault::NoDeadLetterQueue {
                url: url.to_owned(),
            });
        }
    };
    match persist(|| queue.describe()).await {
        Ok(there) => Ok((queue, there)),
        // Sending may be allowed where looking is not.
        Err(cause) if cause.is_access_denied() => {
            warnings.push(Warning::Unchecked {
                url: queue.url().to_owned(),
                cause: cause.to_string(),
            });
            let there = Description {
                arn: queue.url().to_owned(),
                fifo: queue.url().ends_with(".fifo"),
                redrive: None,
                ..description.clone()
            };
            Ok((queue, there))
        }
        Err(cause) => Err(fault(ROLE, queue.url(), ACTIONS, cause)),
    }
}

/// Makes a request a few times where it may succeed the next time: one connection that is reset ends no start.
async fn persist<T, F>(request: impl Fn() -> F) -> Result<T, QueueError>
where
    F: Future<Output = Result<T, QueueError>>,
{
    let end = Instant::now() + PERSISTENCE;
    for tries in 1.. {
        match request().await {
            Err(error) if error.retryable && tries < TRIES && Instant::now() < end => {
                tracing::debug!(%error, tries, "asked again");
                let ceiling = jitter::exponential(BASE, CAP, tries);
                let wait = jitter::full(ceiling / 2, ceiling, rand::random());
                sleep(Duration::from_millis(wait.into())).await;
            }
            outcome => return outcome,
        }
    }
    request().await
}

/// A local queue has a dead-letter queue by itself: `local:orders` has `local:orders-dead-letters`.
fn local_dead_letters(url: &str) -> String {
    match url.strip_suffix(".fifo") {
        Some(name) => format!("{name}-dead-letters.fifo"),
        None => format!("{url}-dead-letters"),
    }
}

/// What a queue's answer means, with what to change.
pub(crate) fn fault(
    role: &'static str,
    url: &str,
    actions: &'static str,
    cause: QueueError,
) -> Fault {
    let url = url.to_owned();
    if cause.is_missing_queue() {
        Fault::Missing { role, url }
    } else if cause.is_access_denied() {
        Fault::Denied {
            role,
            url,
            actions,
            cause,
        }
    } else {
        Fault::Unreachable { role, url, cause }
    }
}

/// Asks the policy about the last attempt that SQS allows: a retry then comes to nothing.
fn too_few_receives(description: &Description, decider: &Decider, queue: &str) -> Option<Warning> {
    let most = description.redrive.as_ref()?.max_receive_count;
    let last = Failure {
        source: description.arn.clone(),
        attempt: most,
        ..ordinary_failure()
    };
    match decider.rehearse(&last).action {
        Action::Retry { .. } => Some(Warning::MaxReceiveCount {
            queue: queue.to_owned(),
            most,
        }),
        Action::DeadLetter { .. } | Action::Discard { .. } => None,
    }
}

fn too_short_a_retention(
    description: &Description,
    bounds: &Bounds,
    queue: &str,
) -> Option<Warning> {
    let max_age = bounds
        .max_age
        .filter(|max_age| *max_age > description.retention)?;
    let text = |span: Milliseconds| format_duration(span.0.into());
    Some(Warning::Retention {
        queue: queue.to_owned(),
        max_age: text(max_age),
        retention: text(description.retention),
    })
}
