//! Keys by JMESPath (feature `jmespath`), with the functions that Powertools adds: `powertools_json`, `powertools_base64` and `powertools_base64_gzip`.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use jmespath::functions::{ArgumentType, CustomFunction, Signature};
use jmespath::{Context, ErrorReason, JmespathError, Rcvar, Runtime, Variable};

use crate::event::{PathError, SearchError};
use crate::json::Json;

/// The most bytes that compressed text may have. A sender must not fill the memory.
const UNCOMPRESSED_BYTES: u64 = 8 * 1024 * 1024;

/// In front of the digits of a number that no type of JMESPath's holds, as a string. No sender's text begins so by chance, and one that does is hashed as the number that it says it is.
const DIGITS: &str = "\u{0}backstop:digits:";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    let mut add = |name: &str, function: fn(&str) -> Result<Variable, String>| {
        let signature = Signature::new(vec![ArgumentType::String], None);
        let function = move |arguments: &[Rcvar], context: &mut Context<'_>| {
            let text = arguments.first().and_then(|it| it.as_string());
            function(text.map_or("", String::as_str))
                .map(Rcvar::new)
                .map_err(|why| JmespathError::from_ctx(context, ErrorReason::Parse(why)))
        };
        let function = CustomFunction::new(signature, Box::new(function));
        runtime.register_function(name, Box::new(function));
    };
    add("powertools_json", |text| {
        let value = Json::parse(text).map_err(|error| error.to_string())?;
        Ok(variable(&value))
    });
    add("powertools_base64", |text| {
        Ok(Variable::String(decode(text)?))
    });
    add("powertools_base64_gzip", |text| {
        Ok(Variable::String(uncompress(text)?))
    });
    runtime
});

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression(jmespath::Expression<'static>);

impl Expression {
    pub(crate) fn compile(text: &str) -> Result<Self, PathError> {
        RUNTIME
            .compile(text)
            .map(Self)
            .map_err(|error| PathError::JmesPath(text.to_owned(), error.reason.to_string()))
    }

    pub(crate) fn find(&self, event: &Json) -> Result<Json, SearchError> {
        let found = self.0.search(variable(event));
        let found = found.map_err(|error| SearchError(error.reason.to_string()))?;
        Ok(json(&found))
    }
}

fn decode(text: &str) -> Result<String, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn uncompress(text: &str) -> Result<String, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let mut uncompressed = String::new();
    let mut reader = MultiGzDecoder::new(bytes.as_slice()).take(UNCOMPRESSED_BYTES + 1);
    let read = reader.read_to_string(&mut uncompressed);
    read.map_err(|error| error.to_string())?;
    if uncompressed.len() as u64 > UNCOMPRESSED_BYTES {
        return Err(format!("the text has more than {UNCOMPRESSED_BYTES} bytes"));
    }
    Ok(uncompressed)
}

fn variable(value: &Json) -> Variable {
    match value {
        Json::Null => Variable::Null,
        Json::Bool(value) => Variable::Bool(*value),
        Json::Number(written) => number(written),
        Json::String(text) => Variable::String(text.clone()),
        Json::Array(values) => {
            Variable::Array(values.iter().map(|it| Arc::new(variable(it))).collect())
        }
        Json::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, it)| (name.clone(), Arc::new(variable(it))));
            Variable::Object(fields.collect::<BTreeMap<_, _>>())
        }
    }
}

fn number(written: &str) -> Variable {
    let is_integer = !written.contains(['.', 'e', 'E']);
    let number = if is_integer {
        let small = written.parse::<i64>().ok().map(Into::into);
        small.or_else(|| written.parse::<u64>().ok().map(Into::into))
    } else {
        // This keeps each bit, unlike the parser of serde_json.
        let number = written.parse::<f64>().ok();
        number.and_then(serde_json::Number::from_f64)
    };
    match number {
        Some(number) => Variable::Number(number),
        None => Variable::String(format!("{DIGITS}{written}")),
    }
}

fn json(value: &Variable) -> Json {
    match value {
        Variable::Null | Variable::Expref(_) => Json::Null,
        Variable::Bool(value) => Json::Bool(*value),
        Variable::Number(number) => Json::Number(number.to_string()),
        Variable::String(text) => match text.strip_prefix(DIGITS) {
            Some(written) => Json::Number(written.to_owned()),
            None => Json::String(text.clone()),
        },
        Variable::Array(values) => Json::Array(values.iter().map(|it| json(it)).collect()),
        Variable::Object(fields) => {
            let fields = fields.iter();
            Json::Object(fields.map(|(name, it)| (name.clone(), json(it))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn find(expression: &str, event: &str) -> Result<Json, SearchError> {
        let event = Json::parse(event).unwrap();
        Expression::compile(expression).unwrap().find(&event)
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

    #[test]
    fn mistakes_are_errors() {
        assert!(matches!(
            Expression::compile("a["),
            Err(PathError::JmesPath(..))
        ));
        for expression in [
            "powertools_json(`1`)",
            "powertools_json('{')",
            "powertools_base64('!')",
        ] {
            assert!(find(expression, "{}").is_err(), "{expression}");
        }
    }
}
