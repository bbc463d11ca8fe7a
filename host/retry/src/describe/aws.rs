//! Errors of the AWS SDK for Rust, of any operation.

use std::error::Error as StdError;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::{DispatchFailure, SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::ErrorKind;
use backstop_core::failure::Error;
use backstop_core::retry_after::retry_after;
use backstop_core::text::chain;

use super::Describe;
use super::network;

/// The headers in which services give the id of a request.
const REQUEST_IDS: [&str; 2] = ["x-amzn-requestid", "x-amz-request-id"];

/// What a policy sees of an error of the AWS SDK:
///
/// | error | code |
/// |---|---|
/// | a response of the service | the service's code, or `HTTP 503` without one; with the status if it is an error, `retry-after` or `x-amz-retry-after`, and the `requestId` as a detail |
/// | no response in time | `ETIMEDOUT` |
/// | an error of the connection | `ECONNREFUSED`, `ECONNRESET`, `ENOTFOUND` and others |
/// | a response that can't be read | `EPROTO` |
/// | the request was not sent | `DispatchFailure`: no credentials, or an interceptor failed |
/// | the request can't be built | `ValidationException`, which is permanent; without a status, since no request was sent |
impl<E> Describe for SdkError<E, HttpResponse>
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    fn describe(&self) -> Error {
        match self {
            SdkError::ServiceError(service) => {
                let error = service.err();
                let message = match error.message() {
                    Some(message) => message.to_owned(),
                    None => chain(error),
                };
                let mut described = from_response(service.raw(), message);
                // S3 may report an error in a response that began as a success.
                described.status = described.status.filter(|status| *status >= 400);
                if let Some(code) = error.code() {
                    code.clone_into(&mut described.code);
                }
                described
            }
            SdkError::ResponseError(response) => {
                let mut described = from_response(response.raw(), chain(self));
                network::code(self)
                    .unwrap_or("EPROTO")
                    .clone_into(&mut described.code);
                described
            }
            SdkError::TimeoutError(_) => Error::new("ETIMEDOUT", chain(self)),
            SdkError::DispatchFailure(failure) => {
                let code = match network::code(self) {
                    Some(code) => code,
                    None if failure.is_timeout() => "ETIMEDOUT",
                    None if failure.is_io() || is_transient(failure) => "ECONNRESET",
                    None => "DispatchFailure",
                };
                Error::new(code, chain(self))
            }
            // A code of its own would be unknown to policies, and so be retried.
            SdkError::ConstructionFailure(_) => Error::new("ValidationException", chain(self)),
            other => describe_unknown(other),
        }
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
}

described! {
    /// The body of a response ended early, such as an object of S3: the code is that of the connection's error, `ECONNRESET` without one.
    aws_smithy_types::byte_stream::error::Error => |error| {
        Error::new(network::code(error).unwrap_or("ECONNRESET"), chain(error))
    };
}

/// Whether the HTTP client names the error transient, as a connection that was closed before the response.
fn is_transient(failure: &DispatchFailure) -> bool {
    let kind = failure.as_connector_error().and_then(|it| it.as_other());
    matches!(
        kind,
        Some(ErrorKind::TransientError | ErrorKind::ServerError)
    )
}

/// For a kind of error that the SDK may add.
fn describe_unknown(error: &(impl StdError + 'static)) -> Error {
    super::describe_by_causes(error)
}

fn from_response(response: &HttpResponse, message: String) -> Error {
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name);
    let request_id = REQUEST_IDS.iter().find_map(|name| header(name));
    let request_id = request_id.map(|id| ("requestId", id));
    Error::new(format!("HTTP {status}"), message)
        .status(status)
        .retry_after(retry_after(|name| response.headers().get(name)))
        .details(request_id)
}

#[cfg(test)]
#[path = "aws_tests.rs"]
mod tests;
