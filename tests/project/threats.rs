//! The threat model names tests that exist.

use std::path::PathBuf;

use backstop_tests::documents::{document, top};

/// The sources of all tests.
fn sources() -> String {
    let mut folders: Vec<PathBuf> = ["tests", "host", "policies"]
        .map(|it| top().join(it))
        .into();
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                all += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    all
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let model = document("host/docs/deploy/threat-model.md");
    let (_, threats) = model.split_once("\n## Threats\n").unwrap();
    let (threats, _) = threats.split_once("\n## ").unwrap();
    let rows = threats.lines().filter(|line| line.starts_with("| "));
    let sources = sources();
    let mut checked = 0;
    for row in rows.skip(1) {
        let tests = row.split('|').nth(3).unwrap();
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing tries {row}");
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "{name}");
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}
