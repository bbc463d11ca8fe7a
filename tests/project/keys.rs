//! The keys of the configuration: its tables in the document, its schema and the types for Node.js are made from their list.
//!
//! `RENEW=1` writes them again.

use std::path::Path;

use backstop_host::config::{Config, options_in_typescript, rows_of, schema};
use backstop_tests::documents::{blocks, compare, document};
use serde_json::Value;

const CONFIGURATION: &str = "host/docs/deploy/configuration.md";
const SCHEMA: &str = "host/docs/backstop.schema.json";

/// Each section of the document with a table of keys, and the tables whose keys it has.
const SECTIONS: [(&str, &[&str]); 10] = [
    ("## Top level", &["", "decisions"]),
    ("## `[admin-proxy]`", &["admin-proxy"]),
    ("## `[limits]`", &["limits"]),
    ("### `limits.compile`", &["limits.compile"]),
    ("## `[policies]`", &["policies"]),
    ("## `[queues.NAME]`", &["queues.NAME"]),
    ("### Idempotency", &["queues.NAME.idempotency"]),
    ("### Breaker", &["queues.NAME.breaker"]),
    ("### Limits for each key", &["queues.NAME.limit-each"]),
    ("## `[lambda]`", &["lambda"]),
];

#[test]
fn the_tables_of_keys_are_made_from_their_list() {
    let mut text = document(CONFIGURATION);
    for (section, tables) in SECTIONS {
        let (before, rest) = text.split_once(&format!("\n{section}\n")).unwrap();
        let (head, rest) = rest.split_once("|---|---|---|\n").unwrap();
        let (_, after) = rest.split_once("\n\n").unwrap();
        let rows: Vec<_> = tables.iter().flat_map(|table| rows_of(table)).collect();
        let rows = rows.join("\n");
        text = format!("{before}\n{section}\n{head}|---|---|---|\n{rows}\n\n{after}");
    }
    compare(CONFIGURATION, &text);
}

#[test]
fn the_schema_for_editors_is_made_from_the_list_of_keys() {
    let made = serde_json::to_string_pretty(&schema()).unwrap();
    compare(SCHEMA, &format!("{made}\n"));
}

#[test]
fn the_types_for_node_are_made_from_the_list_of_keys() {
    compare("host/node/ts/options.ts", &options_in_typescript());
}

/// Whether a value is what the schema says, as far as the schema of this project goes.
fn is_valid(value: &Value, schema: &Value) -> bool {
    let of = |name: &str| schema.get(name);
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Null => "null",
    };
    let is_kind = of("type").is_none_or(|kinds| {
        let one = std::slice::from_ref(kinds);
        let kinds = kinds.as_array().map_or(one, Vec::as_slice);
        kinds
            .iter()
            .any(|one| one == kind || (one == "number" && kind == "integer"))
    });
    let is_listed = of("enum").is_none_or(|names| names.as_array().unwrap().contains(value));
    let has_keys = value.as_object().is_none_or(|table| {
        let others = of("additionalProperties");
        let has_required = of("required").is_none_or(|names| {
            let mut names = names.as_array().unwrap().iter();
            names.all(|name| table.contains_key(name.as_str().unwrap()))
        });
        let are_valid = table.iter().all(|(name, value)| {
            let schema = of("properties")
                .and_then(|known| known.get(name))
                .or(others);
            schema.is_none_or(|schema| schema != false && is_valid(value, schema))
        });
        has_required && are_valid
    });
    let is_within = value.as_u64().is_none_or(|number| {
        let bound = |name: &str| of(name).and_then(Value::as_u64);
        bound("minimum").is_none_or(|least| number >= least)
            && bound("maximum").is_none_or(|most| number <= most)
    });
    is_kind && is_listed && has_keys && is_within
}

#[test]
fn the_schema_accepts_the_example_and_no_mistakes() {
    let schema: Value = serde_json::from_str(&document(SCHEMA)).unwrap();
    let parsed = |text: &str| -> Value { toml::from_str(text).unwrap() };
    let example = &blocks(&document(CONFIGURATION), "toml")[0];
    assert!(is_valid(&parsed(example), &schema));
    for mistake in [
        "odd = 1",
        "metrics = 9464",
        "[queues.q]\nhandler = { exec = \"true\" }",
        "[queues.q]\nurl = \"local:q\"\nmax-polls = 101",
        "[queues.q]\nurl = \"local:q\"\nmax-poll = 1",
        "[queues.q]\nurl = \"local:q\"\nhold = \"later\"",
        "[lambda]\nallow-discard = \"no\"",
    ] {
        assert!(!is_valid(&parsed(mistake), &schema), "{mistake}");
    }
}

/// Other values for one in the example, of which at least one is valid and no default.
fn others(value: &toml::Value, schema: &Value) -> Vec<toml::Value> {
    let listed = schema["enum"].as_array().into_iter().flatten();
    let mut others: Vec<toml::Value> = listed.map(|name| name.as_str().unwrap().into()).collect();
    match value {
        toml::Value::Boolean(is_set) => others.push((!is_set).into()),
        toml::Value::Integer(number) => others.extend([(number + 1).into(), (number - 1).into()]),
        toml::Value::String(text) => {
            others.push(format!("{text}1").into());
            others.extend(["1s", "7s", "2m", "32MiB", "7/s"].map(Into::into));
        }
        toml::Value::Array(_) | toml::Value::Table(_) => {}
        toml::Value::Float(_) | toml::Value::Datetime(_) => panic!("{value} in the example"),
    }
    others
}

/// The tables on the way to a key, in an example.
fn tables<'a>(example: &'a mut toml::Table, path: &[String]) -> &'a mut toml::Table {
    path.iter()
        .fold(example, |table, name| table[name].as_table_mut().unwrap())
}

/// Fails if a key of a table is not in the example, or if neither its absence nor another value changes what is read.
fn changes_what_is_read(example: &toml::Table, path: &[String], schema: &Value) {
    let parsed = |example: &toml::Table| {
        let text = toml::to_string(example).unwrap();
        Config::parse(&text, Path::new("/etc/backstop.toml"))
    };
    for (name, key) in schema["properties"].as_object().unwrap() {
        // A file of the Lambda retry handler is its own, and a handler is of one kind.
        if name == "lambda" || path.last().is_some_and(|it| it == "handler") {
            continue;
        }
        let mut changed = example.clone();
        let at = path.join(".");
        let value = tables(&mut changed, path).remove(name);
        let value = value.unwrap_or_else(|| panic!("the example has no {at}.{name}"));
        if value.is_table() && key.get("properties").is_some() {
            let path = [path, std::slice::from_ref(name)].concat();
            changes_what_is_read(example, &path, key);
            continue;
        }
        if name == "queues" {
            let path = ["queues".to_owned(), "orders".to_owned()];
            changes_what_is_read(example, &path, &key["additionalProperties"]);
            continue;
        }
        let whole = parsed(example).unwrap();
        let without = parsed(&changed);
        let others = others(&value, key).into_iter().map(|other| {
            tables(&mut changed, path).insert(name.clone(), other);
            parsed(&changed)
        });
        let others: Vec<_> = others.collect();
        let is_read = without.map_or(true, |it| it != whole)
            || others.into_iter().flatten().any(|it| it != whole);
        assert!(is_read, "{at}.{name} changes nothing that is read");
    }
}

#[test]
fn every_key_of_the_example_changes_what_is_read() {
    let example = &blocks(&document(CONFIGURATION), "toml")[0];
    let example = toml::from_str(example).unwrap();
    changes_what_is_read(&example, &[], &schema());
}
