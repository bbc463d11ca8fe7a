//! The codes that each source reports, and their expected classes.

use std::collections::HashSet;

use super::*;
use Class::{Permanent, Throttled, Transient};

#[test]
fn no_code_is_in_the_table_twice() {
    let mut seen = HashSet::new();
    for code in CODES.iter().flat_map(|(_, _, codes)| *codes) {
        assert!(seen.insert(code), "{code}");
    }
}

#[test]
fn every_code_has_the_class_of_its_row_with_any_status() {
    for (class, _, codes) in CODES {
        for code in *codes {
            for status in [None, Some(200), Some(400), Some(429), Some(500)] {
                assert_eq!(classify(code, status), *class, "{code} {status:?}");
            }
        }
    }
}

/// Written from the documentation of the sources, not from the table.
#[test]
fn each_source_is_classified_as_it_documents() {
    let expectations: &[(Class, &str)] = &[
        // botocore and the Rust SDK: throttling codes.
        (
            Throttled,
            "Throttling ThrottlingException ThrottledException RequestThrottledException",
        ),
        (
            Throttled,
            "TooManyRequestsException ProvisionedThroughputExceededException RequestLimitExceeded",
        ),
        (
            Throttled,
            "BandwidthLimitExceeded LimitExceededException RequestThrottled SlowDown",
        ),
        (Throttled, "PriorRequestNotComplete EC2ThrottledException"),
        // SQS: throttling codes that are not in the lists of the SDKs.
        (Throttled, "KMS.ThrottlingException OverLimit"),
        // The formats of the older protocols.
        (
            Throttled,
            "com.amazonaws.sqs#RequestThrottled ThrottlingException:http://internal.example/coral/",
        ),
        // botocore and the Rust SDK: transient codes.
        (
            Transient,
            "RequestTimeout RequestTimeoutException TransactionInProgressException",
        ),
        // Lambda's Invoke.
        (
            Transient,
            "ServiceException EC2UnexpectedException ENINotReadyException ResourceNotReadyException",
        ),
        (
            Transient,
            "EFSMountConnectivityException EFSMountTimeoutException SnapStartTimeoutException",
        ),
        (
            Transient,
            "SnapStartNotReadyException ResourceConflictException CodeArtifactUserPendingException",
        ),
        (
            Transient,
            "ENILimitReachedException SubnetIPAddressLimitReachedException EFSIOException",
        ),
        (
            Permanent,
            "InvalidRuntimeException InvalidZipFileException InvalidSubnetIDException",
        ),
        (
            Permanent,
            "InvalidSecurityGroupIDException EC2AccessDeniedException KMSAccessDeniedException",
        ),
        (
            Permanent,
            "KMSDisabledException KMSInvalidStateException KMSNotFoundException",
        ),
        (
            Permanent,
            "ResourceNotFoundException InvalidParameterValueException InvalidRequestContentException",
        ),
        (
            Permanent,
            "NoPublishedVersionException SnapStartException RecursiveInvocationException",
        ),
        (
            Permanent,
            "ServiceQuotaExceededException EFSMountFailureException AccessDeniedException",
        ),
        (
            Permanent,
            "RequestTooLargeException RequestEntityTooLargeException UnsupportedMediaTypeException",
        ),
        // DynamoDB.
        (
            Permanent,
            "ConditionalCheckFailedException ValidationException ItemCollectionSizeLimitExceededException",
        ),
        (
            Transient,
            "InternalServerError ReplicatedWriteConflictException TransactionConflictException",
        ),
        // A function that ran out of time.
        (Transient, "Sandbox.Timedout"),
        // Connections: Node, Python, Java, Rust.
        (
            Transient,
            "ECONNRESET ECONNREFUSED EPIPE ETIMEDOUT ESOCKETTIMEDOUT EAI_AGAIN ENOTFOUND EHOSTUNREACH",
        ),
        (
            Transient,
            "ENETUNREACH EPROTO UND_ERR_CONNECT_TIMEOUT UND_ERR_SOCKET",
        ),
        (
            Transient,
            "ConnectionResetError ConnectionRefusedError TimeoutError socket.timeout socket.gaierror",
        ),
        (
            Transient,
            "requests.exceptions.ReadTimeout urllib3.exceptions.NewConnectionError",
        ),
        (
            Transient,
            "java.net.ConnectException java.net.SocketTimeoutException java.net.UnknownHostException",
        ),
        (
            Transient,
            "ConnectionReset TimedOut std::io::ErrorKind::BrokenPipe tokio::time::error::Elapsed",
        ),
        // The errors of idempotent work (host/docs/workers/failures.md), as a function reports them: without a status.
        (
            Transient,
            "InProgress IdempotencyLeaseEnded IdempotencyStoreUnavailable",
        ),
        (
            Permanent,
            "IdempotencyOutcomeUnknown IdempotencyPayloadMismatch IdempotencyKeyMissing InvalidEvent",
        ),
        (
            Permanent,
            "IdempotencyResultNotStored IdempotencyResultUnreadable",
        ),
    ];
    for (class, codes) in expectations {
        for code in codes.split(' ') {
            assert_eq!(classify(code, None), *class, "{code}");
        }
    }
    assert_eq!(classify("exit 65", None), Permanent);
    assert_eq!(classify("exit 75", None), Transient);
}

#[test]
fn a_status_decides_if_the_code_is_unknown() {
    for (status, class) in [
        (200, Transient),
        (301, Transient),
        (400, Permanent),
        (401, Permanent),
        (404, Permanent),
        (408, Transient),
        (409, Permanent),
        (422, Permanent),
        (425, Transient),
        (429, Throttled),
        (431, Transient),
        (500, Transient),
        (501, Transient),
        (503, Transient),
        (509, Throttled),
        (599, Transient),
        (600, Transient),
    ] {
        assert_eq!(classify("OutOfStock", Some(status)), class, "{status}");
        assert_eq!(classify(&format!("HTTP {status}"), None), class, "{status}");
    }
}

#[test]
fn a_code_that_is_unknown_or_empty_is_transient() {
    for code in [
        "",
        "OutOfStock",
        "exit 1",
        "HTTP",
        "HTTP x",
        "...",
        "throttlingexception",
    ] {
        assert_eq!(classify(code, None), Transient, "{code:?}");
    }
}
