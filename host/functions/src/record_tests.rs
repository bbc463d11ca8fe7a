use serde_json::Value;

use super::*;

/// When the messages were sent.
const SENT: Timestamp = Timestamp(1_800_000_000_000);

/// A record as Lambda writes it, with these fields in place of the usual ones.
fn record(changes: &[(&str, &str)]) -> String {
    let mut record: serde_json::Map<String, Value> = serde_json::from_str(
        r#"{
            "version": "1.0",
            "timestamp": "2026-01-01T00:00:00.250Z",
            "requestContext": {"requestId": "r-1", "functionArn": "arn:aws:lambda:eu-west-1:123456789012:function:f:$LATEST", "condition": "RetriesExhausted", "approximateInvokeCount": 1},
            "requestPayload": {"order": 1},
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "responsePayload": {"errorMessage": "none left", "errorType": "OutOfStock", "requestId": "r-1", "stackTrace": ["a", "b"]}
        }"#,
    )
    .unwrap();
    for (name, value) in changes {
        match *value {
            "" => record.remove(*name),
            value => record.insert((*name).to_owned(), serde_json::from_str(value).unwrap()),
        };
    }
    Value::Object(record).to_string()
}

fn parse(body: &str) -> Result<InvocationRecord, NoRecord> {
    InvocationRecord::parse(body, "m-1", SENT)
}

fn error(changes: &[(&str, &str)]) -> (String, String, Option<u16>) {
    let Error {
        code,
        message,
        status,
        ..
    } = parse(&record(changes)).unwrap().error;
    (code, message, status)
}

