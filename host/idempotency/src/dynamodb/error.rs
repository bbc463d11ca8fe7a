//! What DynamoDB's refusals and the network's errors mean for a store.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use backstop_core::failure::Error;
use backstop_core::network::{SET_A_REGION, lacks_region};
use backstop_core::text::chain;

use crate::store::{Completion, StoreError};

type Item = HashMap<String, AttributeValue>;

/// An error of one operation.
pub(super) trait OperationError: ProvideErrorMetadata + std::error::Error + 'static {
    fn condition(&self) -> Option<&ConditionalCheckFailedException>;
}

macro_rules! has_condition {
    ($($error:ident),*) => {$(
        impl OperationError for $error {
            fn condition(&self) -> Option<&ConditionalCheckFailedException> {
                match self {
                    Self::ConditionalCheckFailedException(failed) => Some(failed),
                    _ => None,
                }
            }
        }
    )*};
}

has_condition!(PutItemError, UpdateItemError, DeleteItemError);

/// The item for which the condition of a request did not hold, if so: empty, unless the request asked for it.
pub(super) fn refusal<T, E: OperationError>(
    answer: Result<T, SdkError<E, HttpResponse>>,
) -> Result<Option<Item>, StoreError> {
    let error = match answer {
        Ok(_) => return Ok(None),
        Err(error) => error,
    };
    let failed = error.as_service_error().and_then(OperationError::condition);
    if let Some(failed) = failed {
        return Ok(Some(failed.item.clone().unwrap_or_default()));
    }
    Err(store_error(&error))
}

/// Why there was no answer, in words.
fn no_answer(error: &(dyn std::error::Error + 'static)) -> String {
    let text = chain(error);
    if lacks_region(&text) {
        SET_A_REGION.to_owned()
    } else {
        text
    }
}

/// What went wrong: the code and message of DynamoDB, or why it did not answer.
pub(super) fn why<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let of_service = error.as_service_error().map(ProvideErrorMetadata::meta);
    match of_service.map(|it| (it.code(), it.message())) {
        Some((Some(code), Some(message))) => format!("{code}: {message}"),
        Some((Some(code), None)) => code.to_owned(),
        Some((None, _)) | None => no_answer(error),
    }
}

fn store_error<E: OperationError>(error: &SdkError<E, HttpResponse>) -> StoreError {
    let status = error.raw_response().map(|it| it.status().as_u16());
    let of_service = error.as_service_error();
    let code = of_service.and_then(ProvideErrorMetadata::code);
    let (code, may_have_happened) = match (code, error) {
        // A refusal: nothing was written.
        (Some(code), _) if status.is_some_and(|it| it < 500) => (code, false),
        (Some(code), _) => (code, true),
        (None, SdkError::ConstructionFailure(_)) => ("InvalidRequest", false),
        (None, SdkError::TimeoutError(_)) => ("Timeout", true),
        (None, SdkError::DispatchFailure(failure)) if failure.is_timeout() => ("Timeout", true),
        (None, SdkError::DispatchFailure(_)) if lacks_region(&chain(error)) => {
            ("MissingRegion", false)
        }
        (None, SdkError::DispatchFailure(_)) => ("ConnectionFailed", true),
        (None, _) => ("InvalidResponse", true),
    };
    let message = match of_service.and_then(ProvideErrorMetadata::message) {
        Some(message) => message.to_owned(),
        None => no_answer(error),
    };
    StoreError {
        error: Error::new(code, message).status(status),
        may_have_happened,
        refused_result: false,
    }
}

/// An item that is too large, or a number that DynamoDB does not hold, is refused as invalid: without the result it is not.
pub(super) fn of_result(error: StoreError, completion: &Completion<'_>) -> StoreError {
    let refused_result = completion.result.is_ok()
        && [
            "ValidationException",
            "ItemCollectionSizeLimitExceededException",
        ]
        .contains(&error.error.code.as_str());
    StoreError {
        refused_result: refused_result || error.refused_result,
        ..error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use aws_smithy_runtime_api::client::result::ConnectorError;

    #[test]
    fn an_unreachable_table_is_explained_in_words() {
        let unsent = |cause: &str| -> SdkError<PutItemError, HttpResponse> {
            SdkError::dispatch_failure(ConnectorError::io(cause.into()))
        };
        let error = store_error(&unsent("tcp connect error"));
        assert_eq!(error.error.code, "ConnectionFailed");
        assert!(
            error.error.message.ends_with("tcp connect error"),
            "{error}"
        );
        assert!(!error.error.message.contains(['{', '(']), "{error:?}");
        let error = store_error(&unsent("missing signing region"));
        assert_eq!(error.error.code, "MissingRegion");
        assert_eq!(error.error.message, SET_A_REGION);
        assert!(!error.may_have_happened);
    }
}
