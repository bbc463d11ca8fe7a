//! The keys of events are those of the real libraries, digit by digit.

use backstop_idempotency::{Event, Idempotency, MemoryStore, RecordFormat};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::powertools::{PREFIX, Powertools};

/// The key of an event by a JSON pointer or by JMESPath.
fn ours(format: RecordFormat, path: &str, event: &str) -> String {
    let idempotency = Idempotency::builder(MemoryStore::new(format), PREFIX).key(path);
    let event = Event::parse(event).unwrap();
    let key = idempotency.build().unwrap().key_of(&event).unwrap();
    key.unwrap().as_str().to_owned()
}

#[tokio::test]
async fn golden_keys_are_those_of_the_real_libraries() {
    let values = [
        "7",
        "\"o-7\"",
        "0.1",
        "1.0",
        "1e-7",
        "1e16",
        "1E+2",
        "-0.0",
        "-0",
        "123456789012345678901234567890",
        "9007199254740993",
        "1e400",
        "5e-324",
        "2.2250738585072011e-308",
        "\"Zoë 😀 \\u0000\\u007f\\u2028\\\"/\"",
        r#"{"b": 1, "B": 2, "a": {"Z": [], "z": {}}, "A": null}"#,
        r#"{"B": 1, "b": 2, "10": 3, "9": 4, "-1": 5, "__proto__": 6}"#,
        r#"[1.50, "x", null, true, {"é": "É", "É": "é"}]"#,
        r#"{"a": 1, "a": 2, "b": 0, "a": 3}"#,
        "false",
    ];
    for format in [RecordFormat::Python, RecordFormat::TypeScript] {
        let mut library = Powertools::start(format, None);
        for value in values {
            // TypeScript takes `false` for a missing key and complains.
            if (format, value) == (RecordFormat::TypeScript, "false") {
                continue;
            }
            let event = format!("{{\"order\": {{\"id\": {value}}}}}");
            if format == RecordFormat::TypeScript && ["-0.0", "-0"].contains(&value) {
                continue;
            }
            let theirs = library.key("order.id", &event).await;
            assert_eq!(ours(format, "/order/id", &event), theirs, "{value}");
            assert_eq!(ours(format, "order.id", &event), theirs, "{value}");
        }
    }
}

#[tokio::test]
async fn golden_keys_by_the_functions_of_powertools() {
    let body = r#"{"user": "é", "order": {"sum": 1.10, "id": 12345678901234567890}}"#;
    let event = json!({
        "body": body,
        "encoded": "eyJ1c2VyIjogInUifQ==",
        "zipped": "H4sIAAAAAAACA6tWKi1OLVKyUlAqVaoFADv3zCENAAAA",
    });
    let event = event.to_string();
    for format in [RecordFormat::Python, RecordFormat::TypeScript] {
        let mut library = Powertools::start(format, None);
        for path in [
            "powertools_json(body)",
            "powertools_json(body).[user, order.id]",
            "powertools_json(body).order.{b: sum, A: id}",
            "powertools_json(powertools_base64(encoded)).user",
            "[body, missing]",
            "powertools_json(powertools_base64_gzip(zipped))",
        ] {
            let theirs = library.key(path, &event).await;
            assert_eq!(ours(format, path, &event), theirs, "{path}");
        }
    }
}

/// JSON text with what the two languages write in different ways.
fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|it| it.to_string()),
        "-?[1-9][0-9]{15,30}",
        any::<f64>()
            .prop_filter("finite", |it| it.is_finite())
            .prop_map(|it| format!("{it:?}")),
        "-?[0-9]\\.[0-9]{1,20}([eE][-+]?[0-9]{1,2})?",
        (any::<u32>(), -25..25_i32).prop_map(|(digits, exponent)| format!("{digits}e{exponent}")),
    ];
    let leaf = prop_oneof![
        number,
        any::<String>().prop_map(|it| json!(it).to_string()),
        Just("null".to_owned()),
        Just("true".to_owned()),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let name = prop_oneof!["[abAB]{1,2}", "[0-9]{1,3}", any::<String>()];
        let name = name.prop_map(|it| json!(it).to_string());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|it| format!("[{}]", it.join(","))),
            prop::collection::vec((name, inner), 0..6).prop_map(|fields| {
                let fields = fields.into_iter();
                let fields: Vec<_> = fields.map(|(name, it)| format!("{name}:{it}")).collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

#[tokio::test]
async fn keys_of_any_event_are_those_of_the_real_libraries() {
    let mut runner = TestRunner::deterministic();
    let values: Vec<_> = (0..1_000)
        .map(|_| value().new_tree(&mut runner).unwrap().current())
        .collect();
    for format in [RecordFormat::Python, RecordFormat::TypeScript] {
        let mut library = Powertools::start(format, None);
        for value in &values {
            // An array of two is never missing.
            let event = format!("{{\"id\": [1, {value}]}}");
            let theirs = library.key("id", &event).await;
            assert_eq!(ours(format, "/id", &event), theirs, "{event}");
        }
    }
}
