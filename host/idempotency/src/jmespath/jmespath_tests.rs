use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn found(format: RecordFormat, expression: &str, event: &str) -> Result<Json, String> {
    let event = Json::parse(event).unwrap();
    Expression::compile(expression)
        .unwrap()
        .find(format, &event)
}

fn find(expression: &str, event: &str) -> Result<Json, String> {
    found(RecordFormat::Python, expression, event)
}

#[test]
fn an_expression_finds_what_powertools_finds() {
    let body = r#"{"user": "u", "order": {"id": 12345678901234567890123}, "sum": 1.0}"#;
    let event = serde_json::json!({
        "body": body,
        "encoded": STANDARD.encode(body),
        "detail": {"a": 1},
    });
    let event = event.to_string();
    for (expression, expected) in [
        ("detail.a", "1"),
        ("detail.b", "null"),
        ("[detail.a, detail.b]", "[1, null]"),
        (
            "powertools_json(body).order",
            r#"{"id": 12345678901234567890123}"#,
        ),
        ("powertools_json(body).[user, sum]", r#"["u", 1.0]"#),
        ("powertools_json(powertools_base64(encoded)).user", "\"u\""),
    ] {
        let expected = Json::parse(expected).unwrap();
        assert_eq!(find(expression, &event).unwrap(), expected, "{expression}");
    }
}

#[test]
fn a_literal_may_hold_its_own_quotes() {
    for (expression, in_python, in_typescript) in [
        (r"'a\'b'", r#""a'b""#, r#""a'b""#),
        (r"'\'a\'b'", r#""'a'b""#, r#""'a\\'b""#),
        (r#"`"a\`b"`"#, r#""a`b""#, r#""a`b""#),
        (r"'a\\'", r#""a\\\\""#, r#""a\\\\""#),
    ] {
        for (format, expected) in [
            (RecordFormat::Python, in_python),
            (RecordFormat::TypeScript, in_typescript),
        ] {
            let expected = Json::parse(expected).unwrap();
            assert_eq!(
                found(format, expression, "{}").unwrap(),
                expected,
                "{expression}"
            );
        }
    }
    let second = r#"`"\`a\`"`"#;
    assert_eq!(find(second, "{}").unwrap(), Json::String("`a`".to_owned()));
    assert!(found(RecordFormat::TypeScript, second, "{}").is_err());
}

#[test]
fn each_library_has_its_own_numbers_and_text() {
    let event = r#"{"b": [1, 2.0, -3], "a": {"é": 1.0, "10": "😀", "9": 1e2}, "big": 12345678901234567890, "zero": 0, "none": []}"#;
    for (expression, in_python, in_typescript) in [
        ("abs(b[2])", "3", "3"),
        ("abs(b[1])", "2.0", "2"),
        ("sum(b)", "0.0", "0"),
        ("sum(b[?@ != `2`])", "-2", "-2"),
        ("sum(none)", "0", "0"),
        ("avg(b[?@ != `2`])", "-1.0", "-1"),
        ("ceil(a.\"é\")", "1", "1"),
        ("abs(big)", "12345678901234567890", "12345678901234567000"),
        (
            "sum([big, big])",
            "24691357802469135780",
            "24691357802469136000",
        ),
        (
            "to_string(a)",
            r#""{\"\\u00e9\":1.0,\"10\":\"\\ud83d\\ude00\",\"9\":100.0}""#,
            r#""{\"9\":100,\"10\":\"😀\",\"é\":1}""#,
        ),
        ("to_string(b[1])", r#""2.0""#, r#""2""#),
        ("to_string(`1.10`)", r#""1.1""#, r#""1.1""#),
        ("keys(a)", r#"["é", "10", "9"]"#, r#"["9", "10", "é"]"#),
        ("a.*", r#"[1.0, "😀", 1e2]"#, r#"[1e2, "😀", 1.0]"#),
        ("length(a.\"10\")", "1", "2"),
        ("to_number('1_000')", "1000", "null"),
        ("to_number('0x1f')", "null", "31"),
        ("to_number(' 1.50 ')", "1.5", "1.5"),
        ("not_null(none[0], zero)", "0", "null"),
        ("map(&@, [zero, b[0]])", "[0, 1]", "[null, 1]"),
        ("zero == `false`", "false", "false"),
        ("contains([zero], `false`)", "true", "false"),
        ("b[0] == `1.0`", "true", "true"),
        ("'a' < 'b'", "true", "null"),
        ("b[::-1]", "[-3, 2.0, 1]", "[-3, 2.0, 1]"),
        ("b[-2:]", "[2.0, -3]", "[2.0, -3]"),
        ("sort(b)", "[-3, 1, 2.0]", "[-3, 1, 2.0]"),
        ("max_by([a, {\"9\": `1e3`}], &\"9\").\"9\"", "1e3", "1e3"),
    ] {
        for (format, expected) in [
            (RecordFormat::Python, in_python),
            (RecordFormat::TypeScript, in_typescript),
        ] {
            let found = found(format, expression, event);
            let found = found.unwrap_or_else(|error| panic!("{expression}: {error}"));
            let expected = Json::parse(expected).unwrap();
            let is_same = match (&found, &expected) {
                // Another way to write the same number.
                (Json::Number(_), Json::Number(_)) => {
                    crate::HashFunction::Md5.hash(format, &found)
                        == crate::HashFunction::Md5.hash(format, &expected)
                }
                _ => found == expected,
            };
            assert!(is_same, "{expression} by {format:?}: {found:?}");
        }
    }
}

#[test]
fn what_a_library_does_by_its_locale_or_by_halves_of_characters_is_an_error() {
    for expression in ["sort(@)", "reverse([0])", "contains(@, [0:1])"] {
        let event = r#"["😀", "A"]"#;
        assert!(
            found(RecordFormat::Python, expression, event).is_ok(),
            "{expression}"
        );
        let error = found(RecordFormat::TypeScript, expression, event).unwrap_err();
        assert!(error.to_string().contains("TypeScript"), "{error}");
    }
    let sorted = found(RecordFormat::TypeScript, "sort(@)", r#"["b", "a1"]"#);
    assert_eq!(sorted.unwrap(), Json::parse(r#"["a1", "b"]"#).unwrap());
}

#[test]
fn base64_is_read_as_each_library_reads_it() {
    for (text, in_python, in_typescript) in [
        ("b3JkZXI=", Some("order"), Some("order")),
        // The last digit says more than it needs.
        ("b3JkZXJ=", Some("order"), Some("order")),
        ("b3Jk\\nZXI=\\n", Some("order"), None),
        ("b3JkZXI=b3Jk", Some("order"), None),
        ("b3JkZXI", None, None),
        // No UTF-8, and a byte order mark.
        ("/28=", None, Some("\u{fffd}o")),
        ("77u/bw==", Some("\u{feff}o"), Some("o")),
        ("b3Jké", None, None),
    ] {
        for (format, expected) in [
            (RecordFormat::Python, in_python),
            (RecordFormat::TypeScript, in_typescript),
        ] {
            let event = format!("{{\"data\": \"{text}\"}}");
            let found = found(format, "powertools_base64(data)", &event).ok();
            let expected = expected.map(|it| Json::String(it.to_owned()));
            assert_eq!(found, expected, "{text} by {format:?}");
        }
    }
}

#[test]
fn typescript_merges_nothing_of_what_is_missing() {
    let event = r#"{"a": {"x": 1}, "b": {"x": 2, "y": 3}}"#;
    for expression in ["merge(a, c, b)", "merge(a, `7`, b)"] {
        assert!(found(RecordFormat::Python, expression, event).is_err());
        let found = found(RecordFormat::TypeScript, expression, event).unwrap();
        assert_eq!(found, Json::parse(r#"{"x": 2, "y": 3}"#).unwrap());
    }
    assert!(found(RecordFormat::TypeScript, "merge(c, a)", event).is_err());
}

#[test]
fn an_array_that_typescript_changes_in_the_event_is_used_once() {
    let event = r#"{"a": [1, 2], "b": 7}"#;
    for (expression, is_known) in [
        ("reverse(a)", true),
        ("[`1`, reverse(a)]", true),
        ("reverse([a, b])", true),
        ("[a, reverse(a)]", false),
        ("[a, sort(a)]", false),
        ("[b, reverse(a)]", false),
    ] {
        assert!(found(RecordFormat::Python, expression, event).is_ok());
        let found = found(RecordFormat::TypeScript, expression, event);
        assert_eq!(found.is_ok(), is_known, "{expression}");
    }
}

#[test]
fn compressed_text_is_bounded() {
    let event = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap();
        format!("{{\"data\": \"{}\"}}", STANDARD.encode(bytes))
    };
    let expression = "powertools_base64_gzip(data)";
    let small = find(expression, &event("small")).unwrap();
    assert_eq!(small, Json::String("small".to_owned()));
    let large = " ".repeat(9 * 1024 * 1024);
    let error = find(expression, &event(&large)).unwrap_err();
    assert!(
        error.to_string().contains("more than 8388608 bytes"),
        "{error}"
    );
}

/// A sender chooses the event.
#[test]
fn large_events_are_searched_in_time() {
    let fields: Vec<_> = (0..20_000).map(|it| format!("\"{it}\":{it}.5")).collect();
    let event = format!("{{\"a\": {{{0}}}, \"b\": {{{0}}}}}", fields.join(","));
    let began = backstop_core::clock::instant();
    for expression in [
        "a == b",
        "length(merge(a, b))",
        "sum(values(a))",
        "max(values(a))",
    ] {
        find(expression, &event).unwrap();
    }
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

#[test]
fn mistakes_are_errors() {
    for expression in ["a[", "lenght(@)", "[0, no_such(@)]"] {
        assert!(
            matches!(
                expression.parse::<crate::Path>(),
                Err(crate::PathError::JmesPath(..))
            ),
            "{expression}"
        );
    }
    for expression in [
        "powertools_json(`1`)",
        "powertools_json('{')",
        "powertools_base64('a')",
        "abs('1')",
        "abs()",
        "abs(`1`, `2`)",
        "sum([`1`, 'a'])",
        "max([`1`, 'a'])",
        "max([`true`])",
        "sort([`true`])",
        "sort([to_number('nan'), `1`, to_number('nan'), `0`])",
        "sort([`1`, 'a', `0`, 'b'])",
        "max([`1`, to_number('nan')])",
        "map(@, [])",
        "@[::0]",
    ] {
        let error = find(expression, "{}");
        assert!(error.is_err(), "{expression}: {error:?}");
    }
}

#[test]
fn an_expression_has_a_bounded_depth() {
    let around =
        |open: &str, close: &str, levels| open.repeat(levels) + "a" + &close.repeat(levels);
    for (open, close, each) in [
        ("!", "", 1),
        ("[", "]", 1),
        ("(", ")", 1),
        ("{a:", "}", 1),
        ("abs(", ")", 1),
        ("a[?", "]", 1),
        ("", ".a", 1),
        ("", "|a", 1),
        ("", "||a", 1),
        ("", "==a", 1),
        ("", ".*", 2),
        ("", "[]", 1),
        ("", "[*]", 2),
    ] {
        let deepest = Expression::compile(&around(open, close, depth::DEEPEST / each));
        let deepest = deepest.unwrap_or_else(|why| panic!("{open}a{close}: {why}"));
        let event = Json::parse(r#"{"a": [[1]]}"#).unwrap();
        _ = deepest.find(RecordFormat::Python, &event);
        let refused = Expression::compile(&around(open, close, 100_000)).unwrap_err();
        assert_eq!(refused, "more than 100 levels deep", "{open}a{close}");
    }
    let beside = vec!["a.b"; 10_000].join(", ");
    assert!(Expression::compile(&format!("[{beside}]")).is_ok());
}
