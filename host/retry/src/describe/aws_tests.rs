//! What policies see of the SDK's errors.

use std::io;

use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::error::ErrorMetadata;
use backstop_core::decision::{ErrorClass, Verdict};
use backstop_core::examples::ordinary_failure;
use backstop_core::failure::{Failure, Milliseconds};
use backstop_core::policy::Profile;

use super::*;

fn response(status: u16, headers: &[(&'static str, &'static str)]) -> HttpResponse {
    let status = StatusCode::try_from(status).unwrap();
    let mut response = HttpResponse::new(status, SdkBody::empty());
    for (name, value) in headers {
        response.headers_mut().insert(*name, *value);
    }
    response
}

fn metadata(code: Option<&str>) -> ErrorMetadata {
    let mut metadata = ErrorMetadata::builder().message("slow down");
    if let Some(code) = code {
        metadata = metadata.code(code);
    }
    metadata.build()
}

#[test]
fn a_service_error_has_its_code_status_and_retry_after() {
    for (header, value, wait) in [
        ("retry-after", "3", Some(3_000)),
        ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
        ("x-amz-retry-after", "1500", Some(1_500)),
        ("x-amzn-requestid", "r-1", None),
    ] {
        let raw = response(400, &[(header, value)]);
        let error = SdkError::service_error(metadata(Some("ThrottlingException")), raw).describe();
        assert_eq!(error.code, "ThrottlingException");
        assert_eq!((&*error.message, error.status), ("slow down", Some(400)));
        assert_eq!(error.retry_after, wait.map(Milliseconds));
        assert_eq!(error.details.is_empty(), wait.is_some());
    }
    let error = SdkError::service_error(metadata(None), response(503, &[])).describe();
    assert_eq!(error.code, "HTTP 503");
    let late = SdkError::service_error(metadata(Some("InternalError")), response(200, &[]));
    let late = late.describe();
    assert_eq!((&*late.code, late.status), ("InternalError", None));
}

type Failed = SdkError<ErrorMetadata, HttpResponse>;

#[test]
fn an_error_without_a_response_has_the_code_of_the_network() {
    let io = |kind| ConnectorError::io(Box::new(io::Error::from(kind)));
    let dispatch = Failed::dispatch_failure;
    for (error, code) in [
        (
            dispatch(io(io::ErrorKind::ConnectionRefused)),
            "ECONNREFUSED",
        ),
        (dispatch(io(io::ErrorKind::ConnectionReset)), "ECONNRESET"),
        (dispatch(ConnectorError::io("broken".into())), "ECONNRESET"),
        (
            dispatch(ConnectorError::io("dns error: no such host".into())),
            "ENOTFOUND",
        ),
        (
            dispatch(ConnectorError::timeout("slow".into())),
            "ETIMEDOUT",
        ),
        // What the SDK's HTTP client reports if the connection is closed before the response.
        (
            dispatch(ConnectorError::other(
                "connection closed before message completed".into(),
                Some(ErrorKind::TransientError),
            )),
            "ECONNRESET",
        ),
        (
            dispatch(ConnectorError::other("no credentials".into(), None)),
            "DispatchFailure",
        ),
        (Failed::timeout_error("slow"), "ETIMEDOUT"),
        (
            Failed::construction_failure("no table"),
            "ValidationException",
        ),
    ] {
        assert_eq!(error.describe().code, code, "{error:?}");
    }
    let error = Failed::response_error("no JSON", response(200, &[])).describe();
    assert_eq!((&*error.code, error.status), ("EPROTO", Some(200)));
}

#[test]
fn a_request_that_cannot_be_built_is_permanent_for_every_policy() {
    let failure = Failure {
        error: Failed::construction_failure("no table").describe(),
        ..ordinary_failure()
    };
    assert_eq!(
        failure.error.message,
        "failed to construct request: no table"
    );
    for profile in Profile::ALL {
        let answer = profile.policy().answer(&failure);
        assert_eq!(answer.class, ErrorClass::Permanent, "{profile}");
    }
}

#[test]
fn the_policy_for_aws_retries_what_the_sdk_retries() {
    let io = ConnectorError::io(Box::new(io::Error::from(io::ErrorKind::ConnectionReset)));
    let other = ConnectorError::other("no credentials".into(), None);
    let service = |code, status| SdkError::service_error(metadata(code), response(status, &[]));
    for (error, is_retried) in [
        (Failed::dispatch_failure(io), true),
        (Failed::timeout_error("slow"), true),
        (Failed::response_error("no JSON", response(200, &[])), true),
        (service(Some("ThrottlingException"), 400), true),
        (service(None, 503), true),
        (Failed::dispatch_failure(other), false),
        (Failed::construction_failure("no table"), false),
        (service(Some("ConditionalCheckFailedException"), 400), false),
    ] {
        let failure = Failure {
            error: error.describe(),
            ..ordinary_failure()
        };
        let answer = Profile::DynamoDb.policy().answer(&failure);
        let retries = answer.action.verdict() == Verdict::Retry;
        assert_eq!(retries, is_retried, "{error:?}");
    }
}
