//! `backstop policy test` with policies and scenarios made for a test.

use serde_json::Value;
use tempfile::TempDir;

use crate::backstop::{run, text};
use crate::policies::Rule;

/// The attempt that a hand-written policy is evaluated with.
pub const ATTEMPT: &str = "(i32.load offset=16 (local.get 0))";

/// A folder with a policy of this text and these scenarios.
pub fn folder(policy: &str, scenarios: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.wat");
    std::fs::write(&path, policy).unwrap();
    if !scenarios.is_empty() {
        std::fs::write(folder.path().join("scenarios.toml"), scenarios).unwrap();
    }
    (folder, path.to_str().unwrap().to_owned())
}

/// The text of a policy that computes its delay like this.
pub fn delays(body: &str) -> String {
    Rule {
        delay: Some(body),
        ..Rule::default()
    }
    .text()
}

/// Runs `backstop policy test --json`; its exit code and the result of each test.
pub async fn test(arguments: &[&str]) -> (i32, Vec<Value>) {
    let output = run(&[&["policy", "test", "--json"], arguments].concat()).await;
    let lines = text(&output.stdout);
    let outcomes = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (output.status.code().unwrap(), outcomes.collect())
}

/// The result of the test with this name.
pub fn of<'a>(outcomes: &'a [Value], name: &str) -> &'a Value {
    let found = outcomes.iter().find(|test| test["test"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {outcomes:#?}"))
}

/// The names of the tests that failed.
pub fn failed(outcomes: &[Value]) -> Vec<&str> {
    let failed = outcomes.iter().filter(|test| test["passed"] == false);
    failed.map(|test| test["test"].as_str().unwrap()).collect()
}

/// The texts of an SVG picture, in its order.
pub fn svg_texts(picture: &roxmltree::Document<'_>) -> Vec<String> {
    let nodes = picture.descendants();
    let texts = nodes.filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts
        .map(|node| node.text().unwrap().trim().to_owned())
        .collect()
}
