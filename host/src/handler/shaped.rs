//! Errors in the shape that Lambda functions report them in, wherever they turn up: an HTTP body, a command's output, a function's payload.

use serde::Deserialize;

use crate::failure::Error;

/// `{"errorType": "...", "errorMessage": "...", "requestId": "..."}`; other fields (`stackTrace`, Node's `trace`) are left aside.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shaped {
    error_type: String,
    #[serde(default)]
    error_message: Option<String>,
    #[serde(default)]
    request_id: Option<String>,
}

/// The error that a text describes, if it is such a JSON object.
pub(super) fn error(text: &str) -> Option<Error> {
    let shaped: Shaped = serde_json::from_str(text.trim()).ok()?;
    let mut error = Error::new(shaped.error_type, shaped.error_message.unwrap_or_default());
    error
        .details
        .extend(shaped.request_id.map(|id| ("requestId".to_owned(), id)));
    Some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_lambdas_shape_is_recognised() {
        let found = error(r#" {"errorType": "OutOfStock", "errorMessage": "none left", "requestId": "r-1", "trace": ["at x"]} "#).unwrap();
        assert_eq!(
            (found.code.as_str(), found.message.as_str()),
            ("OutOfStock", "none left")
        );
        assert_eq!(found.details, [("requestId".to_owned(), "r-1".to_owned())]);
        assert_eq!(
            error(r#"{"errorType": "Odd", "errorMessage": null}"#)
                .unwrap()
                .message,
            ""
        );
        for text in [
            "",
            "no json",
            "{}",
            r#"{"errorMessage": "x"}"#,
            "[1]",
            r#"{"errorType": 5}"#,
        ] {
            assert_eq!(error(text), None, "{text}");
        }
    }
}
