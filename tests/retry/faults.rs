//! Every fault of every service: what the policy sees, how many attempts there are, how long they wait.

use std::time::Duration;

use backstop_tests::emulator::free_port;
use backstop_tests::proxy::Fault;
use backstop_tests::refusal::Wait;
use tokio::time::Instant;

use crate::services::{DynamoDb, Hyper, Reqwest, S3, Service, Sqs, behind, watched};

const SECOND: Duration = Duration::from_secs(1);

/// The test for each service.
macro_rules! for_each_service {
    ($($test:ident: $check:ident;)+) => {$(
        mod $test {
            use super::*;

            #[tokio::test]
            async fn dynamodb() {
                $check::<DynamoDb>().await;
            }

            #[tokio::test]
            async fn s3() {
                $check::<S3>().await;
            }

            #[tokio::test]
            async fn sqs() {
                $check::<Sqs>().await;
            }

            #[tokio::test]
            async fn http_with_reqwest() {
                $check::<Reqwest>().await;
            }

            #[tokio::test]
            async fn http_with_hyper() {
                $check::<Hyper>().await;
            }
        }
    )+};
}
pub(crate) use for_each_service;

for_each_service! {
    every_fault_is_retried_and_seen_as_it_is: faults;
    a_slow_answer_is_a_failed_attempt: slow_answers;
    the_time_that_a_service_asks_for_is_respected: waits;
    a_service_that_is_down_refuses_connections: down;
}

async fn faults<S: Service>() {
    let (throttled, throttled_code, throttled_status) = S::THROTTLED;
    let (failed, failed_code, failed_status) = S::FAILED;
    let faults = [throttled, failed, Fault::Closed, Fault::Cut];
    let (service, proxy) = behind::<S>(&faults, Fault::None).await;
    let (retrier, seen) = watched::<S>(8);
    let retrier = retrier.build().unwrap();
    retrier.run(|_| service.call()).await.unwrap();
    assert_eq!(proxy.requests(), 5);
    let seen = seen.lock().unwrap();
    let seen: Vec<_> = seen.iter().map(|seen| seen.error()).collect();
    // The connection was closed without a response, and then in the middle of one.
    let expected = [
        (throttled_code, Some(throttled_status), "throttled"),
        (failed_code, Some(failed_status), "transient"),
        ("ECONNRESET", None, "transient"),
        ("ECONNRESET", None, "transient"),
    ];
    assert_eq!(seen, expected);
}

async fn slow_answers<S: Service>() {
    let (service, proxy) = behind::<S>(&[Fault::Hanging], Fault::None).await;
    let (retrier, seen) = watched::<S>(8);
    let retrier = retrier.attempt_timeout(2 * SECOND).build().unwrap();
    retrier.run(|_| service.call()).await.unwrap();
    assert_eq!(proxy.requests(), 2);
    let seen = seen.lock().unwrap();
    let seen: Vec<_> = seen.iter().map(|seen| seen.error()).collect();
    assert_eq!(seen, [("Timeout", None, "transient")]);
}

async fn waits<S: Service>() {
    let asked = [Wait::Seconds(4), Wait::Date(4), Wait::Milliseconds(1_500)];
    let faults = asked.map(Fault::busy);
    let (service, proxy) = behind::<S>(&faults, Fault::None).await;
    let (retrier, seen) = watched::<S>(8);
    // The test does not wait for what the policy decides.
    let longest = Duration::from_millis(5);
    let retrier = retrier.max_delay(longest).build().unwrap();
    retrier.run(|_| service.call()).await.unwrap();
    assert_eq!(proxy.requests(), 4);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let asked: Vec<_> = seen.iter().map(|seen| seen.asked.unwrap()).collect();
    assert_eq!((asked[0], asked[2]), (4 * SECOND, SECOND * 3 / 2));
    // A date has whole seconds, and some of them have passed.
    assert!((SECOND..=4 * SECOND).contains(&asked[1]), "{asked:?}");
    let wanted: Vec<_> = seen.iter().map(|seen| seen.wanted.unwrap()).collect();
    assert_eq!(wanted, asked);

    // And it waits.
    let (service, _proxy) = behind::<S>(&[Fault::busy(Wait::Seconds(1))], Fault::None).await;
    let (retrier, _) = watched::<S>(8);
    let retrier = retrier.build().unwrap();
    let started = Instant::now();
    retrier.run(|_| service.call()).await.unwrap();
    assert!(started.elapsed() >= SECOND, "{:?}", started.elapsed());
}

async fn down<S: Service>() {
    let mut service = S::prepare().await;
    let nobody = format!("http://127.0.0.1:{}", free_port());
    service.connect(&nobody).await;
    let (retrier, seen) = watched::<S>(2);
    let retrier = retrier.build().unwrap();
    let error = retrier.run(|_| service.call()).await.unwrap_err();
    assert_eq!(error.attempts(), 2);
    for seen in &*seen.lock().unwrap() {
        assert_eq!(seen.error(), ("ECONNREFUSED", None, "transient"));
    }
}
