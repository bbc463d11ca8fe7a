//! `backstop dlq redrive` as a library: whole runs on a queue that delivers the newest letters first. SQS keeps no order; every emulator delivers the oldest letters first.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Timestamp;
use backstop_dead_letters::redrive::{
    Activity, Outcome, Phase, Plan, Ramp, Runs, Setup, Summary, To, run,
};
use backstop_dead_letters::{Attempts, Filters};
use backstop_queue::{
    BatchResult, Connections, Description, LocalQueue, Message, Outgoing, Queue, QueueError,
    ReceiptHandle, TrackedResult, VisibilityTimeout,
};
use futures_util::FutureExt;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// A queue that delivers the newest letters first.
#[derive(Debug)]
struct NewestFirst {
    queue: Arc<LocalQueue>,
    /// The visible letters, received from the queue to be put into this order.
    visible: Mutex<Vec<Message>>,
}

#[async_trait]
impl Queue for NewestFirst {
    fn url(&self) -> &str {
        self.queue.url()
    }

    fn now(&self) -> Timestamp {
        self.queue.now()
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        let visible = self.visible.lock().await.len();
        let found = self.queue.describe().await?;
        Ok(Description {
            visible: found.visible.map(|it| it + visible),
            in_flight: found.in_flight.map(|it| it - visible),
            ..found
        })
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        let mut visible = self.visible.lock().await;
        // So that receives at the same time do not wait one after the other.
        let mut wait = if visible.is_empty() {
            wait.min(Duration::from_millis(50))
        } else {
            Duration::ZERO
        };
        loop {
            let more = self.queue.receive(10, wait, VisibilityTimeout::MAX).await?;
            if more.is_empty() {
                break;
            }
            visible.extend(more);
            wait = Duration::ZERO;
        }
        visible.sort_by_key(|it| it.sent);
        let left = visible.len().saturating_sub(max);
        let newest = visible.split_off(left);
        let changes: Vec<_> = newest
            .iter()
            .map(|it| (it.receipt_handle.clone(), visibility))
            .collect();
        if !changes.is_empty() {
            self.queue.change_visibility(&changes).await?;
        }
        Ok(newest)
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
        self.queue.send_tracked(messages).await
    }
}

struct World {
    connections: Arc<Connections>,
    letters: Arc<NewestFirst>,
    activity: Arc<Activity>,
    folder: TempDir,
}

impl World {
    async fn with_letters(letters: usize) -> Self {
        let connections = Arc::<Connections>::default();
        let world = Self {
            letters: Arc::new(NewestFirst {
                queue: connections.local.named("dead"),
                visible: Mutex::default(),
            }),
            connections,
            activity: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
        };
        world.put(letters).await;
        world
    }

    async fn put(&self, letters: usize) {
        for number in 0..letters {
            let letter = Outgoing::new(number.to_string());
            self.letters.send(&[letter]).await.unwrap();
        }
    }

    /// Moves ten letters, waits for two seconds, and moves the rest.
    fn run(&self) -> impl Future<Output = Summary> {
        let plan = Plan {
            version: 1,
            run: "a-run".to_owned(),
            started: Timestamp(0),
            who: "a test".to_owned(),
            why: None,
            queue: self.letters.url().to_owned(),
            endpoint_url: None,
            filters: Vec::new(),
            to: Some(To::Queue("local:orders".to_owned())),
            default_to: None,
            watched: Vec::new(),
            attempts: Attempts::Reset,
            rate: None,
            ramp: "10,all".parse::<Ramp>().unwrap(),
            stop_at: None,
            watch: Duration::from_secs(2),
            wait: Duration::from_secs(2),
            envelope_key_file: None,
            keep_copies: false,
            edit: false,
            native: false,
            visibility: 60,
            most: 10_000,
        };
        let runs = Runs::at(self.folder.path());
        let setup = Setup {
            queue: Arc::clone(&self.letters) as _,
            connections: Arc::clone(&self.connections),
            folder: runs.create(&plan).now_or_never().unwrap().unwrap(),
            checked: None,
            filters: Filters::default(),
            interval: None,
            editor: None,
            who: "a test".to_owned(),
            keys: None,
            despite: None,
            activity: Arc::clone(&self.activity),
            stop: CancellationToken::new(),
        };
        async move { run(setup).await.unwrap() }
    }

    /// Waits for the end of the first step.
    async fn first_step(&self) {
        while !matches!(self.activity.snapshot().phase, Phase::Watching(0, _)) {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn letters_behind_hundreds_that_arrived_later_are_moved() {
    let world = World::with_letters(60).await;
    let later = async {
        world.first_step().await;
        world.put(800).await;
    };
    let (summary, ()) = tokio::join!(world.run(), later);
    let counts = (
        summary.counts.moved,
        summary.ended.missing,
        summary.ended.outcome,
    );
    assert_eq!(counts, (60, Some(0), Outcome::Done), "{summary:?}");
    assert_eq!(world.connections.local.named("orders").len(), 60);
    assert_eq!(world.letters.queue.len(), 800);
}

#[tokio::test]
async fn letters_that_are_gone_end_a_run_although_the_queue_grows() {
    let world = World::with_letters(60).await;
    let ended = CancellationToken::new();
    let others = async {
        world.first_step().await;
        let taken = world
            .letters
            .receive(3, Duration::ZERO, VisibilityTimeout::MAX);
        let handles: Vec<_> = taken.await.unwrap();
        let handles: Vec<_> = handles.into_iter().map(|it| it.receipt_handle).collect();
        world.letters.delete(&handles).await.unwrap();
        while !ended.is_cancelled() {
            world.put(5).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let run = async {
        let summary = timeout(Duration::from_secs(40), world.run()).await;
        ended.cancel();
        summary.unwrap()
    };
    let (summary, ()) = tokio::join!(run, others);
    assert_eq!((summary.counts.moved, summary.ended.missing), (57, Some(3)));
}
