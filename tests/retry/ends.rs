//! The four ends of a call, for every service: which one, after how many requests, and the caller's own error inside.

use std::time::Duration;

use backstop_retry::{Budget, BudgetSettings, Describe, End, RetryError};
use backstop_tests::proxy::Fault;
use backstop_tests::refusal::Wait;
use tokio::time::Instant;

use crate::faults::for_each_service;
use crate::services::{DynamoDb, Hyper, Reqwest, S3, Service, Sqs, behind, watched};

const SECOND: Duration = Duration::from_secs(1);

for_each_service! {
    a_refused_request_is_permanent: permanent;
    a_policy_gives_up: gave_up;
    a_budget_is_exhausted: budget_exhausted;
    a_deadline_is_exceeded: deadline_exceeded;
}

/// The call ended so, and the error inside is the one that was described.
fn check<E: Describe>(error: RetryError<E>, end: End, attempts: u32, code: &str) {
    assert_eq!((error.end(), error.attempts()), (end, attempts));
    let described = error.description().unwrap().clone();
    assert_eq!(described.code, code);
    assert!(error.to_string().contains(code), "{error}");
    let own = error.into_inner().unwrap().describe();
    assert_eq!((own.code, own.status), (described.code, described.status));
}

async fn permanent<S: Service>() {
    let (service, proxy) = behind::<S>(&[], Fault::None).await;
    let (retrier, seen) = watched::<S>(8);
    let retrier = retrier.build().unwrap();
    let error = retrier.run(|_| service.refused()).await.unwrap_err();
    let (code, status) = S::REFUSED;
    check(error, End::Permanent, 1, code);
    let seen = seen.lock().unwrap();
    let seen: Vec<_> = seen.iter().map(|seen| seen.error()).collect();
    assert_eq!(seen, [(code, Some(status), "permanent")]);
    assert_eq!(proxy.requests(), 1);
}

async fn gave_up<S: Service>() {
    let (fault, code, _) = S::THROTTLED;
    let (service, proxy) = behind::<S>(&[], fault).await;
    let (retrier, seen) = watched::<S>(3);
    let retrier = retrier.build().unwrap();
    let error = retrier.run(|_| service.call()).await.unwrap_err();
    check(error, End::GaveUp, 3, code);
    assert_eq!((proxy.requests(), seen.lock().unwrap().len()), (3, 3));
}

async fn budget_exhausted<S: Service>() {
    let (fault, code, _) = S::THROTTLED;
    let (service, proxy) = behind::<S>(&[], fault).await;
    let (retrier, _) = watched::<S>(8);
    let settings = BudgetSettings::AWS_2_1.capacity(10).floor_per_second(0.0);
    let budget = Budget::new("small", settings);
    let retrier = retrier.budget(&budget).build().unwrap();
    // Two retries at 5 tokens each.
    let error = retrier.run(|_| service.call()).await.unwrap_err();
    check(error, End::BudgetExhausted, 3, code);
    let error = retrier.run(|_| service.call()).await.unwrap_err();
    check(error, End::BudgetExhausted, 1, code);
    assert_eq!((proxy.requests(), budget.left()), (4, 0.0));
}

async fn deadline_exceeded<S: Service>() {
    // The wait would end after the deadline, so it does not begin.
    let (service, proxy) = behind::<S>(&[], Fault::busy(Wait::Seconds(3_600))).await;
    let (retrier, seen) = watched::<S>(8);
    let retrier = retrier.build().unwrap();
    let started = Instant::now();
    let call = retrier.run(|_| service.call()).deadline(5 * SECOND);
    let error = call.await.unwrap_err();
    assert!(started.elapsed() < 4 * SECOND, "{:?}", started.elapsed());
    assert!(error.time_left().unwrap() > SECOND, "{error:?}");
    let code = seen.lock().unwrap().first().unwrap().code.clone();
    check(error, End::DeadlineExceeded, 1, &code);
    assert_eq!(proxy.requests(), 1);

    // The second attempt is cut short; the error of the first is inside.
    let (fault, code, _) = S::THROTTLED;
    let (service, proxy) = behind::<S>(&[fault], Fault::Hanging).await;
    let (retrier, _) = watched::<S>(8);
    let retrier = retrier.build().unwrap();
    let call = retrier.run(|_| service.call()).deadline(2 * SECOND);
    let error = call.await.unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::DeadlineExceeded, 2));
    assert_eq!(error.description().unwrap().code, "Timeout");
    assert_eq!(error.time_left(), Some(Duration::ZERO));
    assert_eq!(error.into_inner().unwrap().describe().code, code);
    assert_eq!(proxy.requests(), 2);
}

/// The type of the error is that of the SDK: nothing is lost.
#[tokio::test]
async fn the_error_inside_is_the_operations_own() {
    let (fault, ..) = DynamoDb::THROTTLED;
    let (service, _proxy) = behind::<DynamoDb>(&[], fault).await;
    let (retrier, _) = watched::<DynamoDb>(2);
    let retrier = retrier.build().unwrap();
    let error = retrier.run(|_| service.call()).await.unwrap_err();
    let own = error.into_inner().unwrap().into_service_error();
    assert!(own.is_provisioned_throughput_exceeded_exception(), "{own}");
}
