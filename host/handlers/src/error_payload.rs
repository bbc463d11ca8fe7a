//! Errors in the format of Lambda functions, in an HTTP body, a command's output or a function's payload.

use backstop_json::{Object, shown};

use backstop_core::failure::Error;

/// The error that a text describes, if it is `{"errorType": "...", "errorMessage": "...", "requestId": "..."}`: an object whose `errorType` is a string. Other fields (`stackTrace`, Node's `trace`) are ignored. The code of boto3's `ClientError` is that of the service.
pub(super) fn error(text: &str) -> Option<Error> {
    let fields = Object::parse(text).ok()?;
    let message = fields.get("errorMessage").map_or_else(String::new, shown);
    let mut error = Error::reported(fields.text("errorType")?, message);
    let request_id = fields.text("requestId");
    error
        .details
        .extend(request_id.map(|id| ("requestId".to_owned(), id)));
    Some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_lambdas_format_is_recognised() {
        let boto = error(r#"{"errorType": "ClientError", "errorMessage": "An error occurred (ValidationException) when calling the PutItem operation: bad"}"#).unwrap();
        assert_eq!(boto.code, "ValidationException");
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
        // An unpaired surrogate, as Node writes a truncated string; a number that no double can hold; a field of another type.
        let odd =
            r#"{"errorType": "Odd", "errorMessage": "cut \ud83d", "order": 1e400, "requestId": 5}"#;
        let odd = error(odd).unwrap();
        assert_eq!(
            (odd.code.as_str(), odd.message.as_str()),
            ("Odd", "cut \u{fffd}")
        );
        for text in [
            "",
            "no json",
            "{}",
            r#"["done"]"#,
            r#"["Odd", "message", "r-1"]"#,
            r#"{"errorMessage": "x"}"#,
            "[1]",
            r#"{"errorType": 5}"#,
        ] {
            assert_eq!(error(text), None, "{text}");
        }
    }
}
