//! Services behind the fault proxy, each called as a program calls it.

mod dynamodb;
mod http;
mod s3;
mod sqs;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use backstop_core::decision::{Action, DecidedBy};
use backstop_retry::{Describe, Evaluated, Event, Policy, Retrier, RetrierBuilder, failure};
use backstop_tests::aws::config;
use backstop_tests::proxy::{Fault, Proxy};

pub(crate) use dynamodb::DynamoDb;
pub(crate) use http::{Hyper, Reqwest};
pub(crate) use s3::S3;
pub(crate) use sqs::Sqs;

/// A service, and a client for it that does not retry by itself.
pub(crate) trait Service: Sized {
    /// The client's error.
    type Error: Describe + Debug;

    /// A throttle of this service, with the code and the status that a policy sees.
    const THROTTLED: (Fault, &str, u16);

    /// An internal error of this service.
    const FAILED: (Fault, &str, u16);

    /// The code and the status of [`refused`](Self::refused).
    const REFUSED: (&str, u16);

    /// The policy for this service, with short delays.
    fn policy(attempts: u32) -> Arc<dyn Policy>;

    /// Starts the service and makes what a call needs.
    async fn prepare() -> Self;

    /// Where the service listens.
    fn upstream(&self) -> String;

    /// From now on, calls go to this address.
    async fn connect(&mut self, endpoint: &str);

    /// A call that succeeds unless the proxy gets in its way.
    async fn call(&self) -> Result<(), Self::Error>;

    /// A call that the service itself refuses.
    async fn refused(&self) -> Result<(), Self::Error>;
}

/// A service behind a proxy: the first requests have these faults, and all others the last one.
pub(crate) async fn behind<S: Service>(faults: &[Fault], others: Fault) -> (S, Proxy) {
    let mut service = S::prepare().await;
    let faults = faults.to_vec();
    let plan = move |_: &str, number| {
        let fault = usize::try_from(number).ok().and_then(|it| faults.get(it));
        fault.copied().unwrap_or(others)
    };
    let proxy = Proxy::start(&service.upstream(), plan).await;
    service.connect(&proxy.endpoint).await;
    (service, proxy)
}

/// The configuration of a client without retries of its own.
async fn without_retries(endpoint: &str) -> SdkConfig {
    let builder = config(endpoint).await.into_builder();
    builder.retry_config(RetryConfig::disabled()).build()
}

/// A failed attempt as the policy saw it, and what was decided.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) code: String,
    pub(crate) status: Option<u16>,
    pub(crate) class: String,
    /// How long the service asked to wait.
    pub(crate) asked: Option<Duration>,
    /// The delay that the policy wanted, before the retrier shortened it.
    pub(crate) wanted: Option<Duration>,
}

impl Seen {
    /// Code, status and class.
    pub(crate) fn error(&self) -> (&str, Option<u16>, &str) {
        (&self.code, self.status, &self.class)
    }

    fn new(failure: &failure::Failure, evaluated: &Evaluated) -> Self {
        let decision = &evaluated.decision;
        let wanted = match (&decision.action, &decision.decided_by) {
            (Action::Retry { .. }, DecidedBy::Shortened(wanted)) => Some(*wanted),
            (Action::Retry { delay }, _) => Some(*delay),
            (Action::DeadLetter { .. } | Action::Discard { .. }, _) => None,
        };
        Self {
            code: failure.error.code.clone(),
            status: failure.error.status,
            class: decision.class.to_string(),
            asked: failure.error.retry_after.map(|it| it.as_duration()),
            wanted: wanted.map(|it| it.as_duration()),
        }
    }
}

/// A policy that is shared.
#[derive(Debug)]
struct Shared(Arc<dyn Policy>);

impl Policy for Shared {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn answer(&self, failure: &failure::Failure) -> backstop_retry::decision::Answer {
        self.0.answer(failure)
    }
}

/// A retrier with the policy for this service, and every failure that it saw.
pub(crate) fn watched<S: Service>(attempts: u32) -> (RetrierBuilder, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::<Mutex<Vec<Seen>>>::default();
    let all = Arc::clone(&seen);
    let builder = Retrier::builder()
        .policy(Shared(S::policy(attempts)))
        .observe(move |event: &Event<'_>| {
            let (failure, evaluated) = match *event {
                Event::Retrying {
                    failure, evaluated, ..
                } => (failure, evaluated),
                Event::Ended {
                    failed: Some(failed),
                    ..
                } => failed,
                Event::Ended { failed: None, .. } | Event::Succeeded { .. } | _ => return,
            };
            all.lock().unwrap().push(Seen::new(failure, evaluated));
        });
    (builder, seen)
}

/// The policy of the AWS SDKs, with delays of a few milliseconds.
fn aws_policy(attempts: u32) -> Arc<dyn Policy> {
    let millisecond = Duration::from_millis(1);
    let policy = backstop_retry::AwsSdk::v2_1().base(millisecond);
    let policy = policy.throttling_base(2 * millisecond);
    Arc::new(policy.max_attempts(attempts))
}

/// A part of a name that differs in every test.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}
