//! The SDK client's own retries inside a retrier: found, and turned off.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_sdk_sqs::Client;
use axum::Router;
use axum::http::StatusCode;
use backstop_retry::aws::ClientRetries;
use backstop_retry::{End, FullJitter, Retrier};
use backstop_tests::aws::config;
use tokio::net::TcpListener;

/// An endpoint that answers each request with 500, and how many it got.
async fn broken_service() -> (String, Arc<AtomicU32>) {
    let requests = Arc::<AtomicU32>::default();
    let counted = Arc::clone(&requests);
    let service = Router::new().fallback(async move || {
        counted.fetch_add(1, Ordering::Relaxed);
        (StatusCode::INTERNAL_SERVER_ERROR, "{}")
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, service).await });
    (url, requests)
}

/// What is logged on this thread.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The only test of this process that uses [`ClientRetries::Warn`], which logs once in a process.
#[tokio::test]
async fn a_clients_retries_are_off_inside_a_retrier_and_nowhere_else() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .without_time()
        .with_ansi(false)
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let logged = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let (endpoint, requests) = broken_service().await;
    let config = config(&endpoint).await;
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let policy = FullJitter::default().base(Duration::from_millis(1));
    let policy = policy.cap(Duration::from_millis(1)).max_attempts(2);
    let retrier = Retrier::builder().policy(policy).build().unwrap();
    for (interceptor, inside, outside, warnings) in [
        (None, 6, 3, 0),
        (Some(ClientRetries::Off), 2, 3, 0),
        (Some(ClientRetries::Warn), 6, 3, 1),
        // Once in a process.
        (Some(ClientRetries::Warn), 6, 3, 1),
    ] {
        let mut builder = aws_sdk_sqs::config::Builder::from(&config).retry_config(retries.clone());
        if let Some(interceptor) = interceptor {
            builder = builder.interceptor(interceptor);
        }
        let client = Client::from_conf(builder.build());
        let call = retrier.run(|_| client.list_queues().send());
        let error = call.await.unwrap_err();
        assert_eq!((error.end(), error.attempts()), (End::GaveUp, 2));
        assert_eq!(error.description().unwrap().status, Some(500));
        assert_eq!(
            requests.swap(0, Ordering::Relaxed),
            inside,
            "{interceptor:?}"
        );
        let log = logged();
        assert_eq!(log.lines().count(), warnings, "{interceptor:?}: {log}");
        client.list_queues().send().await.unwrap_err();
        assert_eq!(
            requests.swap(0, Ordering::Relaxed),
            outside,
            "{interceptor:?}"
        );
    }
    assert_eq!(
        logged(),
        " WARN backstop_retry::aws: an AWS client retries by itself inside a retrier, so that attempts multiply: configure it with RetryConfig::disabled() attempts=3\n"
    );
}
