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
    let consumer = start(work, Arc::clone(&handled)).await;
    let stats = consumer.stats();
    let stopwatch = Stopwatch::start();
    tokio::spawn(consumer.run(CancellationToken::new()));
    // Until then, nothing disturbs the consumer.
    handled.notified().await;
    while settled(&stats) < messages {
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
    let consumer = start(work, Arc::default()).await;
    let stats = consumer.stats();
    tokio::spawn(consumer.run(CancellationToken::new()));
    sleep(WATCHED).await;
    let (seconds, receives) = (WATCHED.as_secs(), stats.receive_requests.get());
    println!("{receives} requests in {seconds} s   goal: one in 20 s or fewer");
}

/// A consumer whose policy hides failed messages for longer than a run. Tells when the handler was called for each of them.
async fn start(work: Work, handled: Arc<Notify>) -> Consumer {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = PartSpec {
        source: Source::builtin("linear"),
        settings: [("base", "1m")].into(),
    };
    let policy = LivePolicy::load(&sandbox, PolicySpec::Single(policy)).unwrap();
    let decider = Decider::new("orders", policy, Bounds::default());
    let options = Options {
        max_polls: work.polls,
        max_in_flight: work.in_flight,
        // The fewest requests while it is idle.
        idle_poll: Duration::from_secs(20),
        ..Options::default()
    };
    let connections = Connections::new(Some(work.endpoint.clone()));
    let (url, dead_letters) = (work.url.clone(), work.dead_letters.clone());
    let left = AtomicUsize::new(work.messages);
    let handler: Arc<dyn Handler> = Arc::new(function(move |message: Arc<Message>| {
        let fails = work.fails(&message.body);
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
    let checked = consumer::check(
        &connections,
        &url,
        Some(&dead_letters),
        handler.as_ref(),
        &decider,
        &bounds,
        &options,
    );
    let (ready, _) = checked.await.unwrap();
    Consumer::new("orders", ready, handler, decider, options)
}
