//! The picture of a terminal in the README is the output of the demo.

use std::collections::BTreeSet;

use backstop_tests::backstop::{command, text};
use backstop_tests::documents::top;
use backstop_tests::terminal;

/// The lines of the demo that its picture shows: a throttled order, an invalid one and one that meets an outage, the edit, the attack, and the end.
fn shown_of_demo(output: &str) -> Vec<&str> {
    let shown = [
        "attempt 1  ThrottlingException",
        "attempt 1  ValidationException",
        "attempt 1  HTTP 503",
        "attempt 3  HTTP 503",
        "attempt 4  \u{1b}[32mdone",
        "is edited",
        "- (i32.const 2000)",
        "+ (i32.const 500)",
        "is active from now on",
        "is replaced by a hostile policy",
        "rejected: ",
        "stays active",
        "each with its reason",
        "Nothing was lost",
    ];
    let is_shown = |line: &&str| shown.iter().any(|part| line.contains(part));
    let lines = output.lines().filter(is_shown);
    std::iter::once("$ backstop demo").chain(lines).collect()
}

/// A line of the demo without the time and the counts that depend on it. `None` for a bar.
fn lasting(line: &str) -> Option<String> {
    let (time, rest) = line.split_at_checked(8).unwrap_or(("", line));
    let rest = if time.ends_with("s  ") { rest } else { line };
    let varies = ["all  ", "  requests", "  decisions"];
    (!rest.is_empty() && !varies.iter().any(|it| rest.starts_with(it))).then(|| rest.to_owned())
}

/// `RENEW=1` renews it.
#[tokio::test]
async fn the_picture_in_the_readme_is_the_output_of_the_demo() {
    let mut demo = command(&["demo"]);
    demo.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let output = text(&demo.output().await.unwrap().stdout);
    for line in output.lines().map(terminal::plain) {
        let width = line.chars().count();
        assert!(
            width <= 80 || line.contains("orders.wat"),
            "{width}: {line}"
        );
    }
    let shown = shown_of_demo(&output);
    assert_eq!(shown.len(), 15, "{shown:#?}");
    let file = top().join("host/docs/pictures/demo.svg");
    if std::env::var_os("RENEW").is_some() {
        let description = "backstop demo: orders fail and are retried, a policy is edited and takes over, a malicious one is rejected";
        std::fs::write(&file, terminal::picture(&shown, description)).unwrap();
    }
    let picture = terminal::lines_of(&std::fs::read_to_string(file).unwrap());
    let drawn: BTreeSet<_> = picture.iter().filter_map(|line| lasting(line)).collect();
    let now: BTreeSet<_> = shown
        .iter()
        .filter_map(|line| lasting(&terminal::plain(line)))
        .collect();
    assert_eq!(drawn, now);
}
