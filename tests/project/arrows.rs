//! The arrows between the crates are those that the map of the code has.

use std::collections::{BTreeMap, BTreeSet};

use backstop_tests::documents::document;
use serde_json::Value;

use crate::crates::cargo;

const MAP: &str = "host/docs/contributing/architecture.md";

type Names = BTreeSet<String>;

/// A crate of `host/`, and the others that it depends on.
struct Crate {
    always: Names,
    optional: Names,
    features: Value,
}

fn short(name: &str) -> String {
    name.trim_start_matches("backstop-").to_owned()
}

fn crates() -> BTreeMap<String, Crate> {
    let text = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let packages = packages.filter(|it| text(&it["manifest_path"]).contains("/host/"));
    let packages: Vec<_> = packages.collect();
    let all: Names = packages
        .iter()
        .map(|it| short(&text(&it["name"])))
        .collect();
    let found = packages.iter().map(|package| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let normal = dependencies.filter(|it| it["kind"].is_null());
        let (optional, always): (Vec<_>, Vec<_>) = normal.partition(|it| it["optional"] == true);
        let names = |list: Vec<&Value>| -> Names {
            let names = list.iter().map(|it| short(&text(&it["name"])));
            names.filter(|name| all.contains(name)).collect()
        };
        let found = Crate {
            always: names(always),
            optional: names(optional),
            features: package["features"].clone(),
        };
        (short(&text(&package["name"])), found)
    });
    found.collect()
}

impl Crate {
    /// Whether a feature brings an optional crate, itself or by another feature.
    fn brings(&self, feature: &str, name: &str) -> bool {
        let parts = self.features[feature].as_array().into_iter().flatten();
        parts.filter_map(Value::as_str).any(|part| {
            part == format!("dep:backstop-{name}") || (part != feature && self.brings(part, name))
        })
    }
}

/// The words in code type.
fn code(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The rows of the table with this head, as their cells.
pub(crate) fn table(head: &str) -> Vec<(String, String)> {
    let text = document(MAP);
    let (_, rows) = text.split_once(&format!("\n{head}\n|---|---|\n")).unwrap();
    let rows = rows.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches(['|', ' ']).split_once(" | ").unwrap());
    cells
        .map(|(first, second)| (first.to_owned(), second.to_owned()))
        .collect()
}

#[test]
fn the_table_of_crates_has_every_arrow_and_no_other() {
    let crates = crates();
    let mut left: Names = crates.keys().cloned().collect();
    for (names, arrows) in table("| crate | depends on |") {
        let (always, by_features) = arrows.split_once("; ").unwrap_or((&arrows, ""));
        for name in code(&names) {
            assert!(left.remove(&name), "{name} is no crate, or has two rows");
            let found = &crates[&name];
            let drawn: Names = code(always).into_iter().collect();
            assert_eq!(drawn, found.always, "{name}");
            let mut brought = Names::new();
            for clause in by_features.split("; ") {
                let words = code(clause);
                let named = |word: &&String| found.optional.contains(*word);
                let others: Names = words.iter().skip(1).filter(named).cloned().collect();
                for feature in words.iter().filter(|word| !others.contains(*word)) {
                    for other in &others {
                        assert!(found.brings(feature, other), "{name}: {feature}, {other}");
                    }
                }
                brought.extend(others);
            }
            assert_eq!(brought, found.optional, "{name}");
        }
    }
    for name in left {
        let found = &crates[&name];
        assert!(
            found.always.is_empty() && found.optional.is_empty(),
            "no row has {name}"
        );
    }
}

#[test]
fn no_arrow_leads_to_a_line_above_in_the_picture_of_the_crates() {
    let crates = crates();
    let text = document(MAP);
    let (_, picture) = text.split_once("```text\n").unwrap();
    let (picture, _) = picture.split_once("```").unwrap();
    let mut lines = BTreeMap::new();
    for (number, line) in picture.lines().enumerate() {
        let words = line.split(|c: char| !c.is_ascii_lowercase() && c != '-');
        lines.extend(
            words
                .filter(|word| crates.contains_key(*word))
                .map(|it| (it, number)),
        );
    }
    assert!(lines.len() > 10, "{lines:?}");
    for (name, found) in &crates {
        for other in found.always.union(&found.optional) {
            if let (Some(from), Some(to)) = (lines.get(name.as_str()), lines.get(other.as_str())) {
                assert!(from <= to, "{name} stands below {other}");
            }
        }
    }
}
