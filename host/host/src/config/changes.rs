//! What differs between two readings of a configuration.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::keys::{Key, keys};
use super::{Config, Places};
use crate::text::{cut, one_line};

/// The most bytes of a value that a change shows.
const VALUE_BYTES: usize = 200;

/// A configuration and its file, as they were read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What was read.
    pub config: Config,
    pub(crate) file: Table,
    /// The values that did not come from the file.
    pub(crate) places: Places,
}

/// A key whose value differs, or a table that is on one side only.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Its full name, such as `queues.orders.rate`.
    pub(crate) path: String,
    /// The queue that it belongs to, unless the whole queue is on one side only.
    pub(crate) queue: Option<String>,
    pub(crate) key: &'static Key,
    before: Option<Value>,
    after: Option<Value>,
}

/// All changes from one file to another, in the order of the list of keys.
pub(crate) fn changes(before: &Table, after: &Table) -> Vec<Change> {
    let mut found = Vec::new();
    tables(&Place::default(), before, after, &mut found);
    found
}

/// Where a table is.
#[derive(Debug, Clone, Default)]
struct Place {
    /// As the list of keys names it, such as `queues.NAME`.
    table: String,
    /// As a file names it, such as `queues.orders`.
    path: String,
    queue: Option<String>,
}

impl Place {
    fn of(&self, name: &str) -> Self {
        Self {
            table: joined(&self.table, name),
            path: joined(&self.path, name),
            queue: self.queue.clone(),
        }
    }

