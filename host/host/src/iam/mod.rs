//! The IAM policy that a configuration needs, and nothing beyond it: least privilege from the same configuration that runs.
//!
//! [`policy`] asks SQS for the ARN and the redrive policy of each queue, and falls back to the URL for the ARN. The rest is pure. `host/docs/deploy/configuration.md` and `host/docs/deploy/lambda.md` have the same permissions as tables.

mod arn;
mod document;

use crate::config::{Config, DeciderConfig, HandlerConfig, LambdaConfig, QueueConfig};
use crate::hold::HoldMode;
use crate::policy::Location;
use crate::queue::{Connections, QueueError};
use arn::{Place, of_url};
use document::Need;

pub use document::IamPolicy;

/// Why there is no policy for a configuration.
#[derive(Debug, thiserror::Error)]
pub enum IamError {
    /// Neither SQS nor the URL says which queue it is.
    #[error("can't find out the ARN of the queue {url}")]
    Queue {
        /// The URL.
        url: String,
        /// What SQS has answered.
        #[source]
        cause: QueueError,
    },
    /// The retry handler has no list of functions.
    #[error(
        "lambda.functions: expected the functions that the retry handler may invoke: without them it may invoke any, and its role would have to allow that"
    )]
    AnyFunction,
    /// The retry queue is not named.
    #[error(
        "lambda.retry-queue: expected the URL of the retry queue, which the permissions are for"
    )]
    NoRetryQueue,
}

/// The permissions of everything in a configuration. What is in memory needs none.
pub async fn policy(config: &Config, connections: &Connections) -> Result<IamPolicy, IamError> {
    let mut policy = IamPolicy::default();
    for queue in &config.queues {
        let known = Known::of(&queue.url, connections).await?;
        consumer(&mut policy, queue, &known, config, connections).await?;
    }
    if let Some(lambda) = &config.lambda {
        let url = lambda.retry_queue.as_ref().ok_or(IamError::NoRetryQueue)?;
        let known = Known::of(url, connections).await?;
        retry_handler(&mut policy, lambda, &known, config, connections).await?;
    }
    Ok(policy)
}

/// What is known of a queue.
struct Known {
    arn: String,
    /// The dead-letter queue of its redrive policy.
    dead_letters: Option<String>,
    /// Why SQS does not show it, if so.
    unseen: Option<String>,
}

impl Known {
    async fn of(url: &str, connections: &Connections) -> Result<Self, IamError> {
        match connections.by_url(url).await.describe().await {
            Ok(queue) => Ok(Self {
                arn: queue.arn,
                dead_letters: queue.redrive.map(|it| it.dead_letter_arn),
                unseen: None,
            }),
            Err(cause) => match of_url(url) {
                Some(arn) => Ok(Self {
                    arn,
                    dead_letters: None,
                    unseen: Some(format!("{url}: {cause}")),
                }),
                None => Err(IamError::Queue {
                    url: url.to_owned(),
                    cause,
                }),
            },
        }
    }
}

/// What `backstop run` needs for one queue.
async fn consumer(
    policy: &mut IamPolicy,
    queue: &QueueConfig,
    known: &Known,
    config: &Config,
    connections: &Connections,
) -> Result<(), IamError> {
    let Some(place) = Place::of(&known.arn) else {
        return Ok(());
    };
    held(policy, queue.options.hold, known);
    let own = queue.dead_letter_queues.urls();
    let is_own = queue.dead_letter_queues.default.is_some();
    dead_letters(policy, own, is_own, known, connections).await?;
    if let HandlerConfig::Lambda(name) = &queue.handler {
        let function = place.function(name, None).into_iter();
        function.for_each(|it| policy.allow(Need::Invoke, it));
    }
    if let Some(idempotency) = &queue.idempotency {
        policy.allow(Need::Idempotency, place.table(&idempotency.table));
    }
    objects(policy, &queue.decider, &place, config);
    Ok(())
}

/// What the Lambda retry handler needs, apart from its log.
async fn retry_handler(
    policy: &mut IamPolicy,
    lambda: &LambdaConfig,
    known: &Known,
    config: &Config,
    connections: &Connections,
) -> Result<(), IamError> {
    let Some(place) = Place::of(&known.arn) else {
        return Ok(());
    };
    held(policy, lambda.hold, known);
    let own = lambda.dead_letter_queues.urls();
    let is_own = lambda.dead_letter_queues.default.is_some();
    dead_letters(policy, own, is_own, known, connections).await?;
    // Lambda knows no resource for it.
    policy.allow(Need::Mappings, "*");
    if lambda.functions.is_empty() {
        return Err(IamError::AnyFunction);
    }
    for name in &lambda.functions {
        // A record names the version or alias that failed, and that one is invoked again.
        for version in [None, Some("*")] {
            let function = place.function(name, version).into_iter();
            function.for_each(|it| policy.allow(Need::Invoke, it));
        }
    }
    for name in lambda.functions.iter().chain(&lambda.handler) {
        let function = place
            .function(backstop_functions::unqualified(name), None)
            .into_iter();
        function.for_each(|it| policy.allow(Need::Recursion, it));
    }
    objects(policy, &lambda.decider, &place, config);
    Ok(())
}

/// To receive from a queue, and to send its messages again.
fn held(policy: &mut IamPolicy, hold: HoldMode, known: &Known) {
    policy.allow(Need::Consume, &known.arn);
    match hold {
        HoldMode::Visibility => {}
        HoldMode::Resend | HoldMode::Auto => policy.allow(Need::SendAgain, &known.arn),
    }
}

/// To send dead letters to the queues with these URLs or, without a default among them, to the one of the redrive policy, which is found by its ARN.
async fn dead_letters(
    policy: &mut IamPolicy,
    urls: impl Iterator<Item = &str>,
    is_own: bool,
    known: &Known,
    connections: &Connections,
) -> Result<(), IamError> {
    for url in urls {
        let letters = Known::of(url, connections).await?;
        policy.allow(Need::DeadLetters, letters.arn);
    }
    if is_own {
        return Ok(());
    }
    if let Some(why) = &known.unseen {
        policy.note_unseen(why.clone());
    }
    if let Some(arn) = &known.dead_letters {
        policy.allow(Need::DeadLetters, arn);
        policy.allow(Need::FindQueue, arn);
    }
    Ok(())
}

/// To fetch the policies that are in S3, with their signatures.
fn objects(policy: &mut IamPolicy, decider: &DeciderConfig, place: &Place<'_>, config: &Config) {
    let specs = [Some(&decider.policy), decider.shadow.as_ref()];
    for source in specs.into_iter().flatten().flat_map(|it| it.sources()) {
        let Location::S3 { bucket, key } = &source.location else {
            continue;
        };
        policy.allow(Need::Policies, place.object(bucket, key));
        if config.policies.keys.is_some() {
            let signature = format!("{key}.minisig");
            policy.allow(Need::Policies, place.object(bucket, &signature));
        }
    }
}
