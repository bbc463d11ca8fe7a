//! The chart in `examples/lambda`: the retries of an event that always fails, drawn by `backstop policy simulate`.
//!
//! `RENEW=1 cargo test --workspace --test policies chart::` writes it again.

use backstop_tests::backstop::{run, text};
use backstop_tests::documents::top;
use serde_json::Value;

/// The configuration of the example. template.yaml has the same values.
const POLICY: &str = "full-jitter";
const SETTINGS: [&str; 2] = ["base=30s", "cap=6h"];
const ATTEMPTS: &str = "12";

fn hours(milliseconds: &Value) -> f64 {
    milliseconds.as_f64().unwrap() / 3_600_000.0
}

#[tokio::test]
async fn the_chart_and_the_sentence_below_it_are_current() {
    let folder = top().join("examples/lambda");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let [base, cap] = SETTINGS;
    let command = format!(
        "backstop policy simulate {POLICY} --set {base} --set {cap} --max-attempts {ATTEMPTS} --svg when-retries-happen.svg"
    );
    assert!(
        readme.contains(&command),
        "examples/lambda/README.md does not contain: {command}"
    );
    let drawn = tempfile::tempdir().unwrap();
    let drawn = drawn.path().join("chart.svg");
    let arguments: Vec<_> = command
        .split(' ')
        .skip(1)
        .map(|word| match word {
            "when-retries-happen.svg" => drawn.to_str().unwrap(),
            word => word,
        })
        .chain(["--json"])
        .collect();
    let output = run(&arguments).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let chart = std::fs::read_to_string(&drawn).unwrap();
    let path = folder.join("when-retries-happen.svg");
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(&path, &chart).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == chart,
        "{} is outdated: RENEW=1 cargo test --workspace --test policies chart::",
        path.display()
    );

    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let last = found["timetable"]["attempts"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    assert_eq!(last["attempt"].to_string(), ATTEMPTS);
    let since = &last["since-first-failure"];
    let sentence = format!(
        "the last of the twelve attempts at an event that always fails comes about {:.0} hours after the first failure at the median, and for nine in ten events after {:.1} to {:.1} hours",
        hours(&since["median"]),
        hours(&since["p5"]),
        hours(&since["p95"])
    );
    assert!(
        readme.contains(&sentence),
        "examples/lambda/README.md does not contain: {sentence}"
    );
    let template = std::fs::read_to_string(folder.join("template.yaml")).unwrap();
    for default in [POLICY, &SETTINGS.join(","), ATTEMPTS] {
        assert!(
            template.contains(&format!("Default: {default}\n")),
            "examples/lambda/template.yaml does not contain: {default}"
        );
    }
}
