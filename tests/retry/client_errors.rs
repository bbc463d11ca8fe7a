//! Errors of the AWS SDK's clients themselves: timeouts of their own, and requests that are never sent.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use backstop_core::decision::ErrorClass;
use backstop_retry::{Error, Profile, Retrier, TestClock};
use backstop_tests::aws::config;
use backstop_tests::emulator::ministack;
use backstop_tests::proxy::{Fault, Proxy};

async fn builder(endpoint: &str) -> Builder {
    let builder = Builder::from(&config(endpoint).await);
    let builder = builder.retry_config(RetryConfig::disabled());
    builder.force_path_style(true)
}

/// The error is permanent, or not, for the policies of the AWS SDKs and for the others.
fn is_permanent(error: &Error) -> [bool; 2] {
    [Profile::S3, Profile::Http].map(|profile| {
        let clock = TestClock::new();
        let retrier = Retrier::builder().clock(clock.clone()).profile(profile);
        let retrier = retrier.build().unwrap();
        let call = retrier.run(|_| async { Err::<(), _>(error.clone()) });
        let ended = clock.block_on(call).unwrap_err();
        ended.decision().unwrap().class == ErrorClass::Permanent
    })
}

#[tokio::test]
async fn the_clients_own_timeouts_are_timeouts() {
    let proxy = Proxy::start(&ministack().endpoint, |_, _| Fault::Hanging).await;
    let limit = Duration::from_millis(100);
    for timeouts in [
        TimeoutConfig::builder().operation_attempt_timeout(limit),
        TimeoutConfig::builder().operation_timeout(limit),
        TimeoutConfig::builder().read_timeout(limit),
    ] {
        let config = builder(&proxy.endpoint).await;
        let client = Client::from_conf(config.timeout_config(timeouts.build()).build());
        let retrier = Retrier::builder().max_attempts(1).build().unwrap();
        let call = retrier.run(|_| client.list_buckets().send());
        let error = call.await.unwrap_err();
        let described = error.description().unwrap();
        assert_eq!(described.code, "ETIMEDOUT", "{error:?}");
        assert_eq!(is_permanent(described), [false, false]);
    }
}

#[tokio::test]
async fn a_request_that_is_never_sent_is_described_by_its_reason() {
    let endpoint = &ministack().endpoint;
    let client = Client::from_conf(builder(endpoint).await.build());
    let nowhere = Client::from_conf(builder("no endpoint").await.build());
    let retrier = Retrier::builder().max_attempts(1).build().unwrap();
    let object = |client: &Client| client.get_object().bucket("articles").key("a-1");
    for (request, code, expected) in [
        (
            client.get_object().bucket("articles"),
            "ValidationException",
            [true, true],
        ),
        (
            client.get_object().key("a-1"),
            "ValidationException",
            [true, true],
        ),
        (
            object(&client).bucket(""),
            "ValidationException",
            [true, true],
        ),
        // The SDK does not retry it; the default classification does not know it.
        (object(&nowhere), "DispatchFailure", [true, false]),
    ] {
        let call = retrier.run(|_| request.clone().send());
        let error = call.await.unwrap_err();
        let described = error.description().unwrap();
        let seen = (&*described.code, described.status);
        assert_eq!(seen, (code, None), "{error:?}");
        assert_eq!(is_permanent(described), expected);
    }
}

/// S3 may begin a long operation with status 200 and then fail.
#[tokio::test]
async fn an_error_in_a_response_of_status_200_is_that_error() {
    for (code, expected) in [
        ("InternalError", ErrorClass::Transient),
        ("SlowDown", ErrorClass::Throttled),
        ("AccessDenied", ErrorClass::Permanent),
    ] {
        let plan = move |_: &str, _| Fault::refused(200, code);
        let proxy = Proxy::start(&ministack().endpoint, plan).await;
        let client = Client::from_conf(builder(&proxy.endpoint).await.build());
        let copy = client.copy_object().bucket("articles").key("a-2");
        let copy = copy.copy_source("articles/a-1");
        for profile in [Profile::S3, Profile::Http] {
            let retrier = Retrier::builder().profile(profile).max_attempts(1);
            let call = retrier.build().unwrap();
            let call = call.run(|_| copy.clone().send());
            let error = call.await.unwrap_err();
            assert_eq!(error.description().unwrap().code, code, "{error:?}");
            assert_eq!(error.decision().unwrap().class, expected, "{profile}");
        }
    }
}
