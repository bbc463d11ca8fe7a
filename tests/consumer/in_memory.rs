//! The consumer on the local queue with the clock paused, so that hours of retries take no time.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::decision::{Action, Bounds, DecidedBy};
use backstop::failure::{Error, Milliseconds};
use backstop::handler::{Handler, function};
use backstop::internal::consumer::{self, Consumer, Options, Ready};
use backstop::internal::decider::Decider;
use backstop::internal::record::Observer;
use backstop::queue::{
    BatchResult, Connections, Description, LocalQueue, Message, Outgoing, Queue, QueueError,
    ReceiptHandle, VisibilityTimeout,
};
use backstop::record::DecisionRecord;
use backstop::{HoldMode, Summary};
use backstop_engine::{Limits, Sandbox};
use backstop_tests::policies::builtin;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Collects every decision.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<DecisionRecord>>);

impl Observer for Seen {
    fn decided(&self, record: &DecisionRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// One queue with a policy and a handler, run until it is empty.
struct Trial {
    queue: Arc<LocalQueue>,
    dead_letters: Arc<LocalQueue>,
    connections: Connections,
    policy: &'static str,
    settings: Vec<(String, String)>,
    bounds: Bounds,
    options: Options,
    seen: Arc<Seen>,
}

impl Trial {
    fn new(name: &str) -> Self {
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

    fn by_visibility(mut self) -> Self {
        self.options.hold = HoldMode::Visibility;
        self
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    async fn send(&self, bodies: &[&str]) {
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

    fn decider(&self) -> Decider {
        let policy = builtin(self.policy, self.settings.clone());
        let seen = Arc::clone(&self.seen) as Arc<dyn Observer>;
        Decider::new("orders", policy, self.bounds).observed_by(seen)
    }

    async fn ready(&self, handler: &dyn Handler) -> Ready {
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
    async fn run<F, W>(&self, work: F) -> Summary
    where
        F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let handler: Arc<dyn Handler> = Arc::new(function(work));
        let ready = self.ready(handler.as_ref()).await;
        let consumer = Consumer::new(
            "orders",
            ready,
            handler,
            self.decider(),
            self.options.clone(),
        );
        let stop = CancellationToken::new();
        let run = tokio::spawn(consumer.run(stop.clone()));
        self.queue.emptied().await;
        stop.cancel();
        run.await.unwrap()
    }

    fn decisions(&self) -> Vec<DecisionRecord> {
        self.seen.0.lock().unwrap().clone()
    }

    async fn letters(&self) -> BTreeMap<String, Message> {
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

fn unavailable() -> Error {
    Error {
        status: Some(503),
        ..Error::new("HTTP 503", "busy")
    }
}

fn delays(decisions: &[DecisionRecord]) -> Vec<u32> {
    let delay = |record: &DecisionRecord| match record.decision.action {
        Action::Retry { delay } => Some(delay.0),
        Action::DeadLetter { .. } | Action::Discard { .. } => None,
    };
    decisions.iter().filter_map(delay).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_retried_when_its_delay_is_over_and_not_earlier() {
    let trial = Trial::new("orders").set("base", "1h");
    trial.send(&["a"]).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let (noted, started) = (Arc::clone(&times), Instant::now());
    let summary = trial
        .run(move |message| {
            noted.lock().unwrap().push(started.elapsed().as_secs());
            let failed = message.receive_count.get() < 4;
            async move { if failed { Err(unavailable()) } else { Ok(()) } }
        })
        .await;
    // One, two and three hours after one another.
    assert_eq!(*times.lock().unwrap(), [0, 3_600, 3 * 3_600, 6 * 3_600]);
    assert_eq!(
        (summary.received, summary.retried, summary.succeeded),
        (4, 3, 1)
    );
    let decisions = trial.decisions();
    assert_eq!(delays(&decisions), [3_600_000, 7_200_000, 10_800_000]);
    let previous: Vec<_> = decisions
        .iter()
        .map(|record| record.failure.previous_delay.map(|delay| delay.0))
        .collect();
    assert_eq!(previous, [None, Some(3_600_000), Some(7_200_000)]);
    assert!(decisions[2].failure.age.0 >= 3 * 3_600_000);
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_twelve_hours_is_cut_to_what_sqs_allows() {
    let trial = Trial::new("orders").by_visibility();
    let trial = trial.set("base", "13h").set("cap", "14d");
    trial.send(&["a"]).await;
    trial
        .run(|message| async move {
            if message.receive_count.get() == 1 {
                Err(unavailable())
            } else {
                Ok(())
            }
        })
        .await;
    let record = &trial.decisions()[0];
    assert_eq!(
        record.decision.decided_by,
        DecidedBy::Shortened(Milliseconds(13 * 3_600_000))
    );
    // Less a minute's margin, and the moments since the receive.
    let allowed = 12 * 3_600_000 - 60_000;
    assert!((allowed - 1_000..=allowed).contains(&delays(&trial.decisions())[0]));
}

#[tokio::test(start_paused = true)]
async fn a_message_is_dead_lettered_before_the_queue_would_drop_it() {
    let trial = Trial::new("orders").by_visibility();
    let trial = trial.set("base", "11h").set("cap", "11h");
    trial.send(&["a"]).await;
    let summary = trial.run(|_| async { Err(unavailable()) }).await;
    // Four days of retention: after the ninth attempt at 88 h the next would come at 99 h.
    assert_eq!((summary.dead_lettered, summary.retried), (1, 8));
    let reason = trial.letters().await["a"].attributes["BackstopReason"].to_text();
    assert!(
        reason.contains("after the queue's retention of 4d"),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_bounds_of_a_queue_apply_to_every_policy() {
    let mut trial = Trial::new("orders").set("base", "1s");
    trial.bounds = Bounds {
        max_attempts: NonZeroU32::new(3),
        max_age: Some(Milliseconds(60_000)),
        ..Bounds::default()
    };
    trial.send(&["attempts"]).await;
    trial.run(|_| async { Err(unavailable()) }).await;
    assert_eq!(
        trial.letters().await["attempts"].attributes["BackstopReason"].to_text(),
        "the queue's max-attempts of 3 reached: HTTP 503"
    );

    let mut trial = Trial::new("orders").set("base", "31s");
    trial.bounds = Bounds {
        max_age: Some(Milliseconds(60_000)),
        ..Bounds::default()
    };
    trial.send(&["age"]).await;
    trial.run(|_| async { Err(unavailable()) }).await;
    assert_eq!(
        trial.letters().await["age"].attributes["BackstopReason"].to_text(),
        "the queue's max-age of 1m reached: HTTP 503"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_an_endless_attempt_are_failures_like_any_other() {
    let mut trial = Trial::new("orders").set("base", "1s");
    trial.options.attempt_timeout = Duration::from_secs(90);
    trial.send(&["panics", "hangs"]).await;
    let summary = trial
        .run(|message| async move {
            match (message.body.as_ref(), message.receive_count.get()) {
                ("panics", 1) => panic!("no such order"),
                ("hangs", 1) => std::future::pending().await,
                _ => Ok(()),
            }
        })
        .await;
    assert_eq!(summary.succeeded, 2);
    let errors: BTreeMap<_, _> = trial
        .decisions()
        .into_iter()
        .map(|record| (record.failure.error.code, record.failure.error.message))
        .collect();
    assert_eq!(errors["Panic"], "no such order");
    assert_eq!(errors["Timeout"], "no outcome within 1m30s");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_never_undoes_the_outcome_of_its_attempt() {
    let trial = Trial::new("orders").set("base", "2s");
    trial.send(&["long"]).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let (noted, started) = (Arc::clone(&times), Instant::now());
    // The visibility timeout is 30 s: heartbeats come at 10, 20, 30 and 40 s, and the attempt fails at the time of the fourth.
    trial
        .run(move |message| {
            noted.lock().unwrap().push(started.elapsed().as_secs());
            async move {
                if message.receive_count.get() > 1 {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_secs(40)).await;
                Err(unavailable())
            }
        })
        .await;
    assert_eq!(*times.lock().unwrap(), [0, 42]);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_keeps_the_unfinished_messages_of_a_receive_and_no_others() {
    let trial = Trial::new("orders").set("base", "100s");
    trial.send(&["fails", "long"]).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let (noted, started) = (Arc::clone(&times), Instant::now());
    trial
        .run(move |message| {
            let attempt = (message.body.to_string(), started.elapsed().as_secs());
            noted.lock().unwrap().push(attempt);
            async move {
                match (message.body.as_ref(), message.receive_count.get()) {
                    ("fails", 1) => return Err(unavailable()),
                    ("fails", _) => {}
                    _ => tokio::time::sleep(Duration::from_secs(200)).await,
                }
                Ok(())
            }
        })
        .await;
    let expected = [("fails", 0), ("long", 0), ("fails", 100)];
    let expected = expected.map(|(body, seconds)| (body.to_owned(), seconds));
    let mut times = times.lock().unwrap();
    times.sort_by_key(|(body, seconds)| (*seconds, body.clone()));
    assert_eq!(*times, expected);
}

#[tokio::test(start_paused = true)]
async fn receives_without_an_attempt_are_not_counted_as_attempts() {
    let trial = Trial::new("orders.fifo")
        .set("base", "1s")
        .set("max-attempts", "4");
    trial.send(&["head", "behind"]).await;
    let summary = trial
        .run(|message| async move {
            match (message.body.as_ref(), message.receive_count.get()) {
                ("head", 1..=3) => Err(unavailable()),
                ("behind", count) if count < 6 => Err(unavailable()),
                _ => Ok(()),
            }
        })
        .await;
    // It was returned three times behind the failed head; its own attempts 1 and 2 are at receives 4 and 5.
    assert_eq!(
        (
            summary.succeeded,
            summary.handed_back,
            summary.dead_lettered
        ),
        (2, 3, 0)
    );
    let decisions = trial.decisions();
    let attempts: Vec<_> = decisions
        .iter()
        .map(|record| record.failure.attempt.get())
        .collect();
    assert_eq!(attempts, [1, 2, 3, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn receives_of_a_group_by_another_process_are_not_counted_as_attempts() {
    let trial = Trial::new("orders.fifo")
        .set("base", "1s")
        .set("max-attempts", "4");
    trial.send(&["head", "behind"]).await;
    // Another process, or this one before a restart, has made six failed attempts at the first of the group.
    for _ in 0..6 {
        let visibility = VisibilityTimeout::from_seconds(30);
        let received = trial.queue.receive(10, Duration::ZERO, visibility).await;
        let back: Vec<_> = received
            .unwrap()
            .into_iter()
            .map(|message| (message.receipt_handle, VisibilityTimeout::ZERO))
            .collect();
        trial.queue.change_visibility(&back).await.unwrap();
    }
    let tries = Arc::new(Mutex::new(BTreeMap::new()));
    let summary = trial
        .run(move |message| {
            let mut tries = tries.lock().unwrap();
            let tries = tries.entry(message.body.clone()).or_insert(0);
            *tries += 1;
            let is_done = *tries == 4;
            async move { if is_done { Ok(()) } else { Err(unavailable()) } }
        })
        .await;
    assert_eq!((summary.succeeded, summary.dead_lettered), (2, 0));
    let decisions = trial.decisions();
    let attempts = decisions.iter().map(|record| record.failure.attempt.get());
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn the_same_failure_gets_the_same_decision_again() {
    let mut trial = Trial::new("orders").set("base", "1m");
    trial.policy = "full-jitter";
    trial.send(&["a"]).await;
    trial
        .run(|message| async move {
            if message.receive_count.get() < 6 {
                Err(unavailable())
            } else {
                Ok(())
            }
        })
        .await;
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = backstop_versions::load(&sandbox, "full-jitter", &[("base", "1m")]).unwrap();
    for record in trial.decisions() {
        let again = policy
            .evaluate(&record.failure, &Default::default())
            .answer
            .unwrap();
        assert_eq!(
            (again.class, again.action),
            (record.decision.class, record.decision.action)
        );
        assert_eq!(
            record.failure.random,
            backstop::failure::random(&record.failure.message_id, record.failure.attempt)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_messages_take_few_requests() {
    let trial = Trial::new("orders");
    for batch in 0..100 {
        let bodies: Vec<_> = (0..10).map(|number| format!("{batch}-{number}")).collect();
        trial
            .send(&bodies.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
    }
    let summary = trial.run(|_| async { Ok(()) }).await;
    assert_eq!(summary.succeeded, 1_000);
    assert!(
        summary.requests_per_message <= 0.22,
        "{}",
        summary.requests_per_message
    );
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_behind_others_of_their_group_stay_invisible() {
    let trial = Trial::new("orders.fifo");
    let bodies: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    trial
        .send(&bodies.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&order);
    // Ten times eight seconds, and the visibility timeout is 30 s.
    let summary = trial
        .run(move |message| {
            noted.lock().unwrap().push(message.body.to_string());
            async move {
                tokio::time::sleep(Duration::from_secs(8)).await;
                Ok(())
            }
        })
        .await;
    assert_eq!(*order.lock().unwrap(), bodies);
    assert_eq!(
        (summary.received, summary.succeeded, summary.unsettled),
        (10, 10, 0)
    );
}

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

    async fn send(&self, messages: &[Outgoing]) -> BatchResult {
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
        self.queue.send(messages).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_dead_letter_is_sent_again_without_another_attempt() {
    for name in ["orders", "orders.fifo"] {
        let trial = Trial::new(name);
        trial.send(&["wrong"]).await;
        let attempts = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&attempts);
        let handler: Arc<dyn Handler> = Arc::new(function(move |_| {
            *counted.lock().unwrap() += 1;
            async {
                Err(Error {
                    status: Some(400),
                    ..Error::new("HTTP 400", "")
                })
            }
        }));
        let mut ready = trial.ready(handler.as_ref()).await;
        let refusing = Refusing {
            queue: Arc::clone(&trial.dead_letters),
            refusals: Mutex::new(20),
        };
        let (_, description) = ready.dead_letters.take().unwrap();
        ready.dead_letters = Some((Arc::new(refusing), description));
        let consumer = Consumer::new(
            "orders",
            ready,
            handler,
            trial.decider(),
            trial.options.clone(),
        );
        let (stop, started) = (CancellationToken::new(), Instant::now());
        let run = tokio::spawn(consumer.run(stop.clone()));
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
    let handler: Arc<dyn Handler> = Arc::new(function(move |_| {
        noted
            .lock()
            .unwrap()
            .push(started.elapsed().as_secs() / 3_600);
        async {
            Err(Error {
                status: Some(400),
                ..Error::new("HTTP 400", "")
            })
        }
    }));
    let mut ready = trial.ready(handler.as_ref()).await;
    let refusing = Refusing {
        queue: Arc::clone(&trial.dead_letters),
        refusals: Mutex::new(u32::MAX),
    };
    let (_, description) = ready.dead_letters.take().unwrap();
    ready.dead_letters = Some((Arc::new(refusing), description));
    let consumer = Consumer::new(
        "orders",
        ready,
        handler,
        trial.decider(),
        trial.options.clone(),
    );
    let stop = CancellationToken::new();
    let run = tokio::spawn(consumer.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(15 * 3_600)).await;
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
    let handler: Arc<dyn Handler> = Arc::new(function(move |message: Arc<Message>| {
        *noted.lock().unwrap() = Some(message.receipt_handle.clone());
        async {
            Err(Error {
                status: Some(400),
                ..Error::new("HTTP 400", "")
            })
        }
    }));
    let mut ready = trial.ready(handler.as_ref()).await;
    let refusing = Refusing {
        queue: Arc::clone(&trial.dead_letters),
        refusals: Mutex::new(3),
    };
    let (_, description) = ready.dead_letters.take().unwrap();
    ready.dead_letters = Some((Arc::new(refusing), description));
    let consumer = Consumer::new(
        "orders",
        ready,
        handler,
        trial.decider(),
        trial.options.clone(),
    );
    let stop = CancellationToken::new();
    let run = tokio::spawn(consumer.run(stop.clone()));
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

#[tokio::test(start_paused = true)]
async fn a_long_linger_does_not_cause_a_second_delivery_during_an_attempt() {
    let mut trial = Trial::new("orders").set("base", "20s");
    trial.options.linger = Duration::from_secs(5);
    trial.options.visibility_timeout = Some(VisibilityTimeout::from_seconds(3));
    trial.send(&["long"]).await;
    let summary = trial
        .run(|message| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            match message.receive_count.get() {
                1 => Err(unavailable()),
                _ => Ok(()),
            }
        })
        .await;
    assert_eq!((summary.received, summary.succeeded), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_received_while_the_messages_in_flight_reach_the_byte_limit() {
    let mut trial = Trial::new("orders");
    trial.options.max_bytes_in_flight = 1 << 20;
    let bodies: Vec<_> = (0..40)
        .map(|number| format!("{number}{}", "x".repeat(200_000)))
        .collect();
    for bodies in bodies.chunks(5) {
        let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
        trial.send(&bodies).await;
    }
    let (in_hand, peak) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let highest = Arc::clone(&peak);
    let summary = trial
        .run(move |_| {
            let (in_hand, peak) = (Arc::clone(&in_hand), Arc::clone(&highest));
            async move {
                let now = in_hand.fetch_add(1, Ordering::SeqCst) + 1;
                peak.fetch_max(now, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
                in_hand.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        })
        .await;
    assert_eq!(summary.succeeded, 40);
    // Five of them reach the limit of a megabyte; one receive may add ten.
    let peak = peak.load(Ordering::SeqCst);
    assert!((5..=15).contains(&peak), "{peak}");
}
