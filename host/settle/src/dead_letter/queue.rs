//! Where the dead letters of a queue go. Each dead-letter queue is found when a letter needs it first, so that nothing else waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::lookup::Lookup;
use crate::queue::{
    Attribute, BatchedSends, Description, Linger, Outgoing, Queue, QueueError, Requests,
    SubmitError,
};

use crate::spans::in_span;
use backstop_traces::{Destination, Kind};

/// How long it is cached that a dead-letter queue could not be found.
const FAILURE_CACHED: Duration = Duration::from_secs(5);

/// A dead-letter queue and its attributes; `None` if there is none.
type Found = Option<(Arc<dyn Queue>, Description)>;

/// Finds a dead-letter queue.
pub type Find = Box<dyn Fn() -> BoxFuture<'static, Result<Found, QueueError>> + Send + Sync>;

/// Finds what is known already.
pub fn known(found: Found) -> Find {
    Box::new(move || std::future::ready(Ok(found.clone())).boxed())
}

/// Sends letters to a dead-letter queue.
pub struct DeadLetterQueue {
    pub(crate) description: Description,
    place: Destination,
    sends: BatchedSends,
}

impl DeadLetterQueue {
    /// The ARN.
    pub fn arn(&self) -> &str {
        &self.description.arn
    }

    /// Sends a letter, with retries until `until`. Returns its id, if the queue has said it.
    pub async fn send(
        &self,
        letter: Outgoing,
        until: Instant,
    ) -> Result<Option<String>, SubmitError> {
        let id = letter.attributes.get("BackstopMessageId");
        let id = id.map(Attribute::to_text);
        let send = self.sends.send(letter, until);
        in_span(Kind::Send, &self.place, id.as_deref(), send).await
    }
}

/// How a dead-letter queue is found, and the result.
struct Place {
    find: Find,
    found: Lookup<Result<Option<Arc<DeadLetterQueue>>, QueueError>>,
}

impl From<Find> for Place {
    fn from(find: Find) -> Self {
        let found = Lookup::default();
        Self { find, found }
    }
}

/// The dead-letter queues of a queue.
pub(crate) struct DeadLetterQueues {
    default: Place,
    classes: BTreeMap<String, Place>,
    linger: Linger,
    requests: Arc<Requests>,
}

impl DeadLetterQueues {
    /// The queues of classes, and the `default` queue of all other ones. A letter waits for at most `linger` for others to share its batch.
    pub(crate) fn new(
        default: Find,
        classes: impl IntoIterator<Item = (String, Find)>,
        linger: Linger,
        requests: &Arc<Requests>,
    ) -> Self {
        let classes = classes.into_iter();
        Self {
            default: default.into(),
            classes: classes.map(|(class, find)| (class, find.into())).collect(),
            linger,
            requests: Arc::clone(requests),
        }
    }

    /// The queue for dead letters of this class, if there is one. Looked up when it is needed first, and again some time after a failure.
    pub(crate) async fn of(
        &self,
        class: Option<&str>,
    ) -> Result<Option<Arc<DeadLetterQueue>>, QueueError> {
        let own = class.and_then(|class| self.classes.get(class));
        let Place { find, found } = own.unwrap_or(&self.default);
        let cached = |found: &Result<_, _>| found.is_err().then_some(FAILURE_CACHED);
        let look_up = async { Ok(find().await?.map(|found| self.start(found))) };
        found.get(cached, look_up).await
    }

    fn start(&self, (queue, description): (Arc<dyn Queue>, Description)) -> Arc<DeadLetterQueue> {
        Arc::new(DeadLetterQueue {
            description,
            place: Destination::queue(queue.url()),
            sends: BatchedSends::start(&queue, self.linger.clone(), &self.requests),
        })
    }
}
