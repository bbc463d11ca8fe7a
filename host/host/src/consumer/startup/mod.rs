//! The checks before the first message, so that a mistake is reported at startup and not by a queue that fills up.

mod compatibility;
mod fault;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_aws::{Meaning, queue_identity};
use backstop_core::backoff::Backoff;

use super::Options;
use crate::config::DeadLetterQueues;
use crate::decision::Bounds;
use crate::failure::Error;
use crate::handler::Handler;
use crate::hold::HoldMode;
use crate::queue::{Connections, Description, Queue, QueueError, Retry, short_name};
use backstop_decider::Decider;
use backstop_queue::envelope::{EnvelopeKeys, Readers};

pub(crate) use compatibility::grace as grace_warning;
pub(crate) use fault::fault;
pub use fault::{Fault, Faults, Warning};

/// The tries of one request, so that one reset connection does not prevent a start.
const RETRY: Retry = Retry::new(Backoff::milliseconds(200, 2_000))
    .tries(4)
    .within(Duration::from_secs(10));

/// A dead-letter queue and its attributes.
type DeadLetters = (Arc<dyn Queue>, Description);

/// A queue that exists and matches its dead-letter queues.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// Its attributes.
    pub description: Description,
    /// Where its dead letters go, unless their class has a queue of its own.
    pub dead_letters: Option<(Arc<dyn Queue>, Description)>,
    /// Where the dead letters of a class go.
    pub class_dead_letters: BTreeMap<String, (Arc<dyn Queue>, Description)>,
    /// Why the worker is unavailable, if it is: nothing is received before it is available.
    pub unavailable: Option<Error>,
    /// The keys of the fleet, by which it knows the messages that were sent again.
    pub envelope_keys: Option<EnvelopeKeys>,
}

impl Ready {
    /// The attributes of all dead-letter queues, each once.
    pub(crate) fn all_dead_letters(&self) -> Vec<Description> {
        let all = self.dead_letter_queues();
        all.map(|(_, there)| there.clone()).collect()
    }

    /// All dead-letter queues, each once.
    pub(crate) fn dead_letter_queues(
        &self,
    ) -> impl Iterator<Item = (&Arc<dyn Queue>, &Description)> {
        let default = self.dead_letters.iter();
        let all = default.flat_map(|default| each_once(default, &self.class_dead_letters));
        all.map(|(queue, there)| (queue, there))
    }
}

/// Finds the queue and its dead-letter queue and checks that they match each other, the handler, the policy and the options. Reports all faults at once.
pub async fn check(
    connections: &Connections,
    url: &str,
    dead_letters: impl Into<DeadLetterQueues>,
    handler: &dyn Handler,
    decider: &Decider,
    bounds: &Bounds,
    options: &Options,
) -> Result<(Ready, Vec<Warning>), Faults> {
    let dead_letters = dead_letters.into();
    let mut checked = Checked::of(connections, url, &dead_letters, Some(handler), options).await;
    checked.with_policy(decider, bounds);
    match checked.parts() {
        (Some(ready), faults, warnings) if faults.is_empty() => Ok((ready, warnings)),
        (_, faults, _) => Err(Faults(faults)),
    }
}

/// The results of the checks of one queue.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    ready: Option<Ready>,
    hold: HoldMode,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
}

impl Checked {
    /// Checks the queues, and the handler if there is one.
    pub(crate) async fn of(
        connections: &Connections,
        url: &str,
        dead_letters: &DeadLetterQueues,
        handler: Option<&dyn Handler>,
        options: &Options,
    ) -> Self {
        let mut checked = Self::default();
        checked.queues(connections, url, dead_letters).await;
        if let Some(handler) = handler {
            checked.handler(handler, url).await;
        }
        if options.hold == HoldMode::Resend
            && checked.ready.as_ref().is_some_and(|it| it.description.fifo)
        {
            checked.faults.push(Fault::FifoResend {
                url: url.to_owned(),
            });
        }
        checked.envelope_keys(url, options.envelope_key_file.as_deref());
        checked.hold = options.hold;
        let ready = checked.ready.as_ref();
        let found = ready.map(|ready| compatibility::queues(ready, options, short_name(url)));
        checked.warnings.extend(found.into_iter().flatten());
        checked
            .warnings
            .extend(compatibility::grace(options, short_name(url)));
        checked
    }

    /// Reads the keys of envelopes, if there is a file of them.
    fn envelope_keys(&mut self, url: &str, file: Option<&Path>) {
        let keys = file.map(|path| EnvelopeKeys::read(path, Readers::Few));
        match (keys.transpose(), &mut self.ready) {
            (Ok(keys), Some(ready)) => ready.envelope_keys = keys,
            (Ok(_), None) => {}
            (Err(cause), _) => self.faults.push(Fault::EnvelopeKeys {
                url: url.to_owned(),
                cause,
            }),
        }
    }

    /// Evaluates the policy for made-up failures.
    pub(crate) fn with_policy(&mut self, decider: &Decider, bounds: &Bounds) {
        let Some(ready) = &self.ready else { return };
        let (queue, name) = (&ready.description, short_name(ready.queue.url()));
        match compatibility::receives(queue, decider, bounds, name) {
            Some(Err(fault)) => self.faults.push(fault),
            Some(Ok(warning)) => self.warnings.push(warning),
            None => {}
        }
        // A message that is sent again has a new retention.
        if self.hold.of(queue) == HoldMode::Visibility {
            self.warnings
                .extend(compatibility::ages(queue, decider, bounds, name));
        }
    }

    /// The queue if it can be used, the faults, and the warnings.
    pub(crate) fn parts(self) -> (Option<Ready>, Vec<Fault>, Vec<Warning>) {
        (self.ready, self.faults, self.warnings)
    }

