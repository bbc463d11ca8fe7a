//! A local queue with the clock paused, its hosts, and what they saw and decided. A host reaches the queue through a [`Wire`], which a test can break.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::decision::{Action, Bounds, Hold};
use backstop_core::failure::{Error, Timestamp};
use backstop_decider::Decider;
use backstop_handlers::{Handler, function};
use backstop_host::consumer::{self, Consumer, Options, Ready, Summary};
use backstop_queue::envelope::EnvelopeKeys;
use backstop_queue::{
    Attribute, BATCH_ENTRIES, BatchResult, Connections, Description, LocalQueue, LocalSettings,
    Message, Outgoing, Queue, QueueError, ReceiptHandle, TrackedResult, VisibilityTimeout,
};
use backstop_records::Observer;
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::Waiting;
use backstop_tests_host::builtin;
use backstop_versions::LivePolicy;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::trial::Decisions;

pub(crate) const HOUR: u64 = 3_600;

/// A queue, a policy, and what its hosts saw and decided.
pub(crate) struct World {
    pub(crate) connections: Connections,
    pub(crate) queue: Arc<LocalQueue>,
    pub(crate) policy: &'static str,
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// Another policy than the built-in one above.
    pub(crate) live: Option<Arc<LivePolicy>>,
    /// The error code of a failing message.
    pub(crate) code: fn(&Message) -> String,
    pub(crate) bounds: Bounds,
    pub(crate) options: Options,
    /// The keys of its hosts, which are of one fleet.
    pub(crate) keys: Option<EnvelopeKeys>,
    /// The ids of messages are their bodies, so that runs with the same messages can be compared.
    pub(crate) ids_are_bodies: bool,
    pub(crate) started: Instant,
    /// The attempts of all hosts: when, and the message as the handler saw it.
    pub(crate) attempts: Arc<Mutex<Vec<(Duration, Message)>>>,
    pub(crate) decisions: Arc<Decisions>,
}

/// A running host of the queue.
pub(crate) struct Host {
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) wire: Arc<Wire>,
    stop: CancellationToken,
    run: JoinHandle<Summary>,
}

impl Host {
    pub(crate) async fn stopped(self) -> Summary {
        self.stop.cancel();
        self.run.await.unwrap()
    }

    /// Kills the host: from now on none of its requests reaches the queue.
    pub(crate) fn killed(self) {
        self.wire.is_cut.store(true, SeqCst);
        self.run.abort();
    }
}

/// A host's connection to its queue.
#[derive(Debug)]
pub(crate) struct Wire {
    queue: Arc<LocalQueue>,
    /// No request gets through, and none is answered.
    pub(crate) is_cut: AtomicBool,
    /// The connection is cut once messages were sent, before the host knows.
    pub(crate) cut_after_send: AtomicBool,
    /// So many sends arrive without an answer.
    pub(crate) lost_answers: AtomicU32,
    /// The error of each send from now on.
    pub(crate) send_error: Mutex<Option<QueueError>>,
    /// The error of each delete from now on.
    pub(crate) delete_error: Mutex<Option<QueueError>>,
    /// Messages arrive with their bodies as their ids.
    ids_are_bodies: bool,
}

impl Wire {
    fn to(queue: &Arc<LocalQueue>, ids_are_bodies: bool) -> Arc<Self> {
        Arc::new(Self {
            ids_are_bodies,
            queue: Arc::clone(queue),
            is_cut: AtomicBool::new(false),
            cut_after_send: AtomicBool::new(false),
            lost_answers: AtomicU32::new(0),
            send_error: Mutex::default(),
            delete_error: Mutex::default(),
        })
    }

    async fn answer<T>(&self, answer: T) -> T {
        if self.is_cut.load(SeqCst) {
            std::future::pending().await
        }
        answer
    }
}

#[async_trait::async_trait]
impl Queue for Wire {
    fn url(&self) -> &str {
        self.queue.url()
    }

    fn now(&self) -> Timestamp {
        self.queue.now()
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        self.answer(()).await;
        self.queue.describe().await
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        self.answer(()).await;
        let mut received = self.queue.receive(max, wait, visibility).await;
        if self.ids_are_bodies {
            for message in received.iter_mut().flatten() {
                message.id = message.body.to_string();
            }
        }
        self.answer(received).await
    }

    fn receive_is_cancel_safe(&self) -> bool {
        true
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        self.answer(()).await;
        let error = self.delete_error.lock().unwrap().clone();
        match error {
            Some(error) => Err(error),
            None => self.queue.delete(handles).await,
        }
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        self.answer(()).await;
        self.queue.change_visibility(changes).await
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        self.answer(()).await;
        let error = self.send_error.lock().unwrap().clone();
        if let Some(error) = error {
            return Err(error);
        }
        let sent = self.queue.send_tracked(messages).await;
        let one_less = |left: u32| left.checked_sub(1);
        if self
            .lost_answers
            .fetch_update(SeqCst, SeqCst, one_less)
            .is_ok()
        {
            // As of a request that the service has received, on a connection that broke then.
            return Err(QueueError::new(
                "SendMessageBatch",
                "ECONNRESET",
                "connection reset",
            ));
        }
        if self.cut_after_send.load(SeqCst) {
            self.is_cut.store(true, SeqCst);
        }
        self.answer(sent).await
    }
}

