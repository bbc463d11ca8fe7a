//! The configuration of a host that is tried out: as it is, with queues in memory and nothing that reaches out.

use std::sync::Arc;
use std::time::Duration;

use super::TrialError;
use super::journal::{Journal, Watched};
use crate::config::{
    Cache, Config, DeadLetterQueues, FunctionHandler, HandlerConfig, Options, Policies, QueueConfig,
};
use crate::queue::short_name;
use backstop_traces::Wish;

/// The longest poll of SQS: no poll of an idle queue need be shorter where time jumps.
const IDLE_POLL: Duration = Duration::from_secs(20);

pub(super) fn in_memory(config: Config, journal: &Arc<Journal>) -> Result<Config, TrialError> {
    let queues = config.queues.into_iter();
    let queues = queues.map(|queue| queue_in_memory(queue, journal));
    Ok(Config {
        queues: queues.collect::<Result<_, _>>()?,
        decisions: None,
        metrics: None,
        admin: None,
        fleet: Vec::new(),
        traces: Some(Wish::None),
        // No earlier version may stand in for one that is rejected.
        policies: Policies {
            cache: Cache::Off,
            ..config.policies
        },
        lambda: None,
        ..config
    })
}

fn queue_in_memory(queue: QueueConfig, journal: &Arc<Journal>) -> Result<QueueConfig, TrialError> {
    let HandlerConfig::Function(handler) = &queue.handler else {
        return Err(TrialError::Handler(queue.name));
    };
    let watched = Watched::new(&queue.name, Arc::clone(&handler.0), journal);
    let dead_letters = queue.dead_letter_queues;
    let classes = dead_letters.classes.into_iter();
    Ok(QueueConfig {
        url: local(&queue.url),
        dead_letter_queues: DeadLetterQueues {
            default: dead_letters.default.as_deref().map(local),
            classes: classes.map(|(class, url)| (class, local(&url))).collect(),
        },
        handler: HandlerConfig::Function(FunctionHandler(Arc::new(watched))),
        idempotency: None,
        options: Options {
            idle_poll: IDLE_POLL,
            pause: Vec::new(),
            ..queue.options
        },
        ..queue
    })
}

/// The queue in memory with the name of this one.
fn local(url: &str) -> String {
    format!("local:{}", short_name(url))
}
