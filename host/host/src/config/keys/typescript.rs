//! The options of a worker in TypeScript, by which editors complete and check them.

use serde_json::Value;

use super::{Key, keys};

/// The keys whose handlers are other programs: a package's handler is a function of its language.
const OTHER_HANDLERS: &str = "queues.NAME.handler";

/// The keys that are options of a program, each once.
pub(crate) fn options() -> impl Iterator<Item = &'static Key> {
    keys().filter(|key| key.table != OTHER_HANDLERS && key.option().is_some())
}

/// An interface with all options.
pub fn options_in_typescript() -> String {
    let mut text = "// The options of a worker, made from the list of keys of the configuration.\n\n\
        import type { Settings } from './texts.js';\n\n\
        /** The keys of a queue and of the host in `backstop.toml`, with capitals for dashes. Times are texts such as `'1m30s'`. */\n\
        export interface QueueOptions {\n  \
        /** The name by which metrics, logs and commands know the queue: that of its URL. */\n  \
        name?: string;\n"
        .to_owned();
    let options: Vec<&Key> = options().filter(|key| !is_own(key)).collect();
    for key in &options {
        let name = camel(key.option().unwrap_or_default());
        let default = match key.default {
            "" => String::new(),
            default => format!(" Default: `{default}`."),
        };
        let (about, kind) = (
            with_names_of_options(&key.description()),
            key.type_in_typescript(),
        );
        text += &format!("  /** {about}{default} */\n  {name}?: {kind};\n");
    }
    text + "}\n"
}

/// The packages have their own ways to say these.
fn is_own(key: &Key) -> bool {
    key.option() == Some("url")
}

/// A sentence that names methods, with the options of the same name.
fn with_names_of_options(sentence: &str) -> String {
    let is_option = |name: &str| options().any(|key| key.option() == Some(name));
    let named = |word: &str| {
        if is_option(word) {
            camel(word)
        } else {
            word.to_owned()
        }
    };
    let words: Vec<_> = sentence.split('`').map(named).collect();
    words.join("`")
}

/// max_in_flight is maxInFlight.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (letter, rest) = word.split_at(word.ceil_char_boundary(1));
        name + &letter.to_uppercase() + rest
    })
}

impl Key {
    fn type_in_typescript(&self) -> &'static str {
        if self.field.ends_with("settings") {
            return "Settings";
        }
        let schema = (self.schema)();
        let of = |name: &str| schema.get(name).unwrap_or(&Value::Null);
        let kind = of("type");
        let is = |name: &str| {
            let mut kinds = kind.as_array().into_iter().flatten();
            kind == name || kinds.any(|it| it == name)
        };
        match (is("object"), is("array")) {
            _ if kind.is_null() && of("enum").is_array() => "string",
            _ if is("boolean") => "boolean",
            _ if kind == "integer" => "number",
            (true, _) => "string | Readonly<Record<string, string | number | boolean>>",
            (_, true) => "string | readonly string[]",
            _ if matches!(kind, Value::String(_)) => "string",
            _ => "string | number",
        }
    }
}
