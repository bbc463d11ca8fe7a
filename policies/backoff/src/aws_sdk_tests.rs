//! The numbers of the AWS SDKs, written from their sources.

use super::*;
use crate::Class::{Permanent, Throttled, Transient};

const JUST_BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

fn failed(attempt: u32, random: f64, retry_after: Option<Milliseconds>) -> FailedAttempt<'static> {
    FailedAttempt {
        code: "c",
        status: None,
        retry_after,
        attempt,
        age: 0,
        previous_delay: None,
        random,
    }
}

#[test]
fn the_longest_delays_double_from_the_base_of_the_class_to_the_cap() {
    let ceilings = |sdk: &AwsSdk, class| {
        [1, 2, 3, 4, 5, 6, 10, u32::MAX]
            .map(|attempt| sdk.delay(&failed(attempt, JUST_BELOW_ONE, None), Some(class)))
    };
    let from_a_second = [1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000, 20_000];
    assert_eq!(ceilings(&AwsSdk::V2_0, Transient), from_a_second);
    assert_eq!(ceilings(&AwsSdk::V2_0, Throttled), from_a_second);
    assert_eq!(ceilings(&AwsSdk::V2_1, Throttled), from_a_second);
    assert_eq!(ceilings(&AwsSdk::V2_1_DYNAMODB, Throttled), from_a_second);
    assert_eq!(
        ceilings(&AwsSdk::V2_1, Transient),
        [50, 100, 200, 400, 800, 1_600, 20_000, 20_000]
    );
    assert_eq!(
        ceilings(&AwsSdk::V2_1_DYNAMODB, Transient),
        [25, 50, 100, 200, 400, 800, 12_800, 20_000]
    );
    for sdk in [AwsSdk::V2_0, AwsSdk::V2_1] {
        assert_eq!(sdk.delay(&failed(3, 0.0, None), Some(Throttled)), 0);
        assert_eq!(sdk.delay(&failed(3, 0.5, None), Some(Throttled)), 2_000);
    }
}

/// The cases of the tests `v2_1_retry_after_*` in the SDK, and those of 2.0.
#[test]
fn a_delay_that_the_service_asks_for_is_limited_differently_by_each_generation() {
    for (random, asked_for, by_2_0, by_2_1) in [
        (0.5, 1_500, 1_500, 1_500),
        (0.5, 100, 100, 500),
        (0.5, 60_000, 20_000, 5_500),
        (0.0, 0, 0, 0),
        (0.0, u32::MAX, 20_000, 5_000),
    ] {
        let failed = failed(1, random, Some(asked_for));
        assert_eq!(AwsSdk::V2_0.delay(&failed, Some(Throttled)), by_2_0);
        assert_eq!(AwsSdk::V2_1.delay(&failed, Some(Throttled)), by_2_1);
        let off = AwsSdk {
            respect_retry_after: false,
            ..AwsSdk::V2_1
        };
        let expected = if random == 0.5 { 500 } else { 0 };
        assert_eq!(off.delay(&failed, Some(Throttled)), expected);
    }
    let longest = AwsSdk {
        base: LONGEST_DELAY,
        cap: LONGEST_DELAY,
        ..AwsSdk::V2_1
    };
    let asked = failed(1, JUST_BELOW_ONE, Some(u32::MAX));
    assert_eq!(longest.delay(&asked, Some(Transient)), LONGEST_DELAY);
}

#[test]
fn only_what_the_sdk_retries_is_throttled_or_transient() {
    // aws-runtime, `THROTTLING_ERRORS`.
    let throttling = "Throttling ThrottlingException ThrottledException RequestThrottledException \
        TooManyRequestsException ProvisionedThroughputExceededException TransactionInProgressException \
        RequestLimitExceeded BandwidthLimitExceeded LimitExceededException RequestThrottled SlowDown \
        PriorRequestNotComplete EC2ThrottledException";
    for code in throttling.split_whitespace() {
        for status in [None, Some(400), Some(503)] {
            assert_eq!(AwsSdk::V2_0.classify(code, status), Throttled, "{code}");
        }
    }
    for (code, status, class) in [
        ("RequestTimeout", Some(400), Transient),
        ("RequestTimeoutException", None, Transient),
        ("Timeout", None, Transient),
        ("IDPCommunicationError", Some(400), Transient),
        ("ReplicatedWriteConflictException", Some(400), Transient),
        (
            "com.amazonaws.dynamodb#ThrottlingException",
            Some(400),
            Throttled,
        ),
        ("OutOfStock", Some(500), Transient),
        ("OutOfStock", Some(502), Transient),
        ("OutOfStock", Some(503), Transient),
        ("OutOfStock", Some(504), Transient),
        ("HTTP 503", None, Transient),
        ("InternalServerError", None, Transient),
        ("ECONNRESET", None, Transient),
        ("java.net.SocketTimeoutException", None, Transient),
        ("tokio::time::error::Elapsed", None, Transient),
        // Backstop's own, which no SDK knows: what will be done or can be done again.
        ("InProgress", None, Transient),
        ("IdempotencyLeaseEnded", None, Transient),
        ("IdempotencyStoreUnavailable", None, Transient),
        ("IdempotencyOutcomeUnknown", None, Permanent),
        // The SDK gives up on these, although the default classification retries them.
        ("HTTP 429", None, Permanent),
        ("OutOfStock", Some(501), Permanent),
        ("OutOfStock", Some(408), Permanent),
        ("InternalServerError", Some(400), Permanent),
        ("TransactionConflictException", Some(400), Permanent),
        ("OverLimit", Some(403), Permanent),
        ("Sandbox.Timedout", None, Permanent),
        ("exit 75", None, Permanent),
        ("OutOfStock", None, Permanent),
        ("", None, Permanent),
        ("AccessDeniedException", Some(400), Permanent),
    ] {
        assert_eq!(
            AwsSdk::V2_1.classify(code, status),
            class,
            "{code} {status:?}"
        );
    }
}

