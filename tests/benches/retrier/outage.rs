//! A dependency is down for a minute, and a hundred callers go on calling it: how many requests reach it. The clock is paused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use backstop_retry::Budget;
use tests_benches::{Better, Figure, Table, Unit};
use tokio::time::{Instant, sleep, sleep_until};

use crate::sides::{ATTEMPTS, by_hand, retrier, with_backon};

const CALLERS: u32 = 100;
const OUTAGE: Duration = Duration::from_secs(60);

/// A caller begins a call so long after the last one has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// The dependency: it counts its requests, and fails every one.
#[derive(Debug, Clone, Default)]
struct Down(Arc<AtomicU32>);

impl Down {
    async fn call(&self) -> Result<(), io::Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        // As long as a request over a network.
        sleep(Duration::from_millis(5)).await;
        Err(io::Error::from(io::ErrorKind::ConnectionReset))
    }
}

impl HttpConnector for Down {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let down = self.clone();
        HttpConnectorFuture::new(async move {
            let _ = Self::call(&down).await;
            let status = 503.try_into().unwrap();
            Ok(HttpResponse::new(status, SdkBody::empty()))
        })
    }
}

/// The requests of all sides.
pub(crate) fn compare() -> Table {
    let mut table = Table::new(
        "A dependency is down for a minute; 100 callers call it about once a second",
    )
    .column("requests", Unit::Number, Better::Less)
    .column("calls", Unit::Number, None)
    .because("A budget allows one retry a second when its tokens are used up, which the SDK's client does not. Without a budget, every call has its three attempts.");
    let by_hand = requests(|down| async move {
        let _ = by_hand(|| down.call()).await;
    });
    table.theirs("by hand", by_hand);
    let backon = requests(|down| async move {
        let _ = with_backon(|| down.call()).await;
    });
    table.theirs("backon", backon);
    let client = Arc::new(sdk());
    let sdk = requests(move |down| {
        let client = client(&down);
        async move {
            let _ = client.list_queues().send().await;
        }
    });
    table.theirs("the AWS SDK, one client", sdk);
    table.ours("Backstop, without a budget", ours(None));
    for (name, budget) in [
        ("aws-2.0", Budget::aws_2_0()),
        ("aws-2.1", Budget::aws_2_1()),
    ] {
        let name = format!("Backstop, with the budget {name}");
        table.ours(name, ours(Some(&budget)));
    }
    table
}

fn ours(budget: Option<&Budget>) -> [Figure; 2] {
    let retrier = retrier(budget);
    requests(move |down| {
        let retrier = retrier.clone();
        async move {
            let _ = retrier.run(|_| down.call()).await;
        }
    })
}

/// A client of the SDK with its own retries, whose requests go to the dependency.
fn sdk() -> impl Fn(&Down) -> Client {
    let made = std::sync::OnceLock::new();
    move |down| {
        let make = || {
            let connector = SharedHttpConnector::new(down.clone());
            let config = aws_sdk_sqs::Config::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::new("us-east-1"))
                .credentials_provider(Credentials::for_tests())
                .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
                .sleep_impl(aws_smithy_async::rt::sleep::TokioSleep::new())
                .http_client(http_client_fn(move |_, _| connector.clone()))
                .build();
            Client::from_conf(config)
        };
        made.get_or_init(make).clone()
    }
}

/// The requests that reach the dependency, and the calls.
fn requests<F: Future<Output = ()> + Send + 'static>(
    call: impl Fn(Down) -> F + Clone + Send + 'static,
) -> [Figure; 2] {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let (down, calls) = (Down::default(), Arc::new(AtomicU32::new(0)));
    runtime.block_on(async {
        let end = Instant::now() + OUTAGE;
        for number in 0..CALLERS {
            let (call, calls, down) = (call.clone(), Arc::clone(&calls), down.clone());
            tokio::spawn(async move {
                // Callers do not start together.
                sleep(PAUSE * number / CALLERS).await;
                loop {
                    calls.fetch_add(1, Ordering::Relaxed);
                    call(down.clone()).await;
                    sleep(PAUSE).await;
                }
            });
        }
        sleep_until(end).await;
    });
    [&down.0, &calls].map(|count| Figure::exact(count.load(Ordering::Relaxed).into()))
}
