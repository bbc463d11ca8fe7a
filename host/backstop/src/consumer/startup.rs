//! What is found out before the first message, so that a mistake is told at the start and not by a queue that fills up.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_backoff::jitter;
use tokio::time::{Instant, sleep};

use super::{Options, judge};
use crate::decider::Decider;
use crate::decision::Bounds;
use crate::failure::Error;
use crate::handler::Handler;
use crate::queue::{Connections, Description, Queue, QueueError, short_name};
use crate::text::chain;

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
        "can't reach the {role} {url}{}",
        if cause.is_unanswered() { "" } else { ": check the credentials, the network, the region and the endpoint" }
    )]
    Unreachable {
        /// `queue` or `dead-letter queue`.
        role: &'static str,
        /// Its URL or ARN.
        url: String,
        /// What happened, and what to do about it.
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
    /// SQS will move messages away before the attempts are made that the operator wants.
    #[error(
        "SQS moves a message of {queue} away after {most} receives, and so before max-attempts of {max_attempts} is reached: raise the queue's maxReceiveCount to at least {max_attempts} (receives without an attempt count too), or lower max-attempts to {most}"
    )]
    MaxAttempts {
        /// The queue's name.
        queue: String,
        /// Its `maxReceiveCount`.
        most: NonZeroU32,
        /// The operator's bound.
        max_attempts: NonZeroU32,
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
    /// The policy's own bound can't be reached.
    #[error(
        "the policy gives a message up at an age at which {queue} has dropped it: it is dead-lettered before the queue's retention of {retention} ends. Raise the queue's retention or lower the policy's max-age"
    )]
    PolicyMaxAge {
        /// The queue's name.
        queue: String,
        /// The queue's retention.
        retention: String,
    },
    /// Dead letters are gone before the messages would have been.
    #[error(
        "the dead-letter queue {url} keeps a message for {retention} only, {queue} for {own}: raise its retention, best to 14d, or dead letters are gone before anybody has looked at them"
    )]
    DeadLetterRetention {
        /// Its URL.
        url: String,
        /// Its retention.
        retention: String,
        /// The queue's name.
        queue: String,
        /// The queue's retention.
        own: String,
    },
    /// A message may be seen by two consumers.
    #[error(
        "the visibility timeout of {queue} is {seconds}s: one slow heartbeat, and a message comes again while it is worked on. Set visibility-timeout to 30s"
    )]
    Visibility {
        /// The queue's name.
        queue: String,
        /// The timeout.
        seconds: u32,
    },
    /// Requests can't wait for as long as they may.
    #[error(
        "linger is {linger}, more than a third of the visibility timeout of {queue}: an outcome that waits for longer may come when the message is visible again. {longest} is used; lower linger or raise visibility-timeout"
    )]
    Linger {
        /// The queue's name.
        queue: String,
        /// The option.
        linger: String,
        /// What is used.
        longest: String,
    },
    /// A stop cuts attempts short.
    #[error(
        "an attempt of {queue} may take {attempt_timeout}, but a stop waits for {grace} only: a longer attempt is cut short and made again. Raise grace, and the time that your platform gives a process to end, or lower attempt-timeout"
    )]
    Grace {
        /// The queue's name.
        queue: String,
        /// The longest attempt.
        attempt_timeout: String,
        /// The time that a stop leaves it.
        grace: String,
    },
    /// Nobody listens where the messages are to go.
    #[error(
        "the handler of {queue} does not answer: {cause}. Start it, or correct its URL; until it answers, every message fails and is put before the policy"
    )]
    Handler {
        /// The queue's name.
        queue: String,
        /// Why not.
        cause: String,
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

/// Everything that keeps a consumer from starting.
#[derive(Debug, thiserror::Error)]
#[error("{}", all_of(.0))]
pub struct Faults(pub Vec<Fault>);

fn all_of(faults: &[Fault]) -> String {
    let each: Vec<_> = faults.iter().map(|fault| chain(fault)).collect();
    each.join("\n")
}

/// Finds the queue and its dead-letter queue, checks that they fit each other, the handler, the policy and the options. Everything that is wrong is found at once.
pub async fn check(
    connections: &Connections,
    url: &str,
    dead_letters: Option<&str>,
    handler: &dyn Handler,
    decider: &Decider,
    bounds: &Bounds,
    options: &Options,
) -> Result<(Ready, Vec<Warning>), Faults> {
    let mut checked = Checked::of(connections, url, dead_letters, Some(handler), options).await;
    checked.with_policy(decider, bounds);
    match checked.parts() {
        (Some(ready), faults, warnings) if faults.is_empty() => Ok((ready, warnings)),
        (_, faults, _) => Err(Faults(faults)),
    }
}

/// What was found out of one queue so far.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    ready: Option<Ready>,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
}

impl Checked {
    /// Looks at the queues, and at the handler where there is one.
    pub(crate) async fn of(
        connections: &Connections,
        url: &str,
        dead_letters: Option<&str>,
        handler: Option<&dyn Handler>,
        options: &Options,
    ) -> Self {
        let mut checked = Self::default();
        checked.queues(connections, url, dead_letters).await;
        if let Some(handler) = handler {
            checked.handler(handler, url).await;
        }
        let ready = checked.ready.as_ref();
        let found = ready.map(|ready| judge::queues(ready, options, short_name(url)));
        checked.warnings.extend(found.into_iter().flatten());
        checked
            .warnings
            .extend(judge::grace(options, short_name(url)));
        checked
    }

