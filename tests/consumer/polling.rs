//! How many polls a consumer makes at the same time: on a local queue that is 10 ms away, with the clock paused.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::decision::Bounds;
use backstop_decider::Decider;
use backstop_handlers::{Handler, function};
use backstop_host::consumer::{self, Consumer, Options, Ready, Stats, Summary};
use backstop_queue::{
    BATCH_ENTRIES, BatchResult, Connections, Description, LocalQueue, Message, Outgoing, Queue,
    QueueError, ReceiptHandle, TrackedResult, VisibilityTimeout,
};
use backstop_tests_host::builtin;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const LATENCY: Duration = Duration::from_millis(10);

/// A local queue whose answers take [`LATENCY`]. As with SQS, a poll that is dropped has taken its messages.
#[derive(Debug)]
struct Far {
    queue: Arc<LocalQueue>,
    under_way: AtomicUsize,
    /// For each poll: when it began, and how many were under way then.
    polls: Mutex<Vec<(Instant, usize)>>,
    /// How many polls fail from now on.
    failing: AtomicUsize,
}

impl Far {
    fn most(&self) -> usize {
        let polls = self.polls.lock().unwrap();
        polls.iter().map(|(_, polls)| *polls).max().unwrap_or(0)
    }

    fn polls_since(&self, start: Instant) -> Vec<usize> {
        let polls = self.polls.lock().unwrap();
        let recent = polls.iter().filter(|(began, _)| *began >= start);
        recent.map(|(_, polls)| *polls).collect()
    }
}

#[async_trait::async_trait]
impl Queue for Far {
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
        let under_way = self.under_way.fetch_add(1, SeqCst) + 1;
        self.polls.lock().unwrap().push((Instant::now(), under_way));
        sleep(LATENCY).await;
        let fails = self
            .failing
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        let received = match fails {
            Ok(_) => Err(QueueError::new("ReceiveMessage", "InternalFailure", "")),
            Err(_) => self.queue.receive(max, wait, visibility).await,
        };
        self.under_way.fetch_sub(1, SeqCst);
        received
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        sleep(LATENCY).await;
        self.queue.delete(handles).await
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        sleep(LATENCY).await;
        self.queue.change_visibility(changes).await
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        self.queue.send_tracked(messages).await
    }
}

/// A running consumer of a far queue.
struct Running {
    queue: Arc<Far>,
    stats: Arc<Stats>,
    stop: CancellationToken,
    run: JoinHandle<Summary>,
}

impl Running {
    /// A consumer whose attempts take `work`.
    async fn start(name: &str, messages: usize, options: Options, work: Duration) -> Self {
        let connections = Connections::default();
        let local = connections.local.named(name);
        connections
            .local
            .named(&name.replacen("orders", "orders-dead-letters", 1));
        let dead_letters = format!("local:{}", name.replacen("orders", "dead", 1));
        fill(&local, messages).await;
        let handler: Arc<dyn Handler> = Arc::new(function(move |_| async move {
            sleep(work).await;
            Ok(())
        }));
        let policy = builtin("linear", [("base", "1s")]);
        let bounds = Bounds::default();
        let decider = Decider::new("orders", policy, bounds);
        let checked = consumer::check(
            &connections,
            local.url(),
            Some(&dead_letters),
            handler.as_ref(),
            &decider,
            &bounds,
            &options,
        );
        let queue = Arc::new(Far {
            queue: Arc::clone(&local),
            under_way: AtomicUsize::new(0),
            polls: Mutex::default(),
            failing: AtomicUsize::new(0),
        });
        let ready = Ready {
            queue: Arc::clone(&queue) as Arc<dyn Queue>,
            ..checked.await.unwrap().0
        };
        let consumer = Consumer::new("orders", ready, handler, decider, options);
        let (stats, stop) = (consumer.stats(), CancellationToken::new());
        let run = tokio::spawn(consumer.run(stop.clone()));
        Self {
            queue,
            stats,
            stop,
            run,
        }
    }

    async fn stopped(self) -> (Arc<Far>, Summary) {
        self.stop.cancel();
        (self.queue, self.run.await.unwrap())
    }
}

async fn fill(queue: &LocalQueue, messages: usize) {
    let numbers: Vec<_> = (0..messages).collect();
    for numbers in numbers.chunks(BATCH_ENTRIES) {
        let batch: Vec<_> = numbers
            .iter()
            .map(|number| Outgoing {
                // Ten groups in a FIFO queue.
                group: Some(format!("g{}", number % 10)),
                deduplication_id: Some(number.to_string()),
                ..Outgoing::new(number.to_string())
            })
            .collect();
        for sent in queue.send(&batch).await.unwrap() {
            sent.unwrap();
        }
    }
}

