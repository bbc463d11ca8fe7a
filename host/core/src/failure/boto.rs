//! The errors of boto3 and the AWS CLI, which have the service's code in their text.

/// How each error of a service begins.
const BEGIN: &str = "An error occurred (";

/// What follows the code.
const CALL: &str = ") when calling the ";

/// The longest code that is read from a text, in bytes.
const CODE_BYTES: usize = 128;

/// The service's code as that of an error. S3 has no body to an answer without one, and boto3 then has the status as the code: `HTTP 404`.
pub(super) fn named(code: &str) -> String {
    let is_status = code.len() == 3 && code.bytes().all(|it| it.is_ascii_digit());
    if is_status {
        format!("HTTP {code}")
    } else {
        code.to_owned()
    }
}

/// The service's code in the text of an error of boto3 or of the AWS CLI: `An error occurred (ValidationException) when calling the PutItem operation: …`. `None` if the text does not begin so.
pub(super) fn code(text: &str) -> Option<&str> {
    let (code, _) = text.strip_prefix(BEGIN)?.split_once(CALL)?;
    let is_code = |it: char| it.is_ascii_alphanumeric() || "._-:".contains(it);
    let fits = !code.is_empty() && code.len() <= CODE_BYTES && code.chars().all(is_code);
    fits.then_some(code)
}

/// The same for a line of a log: after the name of the exception in a traceback of Python, or the prefix of the AWS CLI.
pub(super) fn code_in_line(line: &str) -> Option<&str> {
    let line = line.trim();
    let (before, _) = line.split_once(BEGIN)?;
    let name = before.strip_suffix(": ");
    let is_name = |name: &str| !name.contains(char::is_whitespace) || name == "aws: [ERROR]";
    let is_begin = before.is_empty() || name.is_some_and(is_name);
    is_begin.then(|| code(line.get(before.len()..)?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_the_service_is_read() {
        for (text, expected) in [
            (
                "An error occurred (ValidationException) when calling the PutItem operation: bad",
                Some("ValidationException"),
            ),
            (
                "An error occurred (AWS.SimpleQueueService.NonExistentQueue) when calling the SendMessage operation: x",
                Some("AWS.SimpleQueueService.NonExistentQueue"),
            ),
            (
                "An error occurred (404) when calling the HeadObject operation: Not Found",
                Some("404"),
            ),
            (
                "An error occurred (ThrottlingException) when calling the Invoke operation (reached max retries: 4): Rate exceeded",
                Some("ThrottlingException"),
            ),
            (
                "An error occurred (Slow Down) when calling the X operation",
                None,
            ),
            ("An error occurred () when calling the X operation", None),
            ("An error occurred (A)", None),
            (
                "it said: An error occurred (A) when calling the X operation",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn a_status_is_a_code_that_the_classification_knows() {
        for (code, name) in [
            ("404", "HTTP 404"),
            ("SlowDown", "SlowDown"),
            ("4040", "4040"),
        ] {
            assert_eq!(named(code), name);
        }
    }

    #[test]
    fn a_line_may_begin_with_the_name_of_the_exception() {
        let text = "An error occurred (SlowDown) when calling the PutObject operation: x";
        for (line, expected) in [
            (text.to_owned(), Some("SlowDown")),
            (
                format!("botocore.exceptions.ClientError: {text}\n"),
                Some("SlowDown"),
            ),
            (format!("aws: [ERROR]: {text}"), Some("SlowDown")),
            // A log of something that the program went on with.
            (format!("WARN retrying after: {text}"), None),
            (format!("x {text}"), None),
        ] {
            assert_eq!(code_in_line(&line), expected, "{line}");
        }
    }
}