    async fn queues(
        &mut self,
        connections: &Connections,
        url: &str,
        configured: &DeadLetterQueues,
    ) {
        let queue = connections.by_url(url).await;
        let described = describe(&*queue).await.map_err(|cause| {
            fault("queue", url, "sqs:GetQueueAttributes, sqs:ReceiveMessage, sqs:ChangeMessageVisibility and sqs:DeleteMessage", cause)
        });
        // If one is unreachable the other is too, and both would have to time out.
        if let Err(fault @ Fault::Unreachable { .. }) = described {
            self.faults.push(fault);
            return;
        }
        let found = find_dead_letters(
            connections,
            url,
            configured.default.as_deref(),
            described.as_ref().ok(),
            &mut self.warnings,
        )
        .await;
        let by_class = self
            .of_classes(connections, url, configured, described.as_ref().ok())
            .await;
        let (description, dead_letters) = match (described, found) {
            (Ok(description), Ok(Some(dead_letters))) => (description, dead_letters),
            (described, found) => {
                self.faults.extend(described.err());
                self.faults.extend(found.err());
                return;
            }
        };
        for (dead, there) in each_once(&dead_letters, &by_class) {
            if there.arn == description.arn || is_same(dead.url(), url) {
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
        }
        self.ready = Some(Ready {
            queue,
            description,
            dead_letters: Some(dead_letters),
            class_dead_letters: by_class,
            unavailable: None,
            envelope_keys: None,
        });
    }

    /// The dead-letter queues of classes, each looked up once. Adds what is wrong with them to the faults.
    async fn of_classes(
        &mut self,
        connections: &Connections,
        url: &str,
        configured: &DeadLetterQueues,
        description: Option<&Description>,
    ) -> BTreeMap<String, DeadLetters> {
        let mut found = BTreeMap::new();
        let urls: BTreeSet<_> = configured.classes.values().collect();
        for named in urls {
            let warnings = &mut self.warnings;
            match find_dead_letters(connections, url, Some(named), description, warnings).await {
                Ok(Some(queue)) => {
                    found.insert(named, queue);
                }
                Ok(None) => {}
                // The default one is reported with the queue.
                Err(_) if configured.default.as_ref() == Some(named) => {}
                Err(fault) => self.faults.push(fault),
            }
        }
        let classes = configured.classes.iter();
        classes
            .filter_map(|(class, url)| Some((class.clone(), found.get(url)?.clone())))
            .collect()
    }

    async fn handler(&mut self, handler: &dyn Handler, url: &str) {
        let checked = match RETRY.request(|| handler.check(), may_pass).await {
            // A service that answers and has no room now is waited for. One that does not answer may be the wrong one.
            Err(cause) if !(cause.unavailable && may_pass(&cause) && cause.status.is_some()) => {
                self.faults.push(Fault::Handler { cause });
                return;
            }
            Err(cause) => Err(cause),
            Ok(()) => handler.is_reachable().await,
        };
        if let Err(cause) = checked {
            self.warnings.push(Warning::Handler {
                queue: short_name(url).to_owned(),
                cause: cause.to_string(),
            });
            if let Some(ready) = &mut self.ready {
                ready.unavailable = Some(cause);
            }
        }
    }
}

/// Whether two URLs are those of one queue: where its attributes can't be read, its ARN is not known.
fn is_same(one: &str, other: &str) -> bool {
    queue_identity(one, false) == queue_identity(other, false)
}

/// All dead-letter queues of a queue, each once.
fn each_once<'a>(
    default: &'a DeadLetters,
    by_class: &'a BTreeMap<String, DeadLetters>,
) -> impl Iterator<Item = &'a DeadLetters> {
    let mut seen = BTreeSet::new();
    let all = std::iter::once(default).chain(by_class.values());
    all.filter(move |(_, there)| seen.insert(&there.arn))
}

/// The configured dead-letter queue, or the one of the queue's redrive policy. `None` if the queue's attributes are unknown.
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
            let by_arn = || connections.by_arn(arn);
            RETRY
                .request(by_arn, QueueError::is_retryable)
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
    match describe(&*queue).await {
        Ok(there) => Ok(Some((queue, there))),
        // Sending may be allowed although reading attributes is not.
        Err(cause) if cause.is_access_denied() => {
            warnings.push(Warning::Unchecked {
                url: queue.url().to_owned(),
                cause: cause.to_string(),
            });
            let there = description.map(|description| Description {
                arn: queue.url().to_owned(),
                fifo: queue.url().ends_with(".fifo"),
                redrive: None,
                delayed: None,
                access_policy: None,
                ..description.clone()
            });
            Ok(there.map(|there| (queue, there)))
        }
        Err(cause) => Err(fault(ROLE, queue.url(), ACTIONS, cause)),
    }
}

async fn describe(queue: &dyn Queue) -> Result<Description, QueueError> {
    RETRY
        .request(|| queue.describe(), QueueError::is_retryable)
        .await
}

/// Whether the worker may answer a moment later. What an error of a program's own handler means is not known.
fn may_pass(error: &Error) -> bool {
    match Meaning::of_code(&error.code) {
        Some(meaning) => meaning.may_pass(),
        None => error
            .status
            .is_some_and(|status| status == 429 || status >= 500),
    }
}

/// The implicit dead-letter queue of a local queue: `local:orders` has `local:orders-dead-letters`.
fn local_dead_letters(url: &str) -> String {
    match url.strip_suffix(".fifo") {
        Some(name) => format!("{name}-dead-letters.fifo"),
        None => format!("{url}-dead-letters"),
    }
}
