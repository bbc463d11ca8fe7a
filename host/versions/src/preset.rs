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
    const fn new(
        name: &'static str,
        about: &'static str,
        code: &'static str,
        message: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            code,
            status: None,
            message,
            retry_after: None,
            details: &[],
        }
    }

    /// The error as it is passed to a policy.
    pub fn error(&self) -> Error {
        let retry_after = self.retry_after;
        Error::new(self.code, self.message)
            .status(self.status)
            .retry_after(retry_after.map(|seconds| Milliseconds(seconds * 1_000)))
            .details(self.details.iter().copied())
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

/// A row for each preset: its name and meaning, code and message, and the other fields that it has.
macro_rules! presets {
    ($($name:literal: $about:literal => $code:literal, $message:literal $(, $field:ident: $value:expr)*;)+) => {
        /// Every preset, in the order in which they are listed. The codes are those of the AWS models, of Lambda and of the host's own handlers.
        pub const PRESETS: &[Preset] = &[$(Preset {
            $($field: $value,)*
            ..Preset::new($name, $about, $code, $message)
        }),+];
    };
}

presets! {
    "throttled": "an AWS service throttles"
        => "ThrottlingException", "Rate exceeded", status: Some(400);
    "dynamodb-throughput": "DynamoDB: the table's capacity is exceeded"
        => "ProvisionedThroughputExceededException", "The level of configured provisioned throughput for the table was exceeded.", status: Some(400);
    "s3-slow-down": "S3: too many requests to one prefix"
        => "SlowDown", "Please reduce your request rate.", status: Some(503);
    "http-429": "HTTP: the service asks for a delay of 30 s"
        => "HTTP 429", "too many requests", status: Some(429), retry_after: Some(30), details: &[("retry-after", "30")];
    "http-500": "HTTP: the service failed"
        => "HTTP 500", "internal server error", status: Some(500);
    "http-502": "HTTP: a proxy got an invalid response from the service"
        => "HTTP 502", "bad gateway", status: Some(502);
    "http-503": "HTTP: the service is unavailable"
        => "HTTP 503", "service unavailable", status: Some(503);
    "http-504": "HTTP: a proxy got no response in time"
        => "HTTP 504", "gateway timeout", status: Some(504);
    "http-408": "HTTP: the request arrived too slowly"
        => "HTTP 408", "request timeout", status: Some(408);
    "http-400": "HTTP: the request is invalid" => "HTTP 400", "bad request", status: Some(400);
    "http-401": "HTTP: the credentials are missing or expired"
        => "HTTP 401", "unauthorized", status: Some(401);
    "http-404": "HTTP: the resource does not exist" => "HTTP 404", "not found", status: Some(404);
    "http-422": "HTTP: the service can't process the content"
        => "HTTP 422", "unprocessable content", status: Some(422);
    "timeout": "any handler: the attempt exceeded its time limit"
        => "Timeout", "no answer within 30s";
    "connection-refused": "the network: no process listens on the port"
        => "ECONNREFUSED", "connection refused";
    "connection-reset": "the network: the peer closed the connection"
        => "ECONNRESET", "connection reset by peer";
    "connect-timeout": "the network: no connection in time" => "ETIMEDOUT", "connection timed out";
    "dns": "the network: the host name is unknown" => "ENOTFOUND", "no such host";
    "lambda-timeout": "Lambda: the function exceeded its time limit"
        => "Sandbox.Timedout", "2026-01-01T00:00:03.000Z 8f5dd1c1 Task timed out after 3.00 seconds";
    "lambda-out-of-memory": "Lambda: the function ran out of memory"
        => "Runtime.OutOfMemory", "RequestId: 8f5dd1c1 Error: Runtime exited with error: signal: killed";
    "lambda-crashed": "Lambda: the function's process exited"
        => "Runtime.ExitError", "RequestId: 8f5dd1c1 Error: Runtime exited with error: exit status 1";
    "lambda-throttled": "Lambda: too many concurrent invocations"
        => "TooManyRequestsException", "Rate Exceeded.", status: Some(429), retry_after: Some(1), details: &[("reason", "ReservedFunctionConcurrentInvocationLimitExceeded")];
    "function-error": "Lambda: the function failed without an error type"
        => "Unhandled", "the function failed", details: &[("requestId", "8f5dd1c1-0000-4000-8000-000000000001")];
    "internal-error": "an AWS service failed"
        => "InternalServerError", "Internal server error", status: Some(500);
    "validation": "an AWS service: the request is invalid"
        => "ValidationException", "One or more parameter values were invalid", status: Some(400);
    "access-denied": "an AWS service: access is denied"
        => "AccessDeniedException", "User is not authorized to perform this action", status: Some(400);
    "resource-not-found": "an AWS service: the table or function does not exist"
        => "ResourceNotFoundException", "Requested resource not found", status: Some(400);
    "condition-failed": "DynamoDB: the condition of the write was not met"
        => "ConditionalCheckFailedException", "The conditional request failed", status: Some(400);
    "exit-1": "a command: it failed" => "exit 1", "";
    "exit-65": "a command: its input is permanently invalid (EX_DATAERR)" => "exit 65", "";
    "exit-75": "a command: try again later (EX_TEMPFAIL)" => "exit 75", "";
    "killed": "a command: killed, often for lack of memory" => "signal 9", "";
    "panic": "a Rust function: it panicked" => "Panic", "the handler panicked";
}

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
