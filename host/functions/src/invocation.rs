//! Access to Lambda over the AWS SDK, and what went wrong with an invocation before the function ran. The SDK's own retries are off: the policy decides.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::client::customize::CustomizableOperation;
use aws_sdk_lambda::config::http::HttpResponse;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::invoke::builders::InvokeFluentBuilder;
use aws_sdk_lambda::operation::invoke::{InvokeError, InvokeOutput};

use backstop_aws::{Endpoint, Meaning, NoResponse, ResponseLimit};
use backstop_core::failure::Error;
use backstop_core::retry_after::retry_after;
use backstop_core::text::chain;

/// The header with the trace of an invocation.
const TRACE_HEADER: &str = "x-amzn-trace-id";

/// An invocation that is not sent yet.
pub type Invocation = CustomizableOperation<InvokeOutput, InvokeError, InvokeFluentBuilder>;

/// The longest that a connection may take to be made.
pub const CONNECT: Duration = Duration::from_secs(3);

/// The SDK's client with these timeouts and no retries, and where its requests go.
pub fn client(sdk: &SdkConfig, timeouts: TimeoutConfig) -> (Client, Endpoint) {
    let mut config = aws_sdk_lambda::config::Builder::from(sdk)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts);
    config.push_interceptor(ResponseLimit::LAMBDA.into());
    let client = Client::from_conf(config.build());
    (client, Endpoint::of("LAMBDA", sdk))
}

/// The request, with this header of X-Ray: the function continues its trace.
pub fn traced(request: InvokeFluentBuilder, header: Option<String>) -> Invocation {
    request.customize().mutate_request(move |request| {
        if let Some(header) = &header {
            request.headers_mut().insert(TRACE_HEADER, header.clone());
        }
    })
}

/// The error of the invocation itself: its code as the service reports it, its reason, its `Retry-After`; or why nobody answered.
pub fn invocation_error(endpoint: &Endpoint, error: &SdkError<InvokeError, HttpResponse>) -> Error {
    if let Some(NoResponse { code, text, unsent }) = endpoint.no_response(error) {
        let mut error = Error::new(code, text);
        error.unavailable = unsent;
        return error;
    }
    let SdkError::ServiceError(service) = error else {
        return Error::new("ECONNRESET", chain(error));
    };
    let raw = service.raw();
    let mut failed = Error::new(
        error.code().unwrap_or("ServiceException"),
        error
            .message()
            .map_or_else(|| service.err().to_string(), str::to_owned),
    );
    failed.status = Some(raw.status().as_u16());
    failed.unavailable = refuses_every_event(&failed.code);
    failed.retry_after = retry_after(|name| raw.headers().get(name));
    if let InvokeError::TooManyRequestsException(throttled) = service.err()
        && let Some(reason) = &throttled.reason
    {
        failed
            .details
            .push(("reason".to_owned(), reason.to_string()));
    }
    failed
}

/// Whether Lambda refuses invocations for a reason that is not the event's: no event would have reached the function.
fn refuses_every_event(code: &str) -> bool {
    Meaning::of_code(code).is_some_and(Meaning::concerns_target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invocation_that_lambda_refuses_for_its_own_reasons_has_not_reached_the_function() {
        for code in [
            "AccessDeniedException",
            "EC2ThrottledException",
            "EFSMountTimeoutException",
            "ENILimitReachedException",
            "ExpiredTokenException",
            "KMSDisabledException",
            "ModeNotSupportedException",
            "NoPublishedVersionException",
            "ResourceNotFoundException",
            "RuntimeVersionDeletedException",
            "ServiceQuotaExceededException",
            "SnapStartNotReadyException",
            "TooManyRequestsException",
        ] {
            assert!(refuses_every_event(code), "{code}");
        }
        for code in [
            "InvalidParameterValueException",
            "InvalidRequestContentException",
            "RecursiveInvocationException",
            "RequestEntityTooLargeException",
            "RequestTooLargeException",
            "ServiceException",
            "UnsupportedMediaTypeException",
        ] {
            assert!(!refuses_every_event(code), "{code}");
        }
    }
}
