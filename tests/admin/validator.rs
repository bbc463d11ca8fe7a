//! A validator for the part of JSON Schema that `host/docs/admin.schema.json` uses. Stricter than a client needs to be: a property that the schema does not name is an error, so that nothing is answered that is not documented.

use serde_json::Value;

/// What is wrong with a value that shall be of this definition: a line for each mistake.
pub(super) fn mistakes(root: &Value, definition: &str, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let schema = &root["$defs"][definition];
    assert!(schema.is_object(), "the schema has no `{definition}`");
    check(root, schema, value, definition, &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let mut wrong = |what: String| found.push(format!("{place}: {what}: {value}"));
    for (keyword, expected) in schema.as_object().unwrap() {
        let fits = match keyword.as_str() {
            "description"
            | "examples"
            | "$ref"
            | "properties"
            | "additionalProperties"
            | "items" => true,
            "const" => value == expected,
            "enum" => expected.as_array().unwrap().contains(value),
            "type" => match expected.as_str() {
                Some(name) => is_of(value, name),
                None => {
                    let mut names = expected.as_array().unwrap().iter();
                    names.any(|name| is_of(value, name.as_str().unwrap()))
                }
            },
            "maxItems" => value
                .as_array()
                .is_none_or(|it| it.len() as u64 <= expected.as_u64().unwrap()),
            "minItems" => value
                .as_array()
                .is_none_or(|it| it.len() as u64 >= expected.as_u64().unwrap()),
            "minimum" => value
                .as_f64()
                .is_none_or(|it| it >= expected.as_f64().unwrap()),
            "required" => {
                let names = expected.as_array().unwrap().iter();
                names
                    .into_iter()
                    .all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            other => panic!("{place}: the validator does not know `{other}`"),
        };
        if !fits {
            wrong(format!("expected {keyword} {expected}"));
        }
    }
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.strip_prefix("#/$defs/").unwrap();
        let referred = &root["$defs"][name];
        assert!(referred.is_object(), "{place}: there is no `{name}`");
        check(root, referred, value, place, found);
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            check(root, items, value, &format!("{place}[{index}]"), found);
        }
    }
    let is_open =
        schema.get("properties").is_some() || schema.get("additionalProperties").is_some();
    if let (true, Some(object)) = (is_open, value.as_object()) {
        for (name, value) in object {
            let place = format!("{place}.{name}");
            let named = schema.get("properties").and_then(|it| it.get(name));
            match named.or_else(|| schema.get("additionalProperties")) {
                Some(schema) if schema.is_object() => check(root, schema, value, &place, found),
                Some(_) | None => found.push(format!("{place}: is not in the schema")),
            }
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the validator does not know the type `{other}`"),
    }
}