fn options(max_polls: usize) -> Options {
    Options {
        max_polls,
        max_in_flight: 1_000,
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_queue_gets_as_many_polls_as_allowed_and_an_idle_one_gets_one_poll_after_another() {
    let started = Instant::now();
    let running = Running::start("orders", 5_000, options(8), Duration::ZERO).await;
    running.queue.queue.emptied().await;
    // One poll at a time would take five seconds.
    assert!(started.elapsed() < Duration::from_millis(1_200));
    assert_eq!(running.queue.most(), 8);
    let summary = running.stats.summary();
    assert!(summary.requests_per_message < 0.205, "{summary:?}");

    // The other polls end, and one poll after another remains.
    sleep(Duration::from_secs(60)).await;
    let idle = Instant::now();
    sleep(Duration::from_secs(200)).await;
    let polls = running.queue.polls_since(idle);
    assert!((95..=100).contains(&polls.len()), "{polls:?}");
    assert!(polls.iter().all(|under_way| *under_way == 1), "{polls:?}");
    let (queue, summary) = running.stopped().await;
    assert_eq!(summary.succeeded, 5_000);
    assert!(queue.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_poll_is_made_at_a_time_if_no_more_are_allowed_or_there_is_no_room() {
    for options in [
        options(1),
        Options {
            max_in_flight: 10,
            ..options(8)
        },
    ] {
        let running = Running::start("orders", 200, options, Duration::from_millis(5)).await;
        running.queue.queue.emptied().await;
        let (queue, summary) = running.stopped().await;
        assert_eq!((queue.most(), summary.succeeded), (1, 200));
    }
}

#[tokio::test(start_paused = true)]
async fn all_messages_in_flight_are_handled_at_the_same_time_in_each_wave() {
    let work = Duration::from_secs(10);
    let running = Running::start("orders", 1_000, options(8), work).await;
    // More than the workers that wait between the waves.
    for wave in 1..=3 {
        let started = Instant::now();
        running.queue.queue.emptied().await;
        assert!(started.elapsed() < 2 * work, "{:?}", started.elapsed());
        if wave < 3 {
            fill(&running.queue.queue, 1_000).await;
        }
    }
    let (_, summary) = running.stopped().await;
    assert_eq!((summary.received, summary.succeeded), (3_000, 3_000));
}

#[tokio::test(start_paused = true)]
async fn scarce_room_is_filled_with_full_polls() {
    // 100 messages at once, each of which takes a while: the polls share the room that becomes free.
    let options = Options {
        max_in_flight: 100,
        ..options(10)
    };
    let running = Running::start("orders", 3_000, options, Duration::from_millis(70)).await;
    running.queue.queue.emptied().await;
    let (_, summary) = running.stopped().await;
    let received = summary.received / summary.receive_requests;
    assert!(received >= 9, "{summary:?}");
}

#[tokio::test(start_paused = true)]
async fn a_trickle_of_messages_keeps_few_polls() {
    let running = Running::start("orders", 1_000, options(10), Duration::ZERO).await;
    running.queue.queue.emptied().await;
    for _ in 0..2_000 {
        fill(&running.queue.queue, 1).await;
        sleep(Duration::from_millis(20)).await;
    }
    let trickle = Instant::now();
    for _ in 0..500 {
        fill(&running.queue.queue, 1).await;
        sleep(Duration::from_millis(20)).await;
    }
    let polls = running.queue.polls_since(trickle);
    assert!(polls.iter().all(|under_way| *under_way <= 2), "{polls:?}");
    running.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn failing_polls_become_one_and_many_again_when_they_succeed() {
    let running = Running::start("orders", 4_000, options(6), Duration::ZERO).await;
    while running.queue.most() < 6 {
        sleep(LATENCY).await;
    }
    running.queue.failing.store(20, SeqCst);
    while running.queue.failing.load(SeqCst) > 6 {
        sleep(LATENCY).await;
    }
    let alone = Instant::now();
    while running.queue.failing.load(SeqCst) > 0 {
        sleep(LATENCY).await;
    }
    assert!(
        running
            .queue
            .polls_since(alone)
            .iter()
            .all(|polls| *polls == 1)
    );
    let again = Instant::now();
    running.queue.queue.emptied().await;
    assert!(running.queue.polls_since(again).contains(&6));
    let (_, summary) = running.stopped().await;
    assert_eq!((summary.succeeded, summary.receive_errors), (4_000, 20));
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_every_poll_and_no_message_is_lost() {
    for name in ["orders", "orders.fifo"] {
        let running = Running::start(name, 2_000, options(8), Duration::from_millis(200)).await;
        sleep(Duration::from_millis(145)).await;
        assert!(running.queue.under_way.load(SeqCst) > 0);
        let (queue, summary) = running.stopped().await;
        assert_eq!(queue.under_way.load(SeqCst), 0);
        assert_eq!(summary.received, summary.succeeded + summary.handed_back);
        let left = queue.queue.len();
        assert_eq!(left, 2_000 - usize::try_from(summary.succeeded).unwrap());
        // What was handed back is visible at once.
        let mut visible = 0;
        while let received = queue
            .queue
            .receive(10, Duration::ZERO, VisibilityTimeout::MAX)
            .await
            .unwrap()
            && !received.is_empty()
        {
            visible += received.len();
            for message in received {
                queue.queue.delete(&[message.receipt_handle]).await.unwrap();
            }
        }
        assert_eq!(visible, left);
    }
}
