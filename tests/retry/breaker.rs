//! A breaker and a bulkhead in front of a real HTTP server that goes down and comes back.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use backstop_retry::{
    Backoff, Breaker, BreakerSettings, BreakerState, Bulkhead, End, FullJitter, ReqwestError,
    Retrier, RetryError, success,
};
use backstop_tests::emulator::free_port;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What a server counts, also over several lives.
#[derive(Debug, Default)]
struct Seen {
    requests: AtomicU32,
    under_way: AtomicU32,
    most: AtomicU32,
    /// Answers 503.
    fails: AtomicBool,
}

impl Seen {
    fn begin(&self) -> UnderWay<'_> {
        let under_way = self.under_way.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(under_way, SeqCst);
        UnderWay(self)
    }

    /// A request that takes 20 ms.
    async fn request(&self) -> StatusCode {
        self.requests.fetch_add(1, SeqCst);
        let _under_way = self.begin();
        if !self.fails.load(SeqCst) {
            sleep(20 * MS).await;
        }
        if self.fails.load(SeqCst) {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::OK
        }
    }
}

/// Counts a request that is under way, until it is dropped.
struct UnderWay<'a>(&'a Seen);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
    }
}

/// Listens on this port until the task is aborted.
async fn serve(port: u16, seen: &Arc<Seen>) -> JoinHandle<()> {
    let seen = Arc::clone(seen);
    let router = Router::new().route("/", get(async move || seen.request().await));
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
}

/// Callers that call again as soon as a call has ended, until they are dropped.
struct Callers {
    succeeded: Arc<AtomicU32>,
    refused: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Callers {
    fn start(count: usize, port: u16, retrier: &Retrier) -> Self {
        let (succeeded, refused) = <(Arc<AtomicU32>, Arc<AtomicU32>)>::default();
        let (mut tasks, client) = (JoinSet::new(), client());
        for _ in 0..count {
            let (retrier, client) = (retrier.clone(), client.clone());
            let (succeeded, refused) = (Arc::clone(&succeeded), Arc::clone(&refused));
            tasks.spawn(async move {
                loop {
                    match call(&retrier, &client, port).await {
                        Ok(()) => succeeded.fetch_add(1, SeqCst),
                        Err(error) if error.end() == End::BreakerOpen => {
                            refused.fetch_add(1, SeqCst)
                        }
                        Err(_) => 0,
                    };
                    sleep(5 * MS).await;
                }
            });
        }
        Self {
            succeeded,
            refused,
            _tasks: tasks,
        }
    }
}

/// Connections are not kept: an aborted server would go on with those.
fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().pool_max_idle_per_host(0);
    client.build().unwrap()
}

async fn call(
    retrier: &Retrier,
    client: &reqwest::Client,
    port: u16,
) -> Result<(), RetryError<ReqwestError>> {
    retrier.run(|_| request(client, port)).await
}

async fn request(client: &reqwest::Client, port: u16) -> Result<(), ReqwestError> {
    let request = client.get(format!("http://127.0.0.1:{port}/"));
    success(request.send().await?)?;
    Ok(())
}

fn retrier(breaker: &Breaker) -> Retrier {
    let policy = FullJitter::default().base(10 * MS).max_attempts(3);
    let retrier = Retrier::builder().policy(policy).breaker(breaker);
    retrier.attempt_timeout(SECOND).build().unwrap()
}

fn breaker() -> Breaker {
    let settings = BreakerSettings::default()
        .shortest_outage(200 * MS)
        .pauses(Backoff::milliseconds(200, 400))
        .most(8);
    Breaker::new("articles", settings)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(MS).await;
        }
    };
    timeout(20 * SECOND, waiting).await.expect(what);
}

#[tokio::test]
async fn a_server_that_goes_down_is_left_alone_and_its_load_comes_back_step_by_step() {
    let (seen, breaker, port) = (Arc::<Seen>::default(), breaker(), free_port());
    let mut server = serve(port, &seen).await;
    let callers = Callers::start(40, port, &retrier(&breaker));
    until("calls succeed", || callers.succeeded.load(SeqCst) > 200).await;
    assert_eq!(breaker.status().state, BreakerState::Closed);
    assert_eq!(callers.refused.load(SeqCst), 0);

    // Twice, once with an error status and once with refused connections.
    for is_listening in [true, false] {
        let is_open = || !matches!(breaker.status().state, BreakerState::Closed);
        if is_listening {
            seen.fails.store(true, SeqCst);
        } else {
            server.abort();
        }
        until("it opens", is_open).await;
        let (requests, refused) = (seen.requests.load(SeqCst), callers.refused.load(SeqCst));
        let opened = Instant::now();
        sleep(2 * SECOND).await;
        // A probe in each 100 to 400 ms.
        let probes = seen.requests.load(SeqCst) - requests;
        let most = u32::try_from(opened.elapsed().as_millis()).unwrap() / 100 + 40;
        assert!(probes <= most, "{probes}");
        assert!(callers.refused.load(SeqCst) - refused > 1_000);

        seen.fails.store(false, SeqCst);
        seen.most.store(0, SeqCst);
        let succeeded = callers.succeeded.load(SeqCst);
        if !is_listening {
            server = serve(port, &seen).await;
        }
        until("a probe succeeds", || {
            callers.succeeded.load(SeqCst) > succeeded
        })
        .await;
        until("it is closed", || !is_open()).await;
        assert!(callers.succeeded.load(SeqCst) - succeeded >= 20);
        until("all come back", || seen.most.load(SeqCst) > 20).await;
    }
    server.abort();
}

#[tokio::test]
async fn no_more_attempts_are_under_way_at_once_than_the_bulkhead_has_places() {
    let (seen, port, client) = (Arc::<Seen>::default(), free_port(), client());
    let server = serve(port, &Arc::default()).await;
    let bulkhead = Bulkhead::new("articles", 4);
    let patient = Retrier::builder().bulkhead(&bulkhead).build().unwrap();
    let hasty = bulkhead.clone().without_waiting();
    let hasty = Retrier::builder().bulkhead(&hasty).build().unwrap();
    let mut calls = JoinSet::new();
    for number in 0..60 {
        let (patient, client, seen) = (patient.clone(), client.clone(), Arc::clone(&seen));
        calls.spawn(async move {
            let call = patient.run(|_| async {
                let _under_way = seen.begin();
                request(&client, port).await
            });
            // Some give up, at any time.
            match number % 3 {
                0 => drop(timeout(number * 4 * MS, call).await),
                _ => call.await.unwrap(),
            }
        });
    }
    until("all places are taken", || bulkhead.free() == 0).await;
    let error = call(&hasty, &client, port).await.unwrap_err();
    assert_eq!(error.end(), End::BulkheadFull);
    while let Some(ended) = calls.join_next().await {
        ended.unwrap();
    }
    assert_eq!((bulkhead.free(), seen.most.load(SeqCst)), (4, 4));
    server.abort();
}