impl World {
    pub(crate) fn new(settings: &[(&'static str, &'static str)], hold: HoldMode) -> Self {
        let connections = Connections::default();
        Self {
            queue: connections.local.set_up("orders", LocalSettings::default()),
            connections,
            policy: "linear",
            settings: settings.to_vec(),
            live: None,
            code: |_| "HTTP 503".to_owned(),
            bounds: Bounds::default(),
            options: Options {
                hold,
                ..Options::default()
            },
            keys: Some(EnvelopeKeys::of_this_process([1; 32])),
            ids_are_bodies: false,
            started: Instant::now(),
            attempts: Arc::default(),
            decisions: Arc::default(),
        }
    }

    pub(crate) async fn send(&self, messages: impl IntoIterator<Item = Outgoing>) {
        let messages: Vec<_> = messages.into_iter().collect();
        for batch in messages.chunks(BATCH_ENTRIES) {
            for sent in self.queue.send(batch).await.unwrap() {
                sent.unwrap();
            }
        }
    }

    /// Starts a host whose handler fails the first `failures` attempts of each message, by the receive count.
    pub(crate) async fn host(&self, failures: u32) -> Host {
        let code = self.code;
        let answer = move |message: &Message| {
            if message.receive_count.get() <= failures {
                return Err(Error::new(code(message), "busy").status(503));
            }
            Ok(())
        };
        self.host_of(answer).await
    }

    /// Starts a host whose handler answers so.
    pub(crate) async fn host_of(
        &self,
        answer: impl Fn(&Message) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Host {
        let (attempts, started) = (Arc::clone(&self.attempts), self.started);
        let handler: Arc<dyn Handler> = Arc::new(function(move |message: Arc<Message>| {
            let seen = (started.elapsed(), (*message).clone());
            attempts.lock().unwrap().push(seen);
            let answered = answer(&message);
            async move { answered }
        }));
        let policy = self.live.clone();
        let policy = policy.unwrap_or_else(|| builtin(self.policy, self.settings.clone()));
        let decisions = Arc::clone(&self.decisions) as Arc<dyn Observer>;
        let decider = Decider::new("orders", policy, self.bounds).observed_by(decisions);
        let checked = consumer::check(
            &self.connections,
            self.queue.url(),
            None::<&str>,
            handler.as_ref(),
            &decider,
            &self.bounds,
            &self.options,
        );
        let wire = Wire::to(&self.queue, self.ids_are_bodies);
        let ready = Ready {
            queue: Arc::clone(&wire) as Arc<dyn Queue>,
            envelope_keys: self.keys.clone(),
            ..checked.await.unwrap().0
        };
        let consumer = Consumer::new("orders", ready, handler, decider, self.options.clone());
        let stop = CancellationToken::new();
        let waiting = consumer.waiting();
        let run = tokio::spawn(consumer.run(stop.clone()));
        Host {
            waiting,
            wire,
            stop,
            run,
        }
    }

    /// Runs one host until the queue is empty.
    pub(crate) async fn run(&self, failures: u32) -> Summary {
        let host = self.host(failures).await;
        self.queue.emptied().await;
        host.stopped().await
    }

    pub(crate) fn times(&self) -> Vec<u64> {
        let attempts = self.attempts.lock().unwrap();
        attempts.iter().map(|(when, _)| when.as_secs()).collect()
    }

    pub(crate) fn seen(&self) -> Vec<Message> {
        let attempts = self.attempts.lock().unwrap();
        attempts
            .iter()
            .map(|(_, message)| message.clone())
            .collect()
    }

    /// The attempts of each message by its body, in their order: its id and its receive count.
    pub(crate) fn by_body(&self) -> BTreeMap<String, Vec<(String, u32)>> {
        let mut attempts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for message in self.seen() {
            let attempt = (message.id.clone(), message.receive_count.get());
            attempts
                .entry(message.body.to_string())
                .or_default()
                .push(attempt);
        }
        attempts
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        let decisions = self.decisions.0.lock().unwrap();
        decisions
            .iter()
            .map(|record| record.decision.hold)
            .collect()
    }

    /// How late each attempt after a retry was, in seconds. Messages without copies only: it goes by the message's id and the number of the attempt.
    pub(crate) fn lateness(&self) -> Vec<f64> {
        let attempts = self.attempts.lock().unwrap();
        let decisions = self.decisions.0.lock().unwrap();
        let began = self.queue.now().0 - millis(self.started.elapsed());
        let made: BTreeMap<_, _> = attempts
            .iter()
            .map(|(when, message)| ((&message.id, message.receive_count), began + millis(*when)))
            .collect();
        let late = decisions.iter().filter_map(|record| {
            let Action::Retry { delay } = record.decision.action else {
                return None;
            };
            let failure = &record.failure;
            let due = failure.failed_at.plus(delay.as_duration()).0;
            let next = made[&(&failure.message_id, failure.attempt.saturating_add(1))];
            #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
            Some((next as f64 - due as f64) / 1_000.0)
        });
        late.collect()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

/// A message with everything that a sender can set.
pub(crate) fn full() -> Outgoing {
    Outgoing {
        attributes: [
            ("tenant".to_owned(), Attribute::string("t-1")),
            ("count".to_owned(), Attribute::number(7)),
        ]
        .into(),
        group: Some("fair".to_owned()),
        trace_header: Some("Root=1-2-3".to_owned()),
        ..Outgoing::new("{\"order\": 1}")
    }
}

/// This many messages, each with its number as its body.
pub(crate) fn numbered(count: usize) -> impl Iterator<Item = Outgoing> {
    (0..count).map(|number| Outgoing::new(number.to_string()))
}
