//! Failures by name: the errors of real services, networks and programs, as the host's handlers pass them to a policy.

use backstop_core::failure::{Error, Milliseconds};

/// A common failure, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name in scenarios and flags.
    pub name: &'static str,
    /// When it happens, for people.
    pub about: &'static str,
    code: &'static str,
    status: Option<u16>,
    message: &'static str,
    /// In seconds, as a service sends it.
    retry_after: Option<u32>,
    details: &'static [(&'static str, &'static str)],
}

impl Preset {
    /// The error as it is passed to a policy.
    pub fn error(&self) -> Error {
        let detail = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Error {
            status: self.status,
            retry_after: self
                .retry_after
                .map(|seconds| Milliseconds(seconds * 1_000)),
            details: self.details.iter().map(detail).collect(),
            ..Error::new(self.code, self.message)
        }
    }
}

/// The preset with this name.
pub fn find(name: &str) -> Result<&'static Preset, UnknownPreset> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.ok_or_else(|| UnknownPreset(name.to_owned()))
}

/// There is no preset with this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{0}`: expected one of {known}", known = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", "))]
pub struct UnknownPreset(String);

/// A preset without status, retry-after or details.
const fn plain(
    name: &'static str,
    code: &'static str,
    message: &'static str,
    about: &'static str,
) -> Preset {
    Preset {
        name,
        about,
        code,
        status: None,
        message,
        retry_after: None,
        details: &[],
    }
}

/// A preset with an HTTP status.
const fn http(
    name: &'static str,
    code: &'static str,
    status: u16,
    message: &'static str,
    about: &'static str,
) -> Preset {
    Preset {
        status: Some(status),
        ..plain(name, code, message, about)
    }
}

