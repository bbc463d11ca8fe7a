//! The gate of a queue: closed while its worker is unavailable, so that no message is received for nobody.
//!
//! An attempt that finds the worker unavailable closes it. While it is closed, nothing is polled, and messages that were received already are returned without an attempt. A probe follows after growing pauses. Once the worker is reachable, the messages in flight grow again: one at first, and one more for each that reaches the worker.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::backoff::Backoff;
use backstop_core::lock::lock;
use metrics::Gauge;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::attempt::Outcome;
use super::polling::Polling;
use crate::failure::Error;
use crate::handler::Handler;

/// The pauses before the probes: from 1 to 2 seconds before the first, up to a minute.
const PAUSES: Backoff = Backoff::milliseconds(2_000, 60_000);

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(35);

/// How often the log repeats that the gate is closed.
const REMINDER: Duration = Duration::from_secs(60);

/// After this time an attempt counts as one that has reached the worker: some take minutes.
const REACHED: Duration = Duration::from_secs(1);

/// How many messages may be in flight: none while the gate is closed.
const CLOSED: usize = 0;
const OPEN: usize = usize::MAX;

/// The gate of one queue.
pub(super) struct Gate {
    queue: String,
    /// How many messages may be in flight.
    limit: watch::Sender<usize>,
    /// The same, for those that only look.
    current: AtomicUsize,
    /// How many messages the queue's options allow.
    most: usize,
    closed: Mutex<Closed>,
    polling: Arc<Polling>,
    gauge: Gauge,
    stop: CancellationToken,
}

/// How the worker was unavailable last.
#[derive(Debug, Default)]
struct Closed {
    /// Failed probes, and closings after which no message reached the worker.
    failures: u32,
    /// At most how many of the messages in flight began before the worker was available again: they may take long, and tell nothing about it.
    older: Option<usize>,
}

impl Gate {
    /// An open gate of this queue, for at most this many messages in flight.
    pub(super) fn new(
        queue: &str,
        most: usize,
        polling: &Arc<Polling>,
        gauge: Gauge,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        gauge.set(0);
        Arc::new(Self {
            queue: queue.to_owned(),
            limit: watch::Sender::new(OPEN),
            current: AtomicUsize::new(OPEN),
            most,
            closed: Mutex::default(),
            polling: Arc::clone(polling),
            gauge,
            stop: stop.clone(),
        })
    }

    /// Whether no message may be attempted now.
    pub(super) fn is_closed(&self) -> bool {
        self.current.load(SeqCst) == CLOSED
    }

    /// Whether any number of messages may be in flight.
    pub(super) fn is_open(&self) -> bool {
        self.current.load(SeqCst) == OPEN
    }

    /// Waits until another message may be in flight; `in_flight` counts them. Returns how many more may be.
    pub(super) async fn passed(&self, in_flight: impl Fn() -> usize) -> usize {
        /// In flight are also messages that are settled right now, of whose end nobody tells.
        const CHECK: Duration = Duration::from_millis(50);
        let mut limits = self.limit.subscribe();
        loop {
            let limit = *limits.borrow_and_update();
            let left = limit.saturating_sub(self.fresh(limit, in_flight()));
            if left > 0 {
                return left;
            }
            let changed = limits.changed();
            match limit {
                CLOSED => drop(changed.await),
                _ => drop(timeout(CHECK, changed).await),
            }
        }
    }

    /// How many of the messages in flight count towards the limit.
    fn fresh(&self, limit: usize, in_flight: usize) -> usize {
        if limit == CLOSED {
            return in_flight;
        }
        let mut closed = self.closed();
        let older = closed.older.unwrap_or(in_flight).min(in_flight);
        closed.older = Some(older);
        in_flight - older
    }