#[test]
fn the_last_attempt_and_an_error_that_is_not_retried_end_the_retries() {
    for (sdk, last) in [
        (AwsSdk::V2_0, 3),
        (AwsSdk::V2_1, 3),
        (AwsSdk::V2_1_DYNAMODB, 4),
    ] {
        let reason = |attempt, class| sdk.reason_to_dead_letter(&failed(attempt, 0.0, None), class);
        assert_eq!(reason(last - 1, Some(Transient)), None);
        assert_eq!(reason(last - 1, None), None);
        let expected = format!("max-attempts of {last} reached: c");
        assert_eq!(reason(last, Some(Throttled)), Some(expected));
        assert_eq!(reason(1, Some(Permanent)).as_deref(), Some("permanent: c"));
    }
}

#[test]
fn settings_replace_the_numbers_of_the_sdk() {
    assert_eq!(AwsSdk::parse_2_0([]), Ok(AwsSdk::V2_0));
    assert_eq!(AwsSdk::parse_2_1([]), Ok(AwsSdk::V2_1));
    assert_eq!(AwsSdk::parse_2_1([("service", "other")]), Ok(AwsSdk::V2_1));
    let pairs = [
        ("base", "10ms"),
        ("throttling-base", "2s"),
        ("cap", "5s"),
        ("max-attempts", "8"),
        ("respect-retry-after", "off"),
    ];
    let sdk = AwsSdk::parse_2_0(pairs).unwrap();
    let expected = AwsSdk {
        base: 10,
        throttling_base: Some(2_000),
        cap: 5_000,
        max_attempts: NonZeroU32::new(8).unwrap(),
        respect_retry_after: false,
        ..AwsSdk::V2_0
    };
    assert_eq!(sdk, expected);
    let changed = sdk.changed();
    let changed: Vec<_> = changed
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    assert_eq!(changed, pairs);
    // In any order, what is given wins over the service's number.
    for pairs in [
        [("service", "dynamodb"), ("base", "30ms")],
        [("base", "30ms"), ("service", "dynamodb")],
    ] {
        let sdk = AwsSdk::parse_2_1(pairs).unwrap();
        assert_eq!((sdk.base, sdk.max_attempts.get()), (30, 4));
    }
    // Without a base of its own, a throttling error has the base.
    let slow = AwsSdk::parse_2_0([("base", "4s")]).unwrap();
    assert_eq!(slow.delay(&failed(1, 0.5, None), Some(Throttled)), 2_000);
}

#[test]
fn an_invalid_setting_is_rejected_by_name() {
    let error = |parsed: Result<AwsSdk, SettingsError>| parsed.unwrap_err().to_string();
    for (pairs, message) in [
        (
            vec![("floor", "1s")],
            "unknown setting `floor`: expected one of service, base, throttling-base, cap, max-attempts, respect-retry-after, permanent, transient, throttled",
        ),
        (
            vec![("service", "s3")],
            "setting `service` is `s3`: expected `dynamodb` or `other`",
        ),
        (
            vec![("cap", "1s"), ("cap", "2s")],
            "setting `cap` is given twice",
        ),
        (
            vec![("cap", "500ms")],
            "setting `throttling-base` is `1s`: expected at most the cap of 500ms",
        ),
        (
            vec![("base", "21s")],
            "setting `base` is `21s`: expected at most the cap of 20s",
        ),
        (
            vec![("throttling-base", "0s")],
            "setting `throttling-base` is `0s`: expected 1ms to 14d",
        ),
        (
            vec![("max-attempts", "0")],
            "setting `max-attempts` is `0`: expected a whole number from 1",
        ),
        (
            vec![("permanent", "Busy"), ("throttled", "Busy")],
            "`Busy` is in `permanent` and in `throttled`: expected a code in one list",
        ),
    ] {
        assert_eq!(error(AwsSdk::parse_2_1(pairs)), message);
    }
    assert_eq!(
        error(AwsSdk::parse_2_0([("service", "dynamodb")])),
        "unknown setting `service`: expected one of base, throttling-base, cap, max-attempts, respect-retry-after, permanent, transient, throttled"
    );
}

#[test]
fn listed_codes_precede_what_the_sdks_retry() {
    let lists = [("transient", "HTTP 429,exit *"), ("permanent", "Throttl*")];
    for sdk in [AwsSdk::parse_2_0(lists), AwsSdk::parse_2_1(lists)] {
        let sdk = sdk.unwrap();
        for (code, class) in [
            ("HTTP 429", Transient),
            ("exit 1", Transient),
            ("ThrottlingException", Permanent),
            ("SlowDown", Throttled),
            ("OutOfStock", Permanent),
        ] {
            assert_eq!(sdk.classify(code, None), class, "{code}");
        }
        assert_eq!(
            sdk.changed(),
            [
                ("permanent", "Throttl*".to_owned()),
                ("transient", "HTTP 429,exit *".to_owned())
            ]
        );
    }
}
