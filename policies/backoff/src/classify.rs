//! The default classification of errors, as a readable table.
//!
//! The code is looked up first, then the HTTP status. Unknown errors are transient, because a needless retry costs less than a lost message.

/// The default classes. A policy can define others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// A retry is likely to succeed.
    Transient,
    /// The failing service asks for less load.
    Throttled,
    /// Every retry will fail.
    Permanent,
}

/// One row: the class, the source of the codes, and the codes.
type Row = (Class, &'static str, &'static [&'static str]);

/// Throttling errors of the AWS SDKs, which retry a `TransactionInProgressException` as one too.
pub(crate) const AWS_THROTTLING: &[&str] = &[
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "RequestThrottled",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
];

/// The reasons of a `TooManyRequestsException` of Lambda.
pub(crate) const LAMBDA_THROTTLING: &[&str] = &[
    "ConcurrentInvocationLimitExceeded",
    "FunctionInvocationRateLimitExceeded",
    "ReservedFunctionConcurrentInvocationLimitExceeded",
    "ReservedFunctionInvocationRateLimitExceeded",
    "CallerRateLimitExceeded",
    "ConcurrentSnapshotCreateLimitExceeded",
];

/// Connections and time-outs in Node.
pub(crate) const NODE_NETWORK: &[&str] = &[
    "ECONNRESET",
    "ECONNREFUSED",
    "ECONNABORTED",
    "EPIPE",
    "ETIMEDOUT",
    "ESOCKETTIMEDOUT",
    "EAI_AGAIN",
    "ENOTFOUND",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENETDOWN",
    "EPROTO",
    "UND_ERR_CONNECT_TIMEOUT",
    "UND_ERR_HEADERS_TIMEOUT",
    "UND_ERR_BODY_TIMEOUT",
    "UND_ERR_SOCKET",
];

/// Connections and time-outs in Python: built in, urllib3, requests, httpx, botocore.
pub(crate) const PYTHON_NETWORK: &[&str] = &[
    "ConnectionError",
    "ConnectionResetError",
    "ConnectionRefusedError",
    "ConnectionAbortedError",
    "BrokenPipeError",
    "TimeoutError",
    "timeout",
    "gaierror",
    "ReadTimeout",
    "ConnectTimeout",
    "WriteTimeout",
    "PoolTimeout",
    "ReadTimeoutError",
    "ConnectTimeoutError",
    "NewConnectionError",
    "MaxRetryError",
    "ProtocolError",
    "RemoteProtocolError",
    "IncompleteRead",
    "RemoteDisconnected",
    "ConnectError",
    "ReadError",
    "EndpointConnectionError",
    "ConnectionClosedError",
];

/// Connections and time-outs in Java.
pub(crate) const JAVA_NETWORK: &[&str] = &[
    "ConnectException",
    "SocketTimeoutException",
    "SocketException",
    "UnknownHostException",
    "NoRouteToHostException",
    "HttpTimeoutException",
    "HttpConnectTimeoutException",
    "NoHttpResponseException",
    "ConnectTimeoutException",
    "TimeoutException",
];

/// Connections and time-outs in Rust: `std::io::ErrorKind`, tokio.
pub(crate) const RUST_NETWORK: &[&str] = &[
    "ConnectionReset",
    "ConnectionRefused",
    "ConnectionAborted",
    "NotConnected",
    "BrokenPipe",
    "TimedOut",
    "HostUnreachable",
    "NetworkUnreachable",
    "NetworkDown",
    "UnexpectedEof",
    "Elapsed",
];

/// Idempotent work that is in progress elsewhere, was stopped, or was not begun. A function reports such an error by its code alone.
pub(crate) const IDEMPOTENT_WORK: &[&str] = &[
    "InProgress",
    "IdempotencyLeaseEnded",
    "IdempotencyStoreUnavailable",
];

/// Error codes by class. A code of several parts (`java.net.ConnectException`, `KMS.ThrottlingException`, `a::b::Timeout`, `ns#Code`) is looked up by its last part if the complete code is not in the table.
pub const CODES: &[Row] = &[
    (
        Class::Throttled,
        "AWS SDKs, standard retry mode: throttling errors",
        AWS_THROTTLING,
    ),
    (Class::Throttled, "SQS, in no SDK's list", &["OverLimit"]),
    (
        Class::Throttled,
        "Lambda: the reasons of a TooManyRequestsException",
        LAMBDA_THROTTLING,
    ),
    (
        Class::Transient,
        "AWS SDKs, standard retry mode: transient errors",
        &[
            "RequestTimeout",
            "RequestTimeoutException",
            "TransactionInProgressException",
            "IDPCommunicationError",
        ],
    ),
    (
        Class::Transient,
        "AWS services",
        &[
            "InternalError",
            "InternalFailure",
            "InternalServerError",
            "InternalServerException",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "ReplicatedWriteConflictException",
            "TransactionConflictException",
        ],
    ),
    (
        Class::Transient,
        "Lambda: Invoke, passing by itself",
        &[
            "ServiceException",
            "EC2UnexpectedException",
            "ENINotReadyException",
            "ResourceNotReadyException",
            "EFSMountConnectivityException",
            "EFSMountTimeoutException",
            "S3FilesMountConnectivityException",
            "S3FilesMountTimeoutException",
            "SnapStartTimeoutException",
            "SnapStartNotReadyException",
            "ResourceConflictException",
            "CodeArtifactUserPendingException",
        ],
    ),
    (
        Class::Transient,
        "Lambda: Invoke, slow to pass",
        &[
            "ENILimitReachedException",
            "SubnetIPAddressLimitReachedException",
            "EFSIOException",
            "SnapStartRegenerationFailureException",
        ],
    ),
    (
        Class::Transient,
        "Lambda: the function's time ran out",
        &["Sandbox.Timedout"],
    ),
    (Class::Transient, "Node: the network", NODE_NETWORK),
    (
        Class::Transient,
        "Python: the network (built in, urllib3, requests, httpx, botocore)",
        PYTHON_NETWORK,
    ),
    (Class::Transient, "Java: the network", JAVA_NETWORK),
    (
        Class::Transient,
        "Rust: std::io::ErrorKind, tokio",
        RUST_NETWORK,
    ),
    (Class::Transient, "sysexits.h: EX_TEMPFAIL", &["exit 75"]),
    (
        Class::Transient,
        "Backstop: idempotent work that will be done or can be done again",
        IDEMPOTENT_WORK,
    ),
    (
        Class::Permanent,
        "AWS: the request itself is refused",
        &[
            "AccessDenied",
            "AccessDeniedException",
            "ValidationException",
            "ConditionalCheckFailedException",
            "ItemCollectionSizeLimitExceededException",
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "MissingParameter",
            "ResourceNotFoundException",
            "NonExistentQueue",
            "QueueDoesNotExist",
            "UnsupportedOperation",
            "InvalidMessageContents",
            "BatchRequestTooLong",
        ],
    ),
    (
        Class::Permanent,
        "Lambda: Invoke",
        &[
            "InvalidRuntimeException",
            "InvalidZipFileException",
            "InvalidSubnetIDException",
            "InvalidSecurityGroupIDException",
            "EC2AccessDeniedException",
            "KMSAccessDeniedException",
            "KMSDisabledException",
            "KMSInvalidStateException",
            "KMSNotFoundException",
            "InvalidRequestContentException",
            "ModeNotSupportedException",
            "NoPublishedVersionException",
            "SnapStartException",
            "RecursiveInvocationException",
            "ServiceQuotaExceededException",
            "EFSMountFailureException",
            "S3FilesMountFailureException",
            "RuntimeAliasDeletedException",
            "RuntimeVersionDeletedException",
            "CodeArtifactUserFailedException",
            "CodeArtifactUserDeletedException",
            "DurableExecutionAlreadyStartedException",
            "RequestTooLargeException",
            "RequestEntityTooLargeException",
            "SerializedRequestEntityTooLargeException",
            "UnsupportedMediaTypeException",
        ],
    ),
    (
        Class::Permanent,
        "sysexits.h: EX_DATAERR, the input is wrong",
        &["exit 65"],
    ),
    (
        Class::Permanent,
        "Backstop: an error that says that it is permanent; idempotent work that is done, may be done, or has no key; an event that its function cannot read",
        &[
            "Permanent",
            "IdempotencyOutcomeUnknown",
            "IdempotencyPayloadMismatch",
            "IdempotencyKeyMissing",
            "IdempotencyResultNotStored",
            "IdempotencyResultUnreadable",
            "InvalidEvent",
        ],
    ),
];

/// The default class of an error, by its code and then by its HTTP status. The code may contain the status, as in `HTTP 503`.
///
/// ```
/// use backstop_backoff::{Class, classify};
/// assert_eq!(classify("ThrottlingException", Some(400)), Class::Throttled);
/// assert_eq!(classify("OutOfStock", Some(422)), Class::Permanent);
/// assert_eq!(classify("OutOfStock", None), Class::Transient);
/// ```
pub fn classify(code: &str, status: Option<u16>) -> Class {
    let status = status_of(code, status);
    let last = last_part(code);
    look_up(code)
        .or_else(|| if last == code { None } else { look_up(last) })
        .or_else(|| classify_status(status?))
        .unwrap_or(Class::Transient)
}

/// The class of an HTTP status. `None` below 400.
///
/// 408, 425 and 5xx are transient (RFC 9110, RFC 8470). So is 431 (RFC 6585), because the limit of headers is a setting of the server and independent of the message. 429 (RFC 6585) and 509 ask for less load. Every other 4xx means that the request is invalid.
pub fn classify_status(status: u16) -> Option<Class> {
    match status {
        429 | 509 => Some(Class::Throttled),
        408 | 425 | 431 | 500..=599 => Some(Class::Transient),
        400..=499 => Some(Class::Permanent),
        _ => None,
    }
}

/// The HTTP status of an error, which its code may contain.
pub(crate) fn status_of(code: &str, status: Option<u16>) -> Option<u16> {
    status.or_else(|| code.strip_prefix("HTTP ")?.parse().ok())
}

fn look_up(code: &str) -> Option<Class> {
    CODES
        .iter()
        .find(|(_, _, codes)| codes.contains(&code))
        .map(|(class, _, _)| *class)
}

/// The last part of a code of several parts, such as `ThrottlingException` in `ns#ThrottlingException:http://internal.example/`, the format of AWS's older protocols.
#[cfg(not(feature = "small"))]
pub(crate) fn last_part(code: &str) -> &str {
    let code = code.split_once(":http").map_or(code, |(name, _)| name);
    code.rsplit(['.', '#', ':']).next().unwrap_or(code)
}

/// The same, without the search of the standard library.
#[cfg(feature = "small")]
pub(crate) fn last_part(code: &str) -> &str {
    let mut places = code.char_indices().map(|(at, _)| at);
    let is_url = |at: &usize| code.get(*at..).is_some_and(|it| it.starts_with(":http"));
    let url = places.find(is_url).and_then(|at| code.get(..at));
    let code = url.unwrap_or(code);
    code.rsplit(['.', '#', ':']).next().unwrap_or(code)
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