fn detail<'a>(record: &'a InvocationRecord, name: &str) -> Option<&'a str> {
    let found = record.error.details.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn a_record_tells_what_failed_when_and_why() {
    let record = parse(&record(&[])).unwrap();
    assert_eq!(record.request_id, "r-1");
    assert!(record.function.ends_with(":function:f:$LATEST"));
    assert_eq!(record.failed_at, Timestamp(1_767_225_600_250));
    assert!(record.ran);
    assert_eq!(record.event.get(), r#"{"order":1}"#);
    assert_eq!(detail(&record, "stackTrace"), Some("a\nb"));
    assert_eq!(detail(&record, "condition"), Some("RetriesExhausted"));
    assert_eq!(detail(&record, "functionError"), Some("Unhandled"));
    assert_eq!(detail(&record, "executedVersion"), Some("$LATEST"));
}

#[test]
fn the_error_is_the_functions_own_or_else_that_of_the_delivery_or_else_the_condition() {
    let aged = r#"{"requestId": "r", "functionArn": "f", "condition": "EventAgeExceeded", "approximateInvokeCount": 0}"#;
    for (name, changes, code, message, status) in [
        ("python", &[][..], "OutOfStock", "none left", None),
        (
            "a timeout",
            &[(
                "responsePayload",
                r#"{"errorType": "Sandbox.Timedout", "errorMessage": "RequestId: r-1 Error: Task timed out after 3.00 seconds"}"#,
            )],
            "Sandbox.Timedout",
            "RequestId: r-1 Error: Task timed out after 3.00 seconds",
            None,
        ),
        (
            "node",
            &[(
                "responsePayload",
                r#"{"errorType": "Error", "errorMessage": "boom", "trace": ["Error: boom", "    at handler"]}"#,
            )],
            "Error",
            "boom",
            None,
        ),
        (
            "rust",
            &[(
                "responsePayload",
                r#"{"errorType": "alloc::string::String", "errorMessage": "boom"}"#,
            )],
            "alloc::string::String",
            "boom",
            None,
        ),
        (
            "never run",
            &[
                ("requestContext", aged),
                ("responseContext", ""),
                ("responsePayload", ""),
            ],
            "EventAgeExceeded",
            "the function did not run",
            None,
        ),
        (
            "no response",
            &[("responseContext", ""), ("responsePayload", "")],
            "RetriesExhausted",
            "the record has no response",
            None,
        ),
        (
            "a throttle",
            &[
                ("responseContext", r#"{"statusCode": 429}"#),
                ("responsePayload", ""),
            ],
            "RetriesExhausted",
            "the record has no response",
            Some(429),
        ),
        (
            "a delivery error",
            &[
                ("responsePayload", ""),
                (
                    "deliveryError",
                    r#"{"statusCode": 413, "errorCode": "ResponseSizeTooLarge", "errorMessage": "too large"}"#,
                ),
            ],
            "ResponseSizeTooLarge",
            "too large",
            Some(413),
        ),
        (
            "a delivery error without a code",
            &[
                ("responsePayload", ""),
                ("deliveryError", r#"{"statusCode": 500}"#),
            ],
            "RetriesExhausted",
            "",
            Some(500),
        ),
        (
            "an error without a type",
            &[(
                "responsePayload",
                r#"{"errorMessage": "RequestId: r-1 Process exited before completing request"}"#,
            )],
            "Unhandled",
            "RequestId: r-1 Process exited before completing request",
            None,
        ),
        (
            "an error that is a string",
            &[("responsePayload", r#""boom""#)],
            "Unhandled",
            "boom",
            None,
        ),
        (
            "an error that is no string",
            &[(
                "responsePayload",
                r#"{"errorType": "E", "errorMessage": {"a": 1}}"#,
            )],
            "E",
            r#"{"a":1}"#,
            None,
        ),
        (
            "a null response",
            &[("responsePayload", "null")],
            "Unhandled",
            "the record has no response",
            None,
        ),
        (
            "a type that is null",
            &[(
                "responsePayload",
                r#"{"errorType": null, "errorMessage": "m"}"#,
            )],
            "RetriesExhausted",
            "m",
            None,
        ),
        (
            "a condition of tomorrow",
            &[
                (
                    "requestContext",
                    r#"{"requestId": "r", "functionArn": "f", "condition": "RecursionDetected"}"#,
                ),
                ("responseContext", ""),
                ("responsePayload", ""),
            ],
            "RecursionDetected",
            "the record has no response",
            None,
        ),
    ] {
        let expected = (code.to_owned(), message.to_owned(), status);
        assert_eq!(error(changes), expected, "{name}");
    }
}

#[test]
fn an_event_that_was_never_run_is_told_from_one_that_failed() {
    for (count, condition, ran) in [
        ("0", "EventAgeExceeded", false),
        ("0", "ZeroReservedConcurrency", true),
        ("1", "EventAgeExceeded", true),
        ("2", "EventAgeExceeded", true),
        ("null", "EventAgeExceeded", true),
    ] {
        let context = format!(
            r#"{{"requestId": "r", "functionArn": "f", "condition": "{condition}", "approximateInvokeCount": {count}}}"#
        );
        let record = parse(&record(&[("requestContext", &context)])).unwrap();
        assert_eq!(record.ran, ran, "{count}");
    }
}

#[test]
fn any_json_is_an_event() {
    for event in ["null", "[1]", "\"text\"", "5", "{}"] {
        let record = parse(&record(&[("requestPayload", event)])).unwrap();
        assert_eq!(record.event.get(), event);
    }
    // To the byte: no number is rounded, no key moved.
    let body = record(&[("requestPayload", "0")]).replace(
        "\"requestPayload\":0",
        r#""requestPayload": {"z": 1.0, "a": 12345678901234567890123, "z": 1e400}"#,
    );
    assert_eq!(
        parse(&body).unwrap().event.get(),
        r#"{"z": 1.0, "a": 12345678901234567890123, "z": 1e400}"#
    );
}

#[test]
fn what_is_no_record_of_a_failure_is_told_apart() {
    let parse = |body: &str| parse(body).unwrap_err();
    for body in [
        "",
        "not json",
        "[]",
        "5",
        "{}",
        r#"{"order": 1}"#,
        r#"{"requestContext": {}, "requestPayload": 1}"#,
        r#"{"requestContext": {"requestId": "r", "functionArn": ""}, "requestPayload": 1}"#,
    ] {
        assert!(matches!(parse(body), NoRecord::Shape(_)), "{body}");
    }
    assert!(matches!(
        parse(&record(&[("requestPayload", "")])),
        NoRecord::NoPayload(_)
    ));
    let context = r#"{"requestId": "r", "functionArn": "f", "condition": "Success"}"#;
    assert!(matches!(
        parse(&record(&[("requestContext", context)])),
        NoRecord::Success(_)
    ));
}

#[test]
fn a_long_trace_and_a_long_text_are_cut() {
    let payload = serde_json::json!({"errorType": "E", "errorMessage": "m".repeat(9_000), "stackTrace": vec!["line"; 2_000]});
    let record = parse(&record(&[("responsePayload", &payload.to_string())])).unwrap();
    assert_eq!(
        record.error.message.len(),
        backstop_core::failure::MESSAGE_BYTES
    );
    assert_eq!(detail(&record, "stackTrace").unwrap().len(), TRACE);
}

#[test]
fn a_record_without_a_time_or_a_request_id_has_those_of_its_message() {
    for time in [
        "\"yesterday\"",
        "\"\"",
        "\"1969-12-31T23:59:59Z\"",
        "null",
        "",
    ] {
        let record = parse(&record(&[("timestamp", time)])).unwrap();
        assert_eq!(record.failed_at, SENT, "{time}");
    }
    for id in [
        "",
        "r 1",
        "\u{e9}",
        &"r".repeat(129),
        &"r".repeat(400 << 10),
    ] {
        let context = format!(r#"{{"functionArn": "f", "requestId": "{id}"}}"#);
        let record = parse(&record(&[("requestContext", &context)])).unwrap();
        assert_eq!(record.request_id, "m-1", "{} bytes", id.len());
    }
    let record = parse(&record(&[("requestContext", r#"{"functionArn": "f"}"#)])).unwrap();
    assert_eq!(record.request_id, "m-1");
}

#[test]
fn a_record_of_the_future_is_of_when_its_message_was_sent() {
    for (time, expected) in [
        ("2026-12-31T00:00:00Z", 1_798_675_200_000),
        ("2027-01-15T08:00:00Z", SENT.0),
        ("2027-01-15T08:00:00.001Z", SENT.0),
        ("9999-12-30T00:00:00Z", SENT.0),
    ] {
        let record = parse(&record(&[("timestamp", &format!("\"{time}\""))])).unwrap();
        assert_eq!(record.failed_at, Timestamp(expected), "{time}");
    }
}

/// What `serde_json::Value` refuses, and Node, Python or a function of one's own may write.
#[test]
fn an_odd_answer_costs_nothing_but_itself() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let error = |response: &str| {
        let body = record(&[("responsePayload", "0")]).replace(
            "\"responsePayload\":0",
            &format!("\"responsePayload\": {response}"),
        );
        parse(&body).unwrap()
    };
    for (more, message) in [
        (r#""errorMessage": "cut \ud83d""#.to_owned(), "cut \u{fffd}"),
        (r#""errorMessage": "m", "order": 1e400"#.to_owned(), "m"),
        (format!(r#""errorMessage": "m", "cause": {deep}"#), "m"),
        (r#""errorMessage": "m", "note \udead": 1"#.to_owned(), "m"),
        (r#""errorMessage": "m", "requestId": 5"#.to_owned(), "m"),
    ] {
        let found = error(&format!(
            r#"{{"errorType": "ValidationException", {more}}}"#
        ));
        let error = &found.error;
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("ValidationException", message),
            "{more}"
        );
    }
    let traced = error(r#"{"errorType": "E", "trace": ["at \ud83d", 1e400]}"#);
    assert_eq!(detail(&traced, "stackTrace"), Some("at \u{fffd}\n1e400"));
    assert_eq!(error(&deep).error.message, deep);
    assert_eq!(error("1e400").error.message, "1e400");
}

#[test]
fn a_field_of_the_wrong_kind_costs_nothing_but_itself() {
    for (name, value) in [
        ("responseContext", r#"["Unhandled"]"#),
        (
            "responseContext",
            r#"{"statusCode": "200", "executedVersion": 1}"#,
        ),
        ("deliveryError", "[500]"),
        ("deliveryError", "5"),
        ("version", "[]"),
        (
            "requestContext",
            r#"{"functionArn": "f", "requestId": 5, "condition": [], "approximateInvokeCount": -1}"#,
        ),
    ] {
        let record = parse(&record(&[(name, value)])).unwrap();
        let error = &record.error;
        assert_eq!(error.code, "OutOfStock", "{value}");
        assert_eq!(error.status, None, "{value}");
    }
    // What it takes to invoke the function is an object's, and text.
    for context in [r#"["r-1", "f"]"#, r#"{"functionArn": ["f"]}"#, r#""f""#] {
        let body = record(&[("requestContext", context)]);
        assert!(matches!(parse(&body), Err(NoRecord::Shape(_))), "{context}");
    }
    let array = format!("[{}]", record(&[]));
    assert!(matches!(parse(&array), Err(NoRecord::Shape(_))));
}
