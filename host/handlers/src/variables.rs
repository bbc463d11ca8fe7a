//! The environment variables that tell a command of its message.
//!
//! The sender chooses what is in many of them, and none of their names. Their size is bounded, as the kernel bounds an environment: what does not fit is left out, and a variable says so.

use serde_json::{Map, Value};

use super::trace::Trace;
use backstop_queue::Message;

/// The most bytes of a value, except [`ATTRIBUTES`].
const VALUE_BYTES: usize = 4 << 10;

/// The most bytes of [`ATTRIBUTES`]. Linux refuses a variable of 128 KiB.
const ATTRIBUTES_BYTES: usize = 64 << 10;

/// The most bytes of the names in [`OMITTED`].
const OMITTED_BYTES: usize = 1 << 10;

/// The message's attributes, as a JSON object.
const ATTRIBUTES: &str = "BACKSTOP_ATTRIBUTES";

/// What was left out, as a JSON array of names.
const OMITTED: &str = "BACKSTOP_OMITTED";

/// Every variable of a message. A command inherits none of them from the host, which may itself be a command of another host.
pub(super) const NAMES: [&str; 10] = [
    "BACKSTOP_MESSAGE_ID",
    "BACKSTOP_ATTEMPT",
    "BACKSTOP_SENT",
    "BACKSTOP_MESSAGE_GROUP",
    "BACKSTOP_DEDUPLICATION_ID",
    "TRACEPARENT",
    "TRACESTATE",
    "_X_AMZN_TRACE_ID",
    ATTRIBUTES,
    OMITTED,
];

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// As much as there usually is.
    Usual,
    /// An environment of the usual size was too large: that of the host, or a limit on the stack, leaves no room for attributes.
    Little,
}

/// The variables of a message.
pub(super) fn variables(message: &Message, room: Room) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    let mut omitted = Omitted::default();
    let attempt = message.receive_count.to_string();
    let sent = message.sent.0.to_string();
    let trace = Trace::of(message);
    for (name, value) in [
        ("BACKSTOP_MESSAGE_ID", Some(&message.id)),
        ("BACKSTOP_ATTEMPT", Some(&attempt)),
        ("BACKSTOP_SENT", Some(&sent)),
        ("BACKSTOP_MESSAGE_GROUP", message.group.as_ref()),
        (
            "BACKSTOP_DEDUPLICATION_ID",
            message.deduplication_id.as_ref(),
        ),
        ("TRACEPARENT", trace.parent.as_ref()),
        ("TRACESTATE", trace.state.as_ref()),
        ("_X_AMZN_TRACE_ID", trace.xray.as_ref()),
    ] {
        match value {
            Some(value) if value.len() <= VALUE_BYTES && !value.contains('\0') => {
                variables.push((name, value.clone()));
            }
            Some(_) => omitted.add(name),
            None => {}
        }
    }
    let most = match room {
        Room::Usual => ATTRIBUTES_BYTES,
        Room::Little => 0,
    };
    variables.push((ATTRIBUTES, attributes(message, most, &mut omitted)));
    if !omitted.names.is_empty() {
        variables.push((OMITTED, Value::from(omitted.names).to_string()));
    }
    variables
}

/// The attributes as text, in a JSON object of at most this many bytes.
fn attributes(message: &Message, most: usize, omitted: &mut Omitted) -> String {
    let mut object = Map::new();
    let mut bytes = "{}".len();
    for (name, value) in &message.attributes {
        let value = Value::from(value.to_text());
        let more =
            Value::from(name.as_str()).to_string().len() + value.to_string().len() + ":,".len();
        if bytes + more > most {
            omitted.add(name);
            continue;
        }
        bytes += more;
        object.insert(name.clone(), value);
    }
    Value::from(object).to_string()
}

/// The names of what was left out; the last is `...` if there are too many.
#[derive(Default)]
struct Omitted {
    names: Vec<String>,
    bytes: usize,
}

impl Omitted {
    fn add(&mut self, name: &str) {
        const MORE: &str = "...";
        self.bytes += Value::from(name).to_string().len() + ",".len();
        if self.bytes <= OMITTED_BYTES {
            self.names.push(name.to_owned());
        } else if self.names.last().is_none_or(|last| last != MORE) {
            self.names.push(MORE.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_queue::Attribute;
    use backstop_queue::ordinary_message;

    fn of(message: &Message, room: Room) -> Map<String, Value> {
        let variables = variables(message, room);
        let pairs = variables.into_iter();
        pairs
            .map(|(name, value)| {
                assert!(NAMES.contains(&name) && !value.contains('\0'), "{name}");
                (name.to_owned(), value.into())
            })
            .collect()
    }

    fn json(variables: &Map<String, Value>, name: &str) -> Value {
        serde_json::from_str(variables[name].as_str().unwrap()).unwrap()
    }

    #[test]
    fn attributes_are_one_json_object_whatever_they_contain() {
        let mut message = ordinary_message();
        message.attributes = [
            ("LD_PRELOAD", Attribute::string("/tmp/evil.so")),
            ("PATH", Attribute::string("/tmp")),
            ("zero", Attribute::string("a\0b\n\"$(id)\"")),
            ("count", Attribute::number(42)),
            (
                "bytes",
                Attribute::Binary {
                    data_type: "Binary".to_owned(),
                    value: vec![0, 255],
                },
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let variables = of(&message, Room::Usual);
        let expected = serde_json::json!({
            "LD_PRELOAD": "/tmp/evil.so",
            "PATH": "/tmp",
            "zero": "a\0b\n\"$(id)\"",
            "count": "42",
            "bytes": "AP8=",
        });
        assert_eq!(json(&variables, ATTRIBUTES), expected);
        assert!(!variables.contains_key(OMITTED));
        message.attributes.clear();
        assert_eq!(of(&message, Room::Usual)[ATTRIBUTES], "{}");
    }

    #[test]
    fn what_does_not_fit_is_left_out_by_name() {
        let mut message = ordinary_message();
        message.group = Some("a\0b".to_owned());
        message.trace_header = Some("x".repeat(VALUE_BYTES + 1));
        message.attributes = [("huge", "\n".repeat(40_000)), ("small", "1".to_owned())]
            .map(|(name, value)| (name.to_owned(), Attribute::string(value)))
            .into();
        let variables = of(&message, Room::Usual);
        assert_eq!(
            json(&variables, ATTRIBUTES),
            serde_json::json!({"small": "1"})
        );
        assert_eq!(
            json(&variables, OMITTED),
            serde_json::json!(["BACKSTOP_MESSAGE_GROUP", "_X_AMZN_TRACE_ID", "huge"])
        );
        for number in 0..10_000 {
            let name = format!("{number}-{}", "n".repeat(200));
            let value = Attribute::string("x".repeat(100));
            message.attributes.insert(name, value);
        }
        let variables = of(&message, Room::Usual);
        let bytes = |name: &str| variables[name].as_str().unwrap().len();
        assert!(bytes(ATTRIBUTES) <= ATTRIBUTES_BYTES && bytes(OMITTED) <= OMITTED_BYTES + 10);
        let omitted = json(&variables, OMITTED);
        assert_eq!(omitted.as_array().unwrap().last().unwrap(), "...");
        let little = of(&message, Room::Little);
        assert_eq!(little[ATTRIBUTES], "{}");
        assert!(little.contains_key("BACKSTOP_MESSAGE_ID") && little.contains_key(OMITTED));
    }
}