    /// Asks the policy about failures that did not happen.
    pub(crate) fn with_policy(&mut self, decider: &Decider, bounds: &Bounds) {
        let Some(ready) = &self.ready else { return };
        let (queue, name) = (&ready.description, short_name(ready.queue.url()));
        match judge::receives(queue, decider, bounds, name) {
            Some(Err(fault)) => self.faults.push(fault),
            Some(Ok(warning)) => self.warnings.push(warning),
            None => {}
        }
        self.warnings
            .extend(judge::ages(queue, decider, bounds, name));
    }

    /// The queue, where it can be used, what keeps it from being served, and what will not work out as expected.
    pub(crate) fn parts(self) -> (Option<Ready>, Vec<Fault>, Vec<Warning>) {
        (self.ready, self.faults, self.warnings)
    }

    async fn queues(&mut self, connections: &Connections, url: &str, dead_letters: Option<&str>) {
        let queue = connections.by_url(url).await;
        let described = persist(|| queue.describe()).await.map_err(|cause| {
            fault("queue", url, "sqs:GetQueueAttributes, sqs:ReceiveMessage, sqs:ChangeMessageVisibility and sqs:DeleteMessage", cause)
        });
        // Where one can't be reached, the other can't either, and both would be waited for.
        if let Err(fault @ Fault::Unreachable { .. }) = described {
            self.faults.push(fault);
            return;
        }
        let found = find_dead_letters(
            connections,
            url,
            dead_letters,
            described.as_ref().ok(),
            &mut self.warnings,
        )
        .await;
        let (description, dead_letters) = match (described, found) {
            (Ok(description), Ok(Some(dead_letters))) => (description, dead_letters),
            (described, found) => {
                self.faults.extend(described.err());
                self.faults.extend(found.err());
                return;
            }
        };
        let (dead, there) = &dead_letters;
        if there.arn == description.arn {
            self.faults.push(Fault::Itself {
                url: url.to_owned(),
            });
        } else if there.fifo != description.fifo {
            self.faults.push(Fault::Kind {
                url: url.to_owned(),
                dead_letters: dead.url().to_owned(),
                fifo: description.fifo,
            });
        }
        self.ready = Some(Ready {
            queue,
            description,
            dead_letters: Some(dead_letters),
        });
    }

    async fn handler(&mut self, handler: &dyn Handler, url: &str) {
        if let Err(cause) = persist(|| handler.check()).await {
            self.faults.push(Fault::Handler { cause });
        } else if let Err(cause) = handler.answers().await {
            self.warnings.push(Warning::Handler {
                queue: short_name(url).to_owned(),
                cause: cause.to_string(),
            });
        }
    }
}

/// The named one, or the one of the queue's redrive policy; none where the queue can't be asked for it.
async fn find_dead_letters(
    connections: &Connections,
    url: &str,
    named: Option<&str>,
    description: Option<&Description>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<(Arc<dyn Queue>, Description)>, Fault> {
    const ROLE: &str = "dead-letter queue";
    const ACTIONS: &str = "sqs:GetQueueUrl, sqs:GetQueueAttributes and sqs:SendMessage";
    let redrive = description.and_then(|description| description.redrive.as_ref());
    let queue = match (named, redrive) {
        (Some(named), _) => connections.by_url(named).await,
        (None, None) if description.is_none() => return Ok(None),
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
        Ok(there) => Ok(Some((queue, there))),
        // Sending may be allowed where looking is not.
        Err(cause) if cause.is_access_denied() => {
            warnings.push(Warning::Unchecked {
                url: queue.url().to_owned(),
                cause: cause.to_string(),
            });
            let there = description.map(|description| Description {
                arn: queue.url().to_owned(),
                fifo: queue.url().ends_with(".fifo"),
                redrive: None,
                ..description.clone()
            });
            Ok(there.map(|there| (queue, there)))
        }
        Err(cause) => Err(fault(ROLE, queue.url(), ACTIONS, cause)),
    }
}

/// What a request of the start ends with.
trait Transient {
    /// Whether the same request may succeed a moment later.
    fn is_transient(&self) -> bool;
}

impl Transient for QueueError {
    fn is_transient(&self) -> bool {
        self.retryable
    }
}

impl Transient for Error {
    fn is_transient(&self) -> bool {
        let lost = ["ECONNRESET", "ECONNREFUSED", "ENOTFOUND", "ETIMEDOUT"];
        let is_lost = lost.contains(&self.code.as_str());
        is_lost
            || self
                .status
                .is_some_and(|status| status == 429 || status >= 500)
    }
}

/// Makes a request a few times where it may succeed the next time: one connection that is reset ends no start.
async fn persist<T, E: Transient, F>(request: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let end = Instant::now() + PERSISTENCE;
    let mut tries = 1;
    loop {
        match request().await {
            Err(error) if error.is_transient() && tries < TRIES && Instant::now() < end => {
                let ceiling = jitter::exponential(BASE, CAP, tries);
                let wait = jitter::full(ceiling / 2, ceiling, rand::random());
                sleep(Duration::from_millis(wait.into())).await;
                tries += 1;
            }
            outcome => return outcome,
        }
    }
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