    fn of_queue(name: &str) -> Self {
        Self {
            table: "queues.NAME".to_owned(),
            path: format!("queues.{name}"),
            queue: Some(name.to_owned()),
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

fn tables(at: &Place, before: &Table, after: &Table, found: &mut Vec<Change>) {
    for key in keys().filter(|key| key.table == at.table && key.is_in_files) {
        let name = key.name();
        let inner = at.of(&name);
        let sides = (before.get(&name), after.get(&name));
        if inner.path == "queues" {
            queues(key, sides, found);
            continue;
        }
        match sides {
            (Some(Value::Table(one)), Some(Value::Table(other))) if is_table(&inner.table) => {
                tables(&inner, one, other, found);
            }
            (one, other) if one == other => {}
            _ => found.push(change(key, inner, sides)),
        }
    }
}

/// Whether keys are listed for this table.
fn is_table(table: &str) -> bool {
    keys().any(|key| key.table == table)
}

fn queues(key: &'static Key, sides: (Option<&Value>, Option<&Value>), found: &mut Vec<Change>) {
    let (before, after) = (table_of(sides.0), table_of(sides.1));
    let names = before.keys().chain(after.keys());
    for name in names.collect::<BTreeSet<_>>() {
        let place = Place::of_queue(name);
        match (before.get(name), after.get(name)) {
            (Some(Value::Table(one)), Some(Value::Table(other))) => {
                tables(&place, one, other, found);
            }
            sides => {
                let queue = None;
                found.push(change(key, Place { queue, ..place }, sides));
            }
        }
    }
}

fn table_of(value: Option<&Value>) -> Table {
    let table = value.and_then(Value::as_table);
    table.cloned().unwrap_or_default()
}

fn change(key: &'static Key, place: Place, sides: (Option<&Value>, Option<&Value>)) -> Change {
    Change {
        path: place.path,
        queue: place.queue,
        key,
        before: sides.0.cloned(),
        after: sides.1.cloned(),
    }
}

impl Change {
    /// `queues.orders.rate: 50/s -> 10/s`. For keys that change at once only: others may have secrets.
    pub(crate) fn text(&self) -> String {
        let (before, after) = (self.shown(&self.before), self.shown(&self.after));
        one_line(&format!("{}: {before} -> {after}", self.path))
    }

    fn shown(&self, value: &Option<Value>) -> String {
        let mut text = match value {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None if self.key.default.is_empty() => "none".to_owned(),
            None => self.key.default.to_owned(),
        };
        cut(&mut text, VALUE_BYTES);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AtOnce;

    fn parsed(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    fn paths(before: &str, after: &str) -> Vec<String> {
        let found = changes(&parsed(before), &parsed(after)).into_iter();
        found.map(|it| it.path).collect()
    }

    /// A file in which this key has this value, within the tables that it is in.
    fn file(key: &Key, value: &str) -> String {
        let table = key.table.replace("NAME", "orders");
        let head = if table.is_empty() {
            String::new()
        } else {
            format!("[{table}]\n")
        };
        format!("{head}{} = \"{value}\"\n", key.name())
    }

    /// No key can be forgotten: it changes at once, or is listed as one that needs a restart.
    #[test]
    fn a_change_of_every_key_is_found() {
        let mut at_once = 0;
        for key in keys().filter(|key| key.is_in_files && key.path() != "queues") {
            let found = changes(&parsed(&file(key, "a")), &parsed(&file(key, "b")));
            let [change] = found.as_slice() else {
                panic!("{}: {found:?}", key.path());
            };
            assert_eq!(change.path, key.path().replace("NAME", "orders"));
            assert_eq!(change.key.path(), key.path());
            let is_of_queue = key.table.starts_with("queues.");
            assert_eq!(change.queue.as_deref(), is_of_queue.then_some("orders"));
            at_once += usize::from(key.at_once.is_some());
            let is_for_commands = key.at_once == Some(AtOnce::Commands);
            assert!(is_of_queue || is_for_commands || key.at_once.is_none());
            assert_eq!(
                changes(&parsed(&file(key, "a")), &parsed(&file(key, "a"))).len(),
                0
            );
        }
        assert_eq!(at_once, 11);
    }

    #[test]
    fn a_change_names_the_key_and_both_values() {
        for (before, after, expected) in [
            (
                "rate = \"50/s\"",
                "rate = \"10/s\"",
                "queues.orders.rate: 50/s -> 10/s",
            ),
            ("", "rate = \"10/s\"", "queues.orders.rate: none -> 10/s"),
            (
                "max-in-flight = 5",
                "",
                "queues.orders.max-in-flight: 5 -> 100",
            ),
            (
                "",
                "pause = [{ at = \"0 2 * * *\", zone = \"UTC\", for = \"1h\" }]",
                "queues.orders.pause: none -> [{ at = \"0 2 * * *\", for = \"1h\", zone = \"UTC\" }]",
            ),
        ] {
            let file = |text: &str| parsed(&format!("[queues.orders]\n{text}"));
            let found = changes(&file(before), &file(after));
            let texts: Vec<_> = found.iter().map(Change::text).collect();
            assert_eq!(texts, [expected]);
        }
    }

    #[test]
    fn a_table_on_one_side_is_one_change() {
        let orders = "[queues.orders]\nurl = \"local:a\"\n";
        for (before, after, expected) in [
            (orders, "", &["queues.orders"][..]),
            ("", orders, &["queues.orders"]),
            (
                orders,
                "[queues.bills]\nurl = \"local:a\"\n",
                &["queues.bills", "queues.orders"],
            ),
            (
                orders,
                "[queues.orders]\nurl = \"local:a\"\nbreaker = { by = \"queue\", minimum = 2 }",
                &["queues.orders.breaker"],
            ),
            (
                "handler = { http = \"a\" }",
                "handler = { exec = \"a\" }",
                &[],
            ),
            (
                "[queues.q]\nhandler = { http = \"a\" }",
                "[queues.q]\nhandler = { exec = \"a\" }",
                &["queues.q.handler.http", "queues.q.handler.exec"],
            ),
            (
                "[queues.q]\nsettings = { base = \"1s\" }",
                "[queues.q]\nsettings = { base = \"2s\" }",
                &["queues.q.settings"],
            ),
            (
                "metrics = \"a\"",
                "[limits.compile]\ntime = \"1m\"",
                &["metrics", "limits"],
            ),
            ("", "[limits]\n", &["limits"]),
        ] {
            assert_eq!(paths(before, after), expected, "{before} {after}");
        }
    }
}
