//! A consumer on the local queue, for tests with the clock paused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::decision::Bounds;
use backstop_core::failure::Error;
use backstop_decider::Decider;
use backstop_handlers::{Handler, function};
use backstop_host::consumer::{self, Consumer, Options, Ready, Summary};
use backstop_queue::{Connections, LocalQueue, Message, Outgoing, Queue};
use backstop_records::{DecisionRecord, Observer};
use backstop_settle::hold::HoldMode;
use backstop_tests_host::builtin;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Collects every decision.
#[derive(Default)]
pub(crate) struct Decisions(pub(crate) Mutex<Vec<DecisionRecord>>);

impl Observer for Decisions {
    fn decided(&self, record: &DecisionRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// One queue with a policy.
pub(crate) struct Trial {
    pub(crate) queue: Arc<LocalQueue>,
    pub(crate) dead_letters: Arc<LocalQueue>,
    connections: Connections,
    pub(crate) policy: &'static str,
    settings: Vec<(String, String)>,
    pub(crate) bounds: Bounds,
    pub(crate) options: Options,
    seen: Arc<Decisions>,
}

impl Trial {
    pub(crate) fn new(name: &str) -> Self {
        let connections = Connections::default();
        let dead = match name.strip_suffix(".fifo") {
            Some(stem) => format!("{stem}-dead-letters.fifo"),
            None => format!("{name}-dead-letters"),
        };
        Self {
            queue: connections.local.named(name),
            dead_letters: connections.local.named(&dead),
            connections,
            policy: "linear",
            settings: Vec::new(),
            bounds: Bounds::default(),
            options: Options::default(),
            seen: Arc::default(),
        }
    }

    pub(crate) fn by_visibility(mut self) -> Self {
        self.options.hold = HoldMode::Visibility;
        self
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) async fn send(&self, bodies: &[&str]) {
        let messages: Vec<_> = bodies
            .iter()
            .map(|body| Outgoing {
                group: Some("g".to_owned()),
                deduplication_id: Some((*body).to_owned()),
                ..Outgoing::new(*body)
            })
            .collect();
        for sent in self.queue.send(&messages).await.unwrap() {
            sent.unwrap();
        }
    }

    /// Sends this many batches of ten messages.
    pub(crate) async fn send_batches(&self, count: usize) {
        for batch in 0..count {
            let bodies: Vec<_> = (0..10).map(|number| format!("{batch}-{number}")).collect();
            self.send(&bodies.iter().map(String::as_str).collect::<Vec<_>>())
                .await;
        }
    }

    pub(crate) fn decider(&self) -> Decider {
        let policy = builtin(self.policy, self.settings.clone());
        let seen = Arc::clone(&self.seen) as Arc<dyn Observer>;
        Decider::new("orders", policy, self.bounds).observed_by(seen)
    }

    pub(crate) async fn ready(&self, handler: &dyn Handler) -> Ready {
        let (url, decider) = (self.queue.url(), self.decider());
        let checked = consumer::check(
            &self.connections,
            url,
            None::<&str>,
            handler,
            &decider,
            &self.bounds,
            &self.options,
        );
        checked.await.unwrap().0
    }

    /// Runs until the queue is empty.
    pub(crate) async fn run<F, W>(&self, work: F) -> Summary
    where
        F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let run = self.start(work, &stop).await;
        self.queue.emptied().await;
        stop.cancel();
        run.await.unwrap()
    }

    /// Runs until `stop` is cancelled.
    pub(crate) async fn start<F, W>(&self, work: F, stop: &CancellationToken) -> JoinHandle<Summary>
    where
        F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let handler: Arc<dyn Handler> = Arc::new(function(work));
        let ready = self.ready(handler.as_ref()).await;
        let consumer = self.consumer(ready, handler);
        tokio::spawn(consumer.run(stop.clone()))
    }

    /// A consumer of the queue, checked before.
    pub(crate) fn consumer(&self, ready: Ready, handler: Arc<dyn Handler>) -> Consumer {
        let (decider, options) = (self.decider(), self.options.clone());
        Consumer::new("orders", ready, handler, decider, options)
    }

    pub(crate) fn decisions(&self) -> Vec<DecisionRecord> {
        self.seen.0.lock().unwrap().clone()
    }

    pub(crate) async fn letters(&self) -> BTreeMap<String, Message> {
        let received = self
            .dead_letters
            .receive(10, Duration::ZERO, Default::default())
            .await
            .unwrap();
        received
            .into_iter()
            .map(|message| (message.body.to_string(), message))
            .collect()
    }
}

/// A failure that another attempt may mend.
pub(crate) fn unavailable() -> Error {
    Error::new("HTTP 503", "busy").status(503)
}
