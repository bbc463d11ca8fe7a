//! Backstop's library with a Rust function as the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop_core::decision::Bounds;
use backstop_core::failure::Error;
use backstop_decider::Decider;
use backstop_engine::{Limits, Sandbox};
use backstop_handlers::{Handler, function};
use backstop_host::consumer::{self, Consumer, Options, Stats};
use backstop_queue::{Connections, Message};
use backstop_versions::{LivePolicy, PartSpec, PolicySpec, Source};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::Work;
use crate::run::Stopwatch;

/// How long an idle consumer is watched: three polls of 20 s have ended or are under way.
const WATCHED: Duration = Duration::from_secs(59);

/// Consumes the messages, and ends with the process.
pub(crate) async fn run(work: Work) {
    let messages = u64::try_from(work.messages).unwrap();
    let handled = Arc::new(Notify::new());
    let consumers = start(work, Arc::clone(&handled)).await;
    let stats: Vec<_> = consumers.iter().map(Consumer::stats).collect();
    let stopwatch = Stopwatch::start();
    for consumer in consumers {
        tokio::spawn(consumer.run(CancellationToken::new()));
    }
    // Until then, nothing disturbs the consumers.
    handled.notified().await;
    while stats.iter().map(|it| settled(it)).sum::<u64>() < messages {
        sleep(Duration::from_millis(1)).await;
    }
    stopwatch.end();
}

fn settled(stats: &Stats) -> u64 {
    assert_eq!(stats.unsettled.get() + stats.fallbacks.get(), 0);
    stats.succeeded.get() + stats.retried.get()
}

/// Serves an empty queue, and prints the number of its receives.
pub(crate) async fn idle(work: Work) {
    let consumer = start(work, Arc::default()).await.remove(0);
    let stats = consumer.stats();
    tokio::spawn(consumer.run(CancellationToken::new()));
    sleep(WATCHED).await;
    let (seconds, receives) = (WATCHED.as_secs(), stats.receive_requests.get());
    println!("{receives} requests in {seconds} s   goal: one in 20 s or fewer");
}

/// A consumer for each queue, whose policy hides failed messages for longer than a run. Tells when the handler was called for the last message.
async fn start(work: Work, handled: Arc<Notify>) -> Vec<Consumer> {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = PartSpec {
        source: Source::builtin("linear"),
        settings: [("base", "1m")].into(),
    };
    let policy = LivePolicy::load(&sandbox, PolicySpec::Single(policy)).unwrap();
    let decider = Decider::new("orders", policy, Bounds::default());
    let queues = work.queues().count();
    // What the queues share.
    let options = Options {
        max_polls: (work.polls / queues).max(1),
        max_in_flight: (work.in_flight / queues).max(10),
        // The fewest requests while it is idle.
        idle_poll: Duration::from_secs(20),
        ..Options::default()
    };
    let connections = Connections::new(Some(work.endpoint.clone()));
    let left = AtomicUsize::new(work.messages);
    let work = Arc::new(work);
    let of_handler = Arc::clone(&work);
    let handler: Arc<dyn Handler> = Arc::new(function(move |message: Arc<Message>| {
        let fails = of_handler.fails(&message.body);
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            handled.notify_one();
        }
        async move {
            if fails {
                Err(Error::new("ECONNRESET", "connection reset by peer"))
            } else {
                Ok(())
            }
        }
    }));
    let bounds = Bounds::default();
    let mut consumers = Vec::new();
    for (url, dead_letters) in work.queues() {
        let checked = consumer::check(
            &connections,
            url,
            Some(dead_letters),
            handler.as_ref(),
            &decider,
            &bounds,
            &options,
        );
        let (ready, _) = checked.await.unwrap();
        let (handler, decider) = (Arc::clone(&handler), decider.clone());
        consumers.push(Consumer::new(
            "orders",
            ready,
            handler,
            decider,
            options.clone(),
        ));
    }
    consumers
}
