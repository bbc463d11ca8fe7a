//! Whether the event source mapping reads the response to a batch. One without `ReportBatchItemFailures` deletes every message of a batch that succeeds, also those that wait for their next attempt.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::lock;
use tokio::time::timeout;

use backstop_functions::Functions;
use backstop_settle::lookup::Lookup;

/// How long a result is cached that the operator may correct: that the response is ignored, or that it is not known.
const CACHE_TIME: Duration = Duration::from_secs(60);

/// How long it is cached that the response is read.
const READ_CACHE_TIME: Duration = Duration::from_secs(300);

/// The longest time for a look-up. Nothing is handled before.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// What the mapping of a queue does with the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// It keeps the messages that the response names.
    Read,
    /// It deletes all messages, unless the whole batch fails.
    Ignored,
    /// The handler may not look it up, or there is no mapping of this function.
    Unknown,
}

/// The mappings of the handler's own function, by their queues.
pub(super) struct Mappings {
    functions: Arc<dyn Functions>,
    handler: Option<String>,
    known: Mutex<BTreeMap<String, Arc<Lookup<Response>>>>,
}

impl Mappings {
    /// The mappings of the function `handler`.
    pub(super) fn of(functions: Arc<dyn Functions>, handler: Option<String>) -> Self {
        Self {
            functions,
            handler,
            known: Mutex::default(),
        }
    }

    /// What the mapping of this queue does with the response. Looked up every five minutes if it reads it, since a mapping may be changed under a running handler, else at most once a minute, for at most this long.
    pub(super) async fn response(&self, queue: &str, longest: Duration) -> Response {
        let lookup = {
            let mut known = lock(&self.known);
            Arc::clone(known.entry(queue.to_owned()).or_default())
        };
        let lifetime = |response: &Response| {
            Some(match response {
                Response::Read => READ_CACHE_TIME,
                Response::Ignored | Response::Unknown => CACHE_TIME,
            })
        };
        lookup.get(lifetime, self.look_up(queue, longest)).await
    }

    async fn look_up(&self, queue: &str, longest: Duration) -> Response {
        match self.found(queue, longest.min(LOOKUP_TIMEOUT)).await {
            Ok(true) => Response::Read,
            Ok(false) => Response::Ignored,
            Err(why) => {
                tracing::warn!(
                    queue,
                    why,
                    "it is not known whether the event source mapping has ReportBatchItemFailures: an invocation fails if a message of its batch has to stay in the queue"
                );
                Response::Unknown
            }
        }
    }

    /// Whether the mapping reads the response, or why that is not known.
    async fn found(&self, queue: &str, longest: Duration) -> Result<bool, String> {
        let Some(handler) = &self.handler else {
            return Err("the handler does not know its own function".to_owned());
        };
        let found = self.functions.reports_failures(handler, queue);
        match timeout(longest, found).await {
            Ok(Ok(Some(reports))) => Ok(reports),
            Ok(Ok(None)) => Err(format!("{handler} has no mapping of this queue")),
            Ok(Err(error)) => Err(format!("{error}: allow lambda:ListEventSourceMappings")),
            Err(_) => Err(format!("no answer within {:.1} s", longest.as_secs_f32())),
        }
    }
}
