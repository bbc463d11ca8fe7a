//! Dead letters that the dead-letter queue refuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_handlers::{Handler, function};
use backstop_host::consumer::Summary;
use backstop_queue::{
    BatchResult, Description, LocalQueue, Message, Outgoing, Queue, QueueError, ReceiptHandle,
    TrackedResult, VisibilityTimeout,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::trial::Trial;

/// A dead-letter queue that rejects messages at first: no emulator can do that, and the clock must be paused.
#[derive(Debug)]
struct Refusing {
    queue: Arc<LocalQueue>,
    refusals: Mutex<u32>,
}

#[async_trait::async_trait]
impl Queue for Refusing {
    fn url(&self) -> &str {
        self.queue.url()
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        self.queue.describe().await
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        self.queue.receive(max, wait, visibility).await
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        self.queue.delete(handles).await
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        self.queue.change_visibility(changes).await
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        {
            let mut refusals = self.refusals.lock().unwrap();
            if *refusals > 0 {
                *refusals -= 1;
                return Err(QueueError::new(
                    "SendMessageBatch",
                    "AccessDeniedException",
                    "not now",
                ));
            }
        }
        self.queue.send_tracked(messages).await
    }
}

/// A failure that no other attempt mends.
fn wrong() -> Error {
    Error::new("HTTP 400", "").status(400)
}

/// Starts a consumer whose dead-letter queue refuses this many letters first.
async fn start<F, W>(
    trial: &Trial,
    refusals: u32,
    work: F,
    stop: &CancellationToken,
) -> JoinHandle<Summary>
where
    F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Error>> + Send + 'static,
{
    let handler: Arc<dyn Handler> = Arc::new(function(work));
    let mut ready = trial.ready(handler.as_ref()).await;
    let refusing = Refusing {
        queue: Arc::clone(&trial.dead_letters),
        refusals: Mutex::new(refusals),
    };
    let (_, description) = ready.dead_letters.take().unwrap();
    ready.dead_letters = Some((Arc::new(refusing), description));
    tokio::spawn(trial.consumer(ready, handler).run(stop.clone()))
}

#[tokio::test(start_paused = true)]
async fn a_rejected_dead_letter_is_sent_again_without_another_attempt() {
    for name in ["orders", "orders.fifo"] {
        let trial = Trial::new(name);
        trial.send(&["wrong"]).await;
        let attempts = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&attempts);
        let work = move |_: Arc<Message>| {
            *counted.lock().unwrap() += 1;
            async { Err(wrong()) }
        };
        let (stop, started) = (CancellationToken::new(), Instant::now());
        let run = start(&trial, 20, work, &stop).await;
        trial.queue.emptied().await;
        stop.cancel();
        let summary = run.await.unwrap();
        assert_eq!((*attempts.lock().unwrap(), summary.received), (1, 1));
        let counts = (summary.dead_lettered, summary.dead_letters_refused);
        assert_eq!((counts, summary.retried), ((1, 20), 0));
        assert_eq!(trial.dead_letters.len(), 1);
        // From five seconds to ten minutes.
        let hours = started.elapsed().as_secs_f64() / 3_600.0;
        assert!((1.0..3.0).contains(&hours), "{hours}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_dead_letter_is_never_accepted_is_delivered_again_after_twelve_hours_and_at_shutdown()
 {
    let trial = Trial::new("orders");
    trial.send(&["wrong"]).await;
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let (noted, started) = (Arc::clone(&attempts), Instant::now());
    let work = move |_: Arc<Message>| {
        noted
            .lock()
            .unwrap()
            .push(started.elapsed().as_secs() / 3_600);
        async { Err(wrong()) }
    };
    let stop = CancellationToken::new();
    let run = start(&trial, u32::MAX, work, &stop).await;
    sleep(Duration::from_secs(15 * 3_600)).await;
    stop.cancel();
    let summary = run.await.unwrap();
    assert_eq!(*attempts.lock().unwrap(), [0, 11]);
    // The delay before the second attempt is unknown, because it was not a retry.
    let previous = trial
        .decisions()
        .into_iter()
        .map(|record| record.failure.previous_delay);
    assert_eq!(previous.collect::<Vec<_>>(), [None, None]);
    assert_eq!((summary.handed_back, summary.retried), (1, 0));
    let visible = trial
        .queue
        .receive(1, Duration::ZERO, Default::default())
        .await;
    assert_eq!(visible.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_held_dead_letter_whose_message_was_deleted_is_not_sent() {
    let trial = Trial::new("orders");
    trial.send(&["wrong"]).await;
    let taken: Arc<Mutex<Option<ReceiptHandle>>> = Arc::default();
    let noted = Arc::clone(&taken);
    let work = move |message: Arc<Message>| {
        *noted.lock().unwrap() = Some(message.receipt_handle.clone());
        async { Err(wrong()) }
    };
    let stop = CancellationToken::new();
    let run = start(&trial, 3, work, &stop).await;
    // The first letter is rejected and held. Then another client deletes the message.
    sleep(Duration::from_secs(1)).await;
    let handle = taken.lock().unwrap().clone().unwrap();
    assert_eq!(trial.queue.delete(&[handle]).await.unwrap(), [Ok(())]);
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(trial.dead_letters.len(), 0);
    stop.cancel();
    let summary = run.await.unwrap();
    assert_eq!((summary.received, summary.dead_lettered), (1, 0));
    assert_eq!(summary.handed_back, 0);
}