    /// Runs an attempt while the messages in flight grow: it lets one more pass once it has reached the worker.
    pub(super) async fn watch(&self, attempt: impl Future<Output = Outcome>) -> Outcome {
        tokio::pin!(attempt);
        tokio::select! {
            biased;
            outcome = &mut attempt => {
                match &outcome {
                    Outcome::Succeeded | Outcome::Failed(_) => self.reached(),
                    Outcome::Unavailable(_) | Outcome::Interrupted => {}
                }
                outcome
            }
            () = sleep(REACHED) => {
                self.reached();
                attempt.await
            }
        }
    }

    /// A message has reached the worker, whatever comes of it.
    fn reached(&self) {
        let mut closed = self.closed();
        let limit = match self.current.load(SeqCst) {
            // An attempt that began before.
            CLOSED => return,
            limit if limit >= self.most => OPEN,
            limit => limit + 1,
        };
        if closed.failures > 0 {
            closed.failures = 0;
            tracing::info!(queue = self.queue, "the worker is available again");
        }
        self.set(limit);
    }

    /// The worker is unavailable: closes the gate, and probes the worker until it is reachable or the consumer stops.
    pub(super) fn close(self: &Arc<Self>, error: &Error, handler: &Arc<dyn Handler>) {
        let mut closed = self.closed();
        if self.is_closed() {
            return;
        }
        self.set(CLOSED);
        self.gauge.set(1);
        self.polling.closed_by(Some(error.to_string()));
        if closed.failures == 0 {
            tracing::warn!(queue = self.queue, %error, "the worker is unavailable: the queue is not polled until it is available again, and its messages wait in the queue without an attempt");
        }
        closed.failures = closed.failures.saturating_add(1);
        closed.older = None;
        let failures = closed.failures;
        drop(closed);
        let (gate, handler) = (Arc::clone(self), Arc::clone(handler));
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = gate.probe(handler.as_ref(), failures) => {}
                () = gate.stop.cancelled() => {}
            }
        });
    }

    /// Probes the worker until it is reachable. Then one message may try.
    async fn probe(&self, handler: &dyn Handler, mut failures: u32) {
        let mut logged = Instant::now();
        loop {
            sleep(PAUSES.wait(failures, rand::random())).await;
            let probed = timeout(PROBE_TIMEOUT, handler.is_reachable()).await;
            let error = match probed {
                Ok(Ok(())) => return self.let_one_through(),
                Ok(Err(error)) => error.within_bounds(),
                Err(_) => Error::new("ETIMEDOUT", "the probe got no answer"),
            };
            failures = failures.saturating_add(1);
            self.closed().failures = failures;
            self.polling.closed_by(Some(error.to_string()));
            if logged.elapsed() >= REMINDER {
                logged = Instant::now();
                tracing::warn!(queue = self.queue, %error, probes = failures, "the worker is still unavailable");
            }
        }
    }

    fn let_one_through(&self) {
        let _closed = self.closed();
        self.gauge.set(0);
        self.polling.closed_by(None);
        self.set(1);
    }

    fn set(&self, limit: usize) {
        self.current.store(limit, SeqCst);
        self.limit.send_replace(limit);
    }

    fn closed(&self) -> MutexGuard<'_, Closed> {
        lock(&self.closed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use async_trait::async_trait;

    use super::*;
    use crate::queue::Message;

    /// A worker that is reachable or not, and counts the probes.
    #[derive(Debug, Default)]
    struct Worker {
        is_up: AtomicBool,
        probes: AtomicUsize,
    }

    #[async_trait]
    impl Handler for Worker {
        async fn handle(&self, _: &Message) -> Result<(), Error> {
            Ok(())
        }

        async fn is_reachable(&self) -> Result<(), Error> {
            self.probes.fetch_add(1, SeqCst);
            if self.is_up.load(SeqCst) {
                Ok(())
            } else {
                Err(down())
            }
        }
    }

    fn down() -> Error {
        Error::unavailable("ECONNREFUSED", "nobody listens")
    }

    fn gate(stop: &CancellationToken) -> (Arc<Gate>, Arc<Polling>, Arc<Worker>) {
        let polling = Arc::<Polling>::default();
        let gate = Gate::new("orders", 4, &polling, Gauge::noop(), stop);
        (gate, polling, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn probes_follow_after_growing_pauses_until_the_worker_is_reachable() {
        let (gate, polling, worker) = gate(&CancellationToken::new());
        let _poller = polling.poller();
        let handler: Arc<dyn Handler> = worker.clone();
        gate.close(&down(), &handler);
        gate.close(&down(), &handler);
        assert!(gate.is_closed());
        let problem = polling.problem().unwrap();
        assert!(
            problem.contains("ECONNREFUSED: nobody listens"),
            "{problem}"
        );
        sleep(Duration::from_millis(999)).await;
        assert_eq!(worker.probes.load(SeqCst), 0);
        sleep(Duration::from_millis(9_000)).await;
        assert!((2..=5).contains(&worker.probes.load(SeqCst)));
        sleep(Duration::from_secs(600)).await;
        let before = worker.probes.load(SeqCst);
        sleep(Duration::from_secs(600)).await;
        // From 30 to 60 s apart.
        let probes = worker.probes.load(SeqCst) - before;
        assert!((10..=20).contains(&probes), "{probes}");
        worker.is_up.store(true, SeqCst);
        assert_eq!(gate.passed(|| 0).await, 1);
        assert_eq!(polling.problem(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_messages_in_flight_grow_from_one_to_all() {
        let (gate, _, worker) = gate(&CancellationToken::new());
        worker.is_up.store(true, SeqCst);
        let handler: Arc<dyn Handler> = worker;
        assert!(gate.is_open());
        gate.close(&down(), &handler);
        // An attempt that began before does not open it.
        gate.reached();
        assert!(gate.is_closed());
        assert_eq!(gate.passed(|| 0).await, 1);
        let another = timeout(Duration::from_secs(60), gate.passed(|| 1)).await;
        assert!(another.is_err(), "one is in flight");
        for left in [2, 3, 4] {
            gate.reached();
            assert_eq!(gate.passed(|| 0).await, left);
        }
        gate.reached();
        assert!(gate.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_began_before_do_not_count_and_need_not_end() {
        let (gate, _, worker) = gate(&CancellationToken::new());
        worker.is_up.store(true, SeqCst);
        let handler: Arc<dyn Handler> = worker;
        gate.close(&down(), &handler);
        // Three hang since before.
        assert_eq!(gate.passed(|| 3).await, 1);
        let another = timeout(Duration::from_secs(60), gate.passed(|| 4)).await;
        assert!(another.is_err(), "one has passed");
        gate.reached();
        assert_eq!(gate.passed(|| 3).await, 2);
        // One of them ends: it makes no room for another one than itself.
        assert_eq!(gate.passed(|| 2).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_is_reachable_and_takes_no_message_is_probed_ever_more_rarely() {
        let (gate, _, worker) = gate(&CancellationToken::new());
        worker.is_up.store(true, SeqCst);
        let handler: Arc<dyn Handler> = worker;
        let started = Instant::now();
        for _ in 0..8 {
            gate.close(&down(), &handler);
            gate.passed(|| 0).await;
        }
        assert!(started.elapsed() > Duration::from_secs(60));
        gate.reached();
        let started = Instant::now();
        gate.close(&down(), &handler);
        gate.passed(|| 0).await;
        assert!(started.elapsed() <= Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn no_probe_follows_a_stop() {
        let stop = CancellationToken::new();
        let (gate, _, worker) = gate(&stop);
        let handler: Arc<dyn Handler> = worker.clone();
        gate.close(&down(), &handler);
        stop.cancel();
        sleep(Duration::from_secs(600)).await;
        assert_eq!(worker.probes.load(SeqCst), 0);
    }
}