/// Every preset, in the order in which they are listed. The codes are those of the AWS models, of Lambda and of the host's own handlers.
pub const PRESETS: &[Preset] = &[
    http(
        "throttled",
        "ThrottlingException",
        400,
        "Rate exceeded",
        "an AWS service throttles",
    ),
    http(
        "dynamodb-throughput",
        "ProvisionedThroughputExceededException",
        400,
        "The level of configured provisioned throughput for the table was exceeded.",
        "DynamoDB: the table's capacity is exceeded",
    ),
    http(
        "s3-slow-down",
        "SlowDown",
        503,
        "Please reduce your request rate.",
        "S3: too many requests to one prefix",
    ),
    Preset {
        retry_after: Some(30),
        details: &[("retry-after", "30")],
        ..http(
            "http-429",
            "HTTP 429",
            429,
            "too many requests",
            "HTTP: the service asks for a delay of 30 s",
        )
    },
    http(
        "http-500",
        "HTTP 500",
        500,
        "internal server error",
        "HTTP: the service failed",
    ),
    http(
        "http-502",
        "HTTP 502",
        502,
        "bad gateway",
        "HTTP: a proxy got an invalid response from the service",
    ),
    http(
        "http-503",
        "HTTP 503",
        503,
        "service unavailable",
        "HTTP: the service is unavailable",
    ),
    http(
        "http-504",
        "HTTP 504",
        504,
        "gateway timeout",
        "HTTP: a proxy got no response in time",
    ),
    http(
        "http-408",
        "HTTP 408",
        408,
        "request timeout",
        "HTTP: the request arrived too slowly",
    ),
    http(
        "http-400",
        "HTTP 400",
        400,
        "bad request",
        "HTTP: the request is invalid",
    ),
    http(
        "http-401",
        "HTTP 401",
        401,
        "unauthorized",
        "HTTP: the credentials are missing or expired",
    ),
    http(
        "http-404",
        "HTTP 404",
        404,
        "not found",
        "HTTP: the resource does not exist",
    ),
    http(
        "http-422",
        "HTTP 422",
        422,
        "unprocessable content",
        "HTTP: the service can't process the content",
    ),
    plain(
        "timeout",
        "Timeout",
        "no answer within 30s",
        "any handler: the attempt exceeded its time limit",
    ),
    plain(
        "connection-refused",
        "ECONNREFUSED",
        "connection refused",
        "the network: no process listens on the port",
    ),
    plain(
        "connection-reset",
        "ECONNRESET",
        "connection reset by peer",
        "the network: the peer closed the connection",
    ),
    plain(
        "connect-timeout",
        "ETIMEDOUT",
        "connection timed out",
        "the network: no connection in time",
    ),
    plain(
        "dns",
        "ENOTFOUND",
        "no such host",
        "the network: the host name is unknown",
    ),
    plain(
        "lambda-timeout",
        "Sandbox.Timedout",
        "2026-01-01T00:00:03.000Z 8f5dd1c1 Task timed out after 3.00 seconds",
        "Lambda: the function exceeded its time limit",
    ),
    plain(
        "lambda-out-of-memory",
        "Runtime.OutOfMemory",
        "RequestId: 8f5dd1c1 Error: Runtime exited with error: signal: killed",
        "Lambda: the function ran out of memory",
    ),
    plain(
        "lambda-crashed",
        "Runtime.ExitError",
        "RequestId: 8f5dd1c1 Error: Runtime exited with error: exit status 1",
        "Lambda: the function's process exited",
    ),
    Preset {
        retry_after: Some(1),
        details: &[(
            "reason",
            "ReservedFunctionConcurrentInvocationLimitExceeded",
        )],
        ..http(
            "lambda-throttled",
            "TooManyRequestsException",
            429,
            "Rate Exceeded.",
            "Lambda: too many concurrent invocations",
        )
    },
    Preset {
        details: &[("requestId", "8f5dd1c1-0000-4000-8000-000000000001")],
        ..plain(
            "function-error",
            "Unhandled",
            "the function failed",
            "Lambda: the function failed without an error type",
        )
    },
    http(
        "internal-error",
        "InternalServerError",
        500,
        "Internal server error",
        "an AWS service failed",
    ),
    http(
        "validation",
        "ValidationException",
        400,
        "One or more parameter values were invalid",
        "an AWS service: the request is invalid",
    ),
    http(
        "access-denied",
        "AccessDeniedException",
        400,
        "User is not authorized to perform this action",
        "an AWS service: access is denied",
    ),
    http(
        "resource-not-found",
        "ResourceNotFoundException",
        400,
        "Requested resource not found",
        "an AWS service: the table or function does not exist",
    ),
    http(
        "condition-failed",
        "ConditionalCheckFailedException",
        400,
        "The conditional request failed",
        "DynamoDB: the condition of the write was not met",
    ),
    plain("exit-1", "exit 1", "", "a command: it failed"),
    plain(
        "exit-65",
        "exit 65",
        "",
        "a command: its input is permanently invalid (EX_DATAERR)",
    ),
    plain(
        "exit-75",
        "exit 75",
        "",
        "a command: try again later (EX_TEMPFAIL)",
    ),
    plain(
        "killed",
        "signal 9",
        "",
        "a command: killed, often for lack of memory",
    ),
    plain(
        "panic",
        "Panic",
        "the handler panicked",
        "a Rust function: it panicked",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::decision::ErrorClass::{self, Permanent, Throttled, Transient};
    use backstop_core::fallback;

    /// The class of each preset in the default classification. A change of either table fails the test.
    const CLASSES: &[(ErrorClass, &[&str])] = &[
        (
            Throttled,
            &[
                "throttled",
                "dynamodb-throughput",
                "s3-slow-down",
                "http-429",
                "lambda-throttled",
            ],
        ),
        (
            Transient,
            &[
                "http-500",
                "http-502",
                "http-503",
                "http-504",
                "http-408",
                "timeout",
                "connection-refused",
                "connection-reset",
                "connect-timeout",
                "dns",
                "lambda-timeout",
                "lambda-out-of-memory",
                "lambda-crashed",
                "function-error",
                "internal-error",
                "exit-1",
                "exit-75",
                "killed",
                "panic",
            ],
        ),
        (
            Permanent,
            &[
                "http-400",
                "http-401",
                "http-404",
                "http-422",
                "validation",
                "access-denied",
                "resource-not-found",
                "condition-failed",
                "exit-65",
            ],
        ),
    ];

    #[test]
    fn every_preset_has_its_expected_class() {
        for (class, names) in CLASSES {
            for name in *names {
                let preset = find(name).unwrap();
                assert_eq!(fallback::class(&preset.error()), *class, "{name}");
            }
        }
        let listed: usize = CLASSES.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(listed, PRESETS.len());
    }

    #[test]
    fn an_unknown_name_is_rejected_with_the_known_ones() {
        let message = find("http-5o3").unwrap_err().to_string();
        assert!(message.starts_with("there is no preset `http-5o3`: expected one of throttled, "));
    }
}
