//! What the documents say is true: their configurations load, their commands run, their tables name every field.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use backstop::config::Config;
use backstop::telemetry::{Kind, METRICS};
use backstop_envelope::Envelope;
use backstop_tests::backstop::{command, program, text};
use backstop_tests::emulator::services;
use backstop_tests::registry::Registry;
use backstop_tests::terminal;
use backstop_workbench::Project;
use serde_json::Value;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

fn document(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap()
}

/// Every document: those of `host/docs`, and those that lead to them.
fn documents() -> Vec<String> {
    let ours = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "examples/lambda/README.md",
    ];
    let folder = std::fs::read_dir(top().join("host/docs")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_folder = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("host/docs/{name}"));
    ours.map(str::to_owned)
        .into_iter()
        .chain(of_folder)
        .collect()
}

/// The fenced blocks of a language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    document
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| {
            block
                .strip_prefix(language)?
                .strip_prefix('\n')
                .map(str::to_owned)
        })
        .collect()
}

/// The names in the first column of every table.
fn names_in_tables(document: &str) -> BTreeSet<String> {
    document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(|name| name.rsplit('.').next().unwrap_or(name).to_owned())
        .collect()
}

#[test]
fn every_configuration_in_the_documents_is_one() {
    for name in ["README.md", "host/docs/configuration.md"] {
        let blocks = blocks(&document(name), "toml");
        Config::parse(&blocks[0], &top().join("backstop.toml"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_key_of_the_configuration_is_documented_and_no_other() {
    let text = document("host/docs/configuration.md");
    let example: toml::Value = toml::from_str(&blocks(&text, "toml")[0]).unwrap();
    let mut keys = BTreeSet::new();
    for table in [
        &example,
        &example["decisions"],
        &example["limits"],
        &example["limits"]["compile"],
        &example["policies"],
        &example["queues"]["orders"],
        &example["lambda"],
    ] {
        keys.extend(table.as_table().unwrap().keys().cloned());
    }
    for section in ["decisions", "lambda", "limits", "policies", "queues"] {
        keys.remove(section);
    }
    keys.insert("record".to_owned());
    let documented: BTreeSet<_> = names_in_tables(&text)
        .into_iter()
        .filter(|name| !name.starts_with("Backstop"))
        .collect();
    assert_eq!(documented, keys);
    for attribute in backstop::dead_letter::ATTRIBUTES {
        assert!(text.contains(&format!("| `{attribute}` |")), "{attribute}");
    }
    // What the file may say and the example does not would be an unknown field here.
    let unknown = Config::parse("[queues.q]\nodd = 1", Path::new("x"))
        .unwrap_err()
        .to_string();
    let known: BTreeSet<_> = unknown
        .split("expected one of")
        .nth(1)
        .unwrap()
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    assert!(known.is_subset(&keys), "{known:?} {keys:?}");
}

#[tokio::test]
async fn every_field_of_a_decision_record_is_documented_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "one\n").unwrap();
    let run = async |exec: &str, more: &[&str]| -> Vec<Value> {
        let arguments = [
            "run",
            "--queue-url",
            "local:try",
            "--exec",
            exec,
            "--decisions",
            "-",
            "--messages",
            lines.to_str().unwrap(),
        ];
        let output = command(&[&arguments, more].concat())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        text(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let records = run("false", &["--max-attempts", "2", "--set", "base=1ms"]).await;
    assert_eq!(records.len(), 2);
    let shadowed = run("false", &["--max-attempts", "2", "--shadow", "linear"]).await;
    let documented = names_in_tables(&document("host/docs/decision-record.md"));
    let mut seen = BTreeSet::new();
    for record in records.iter().chain(&shadowed) {
        seen.extend(record.as_object().unwrap().keys().cloned());
        if let Some(shadow) = record["shadow"].as_object() {
            seen.extend(shadow.keys().cloned());
        }
        seen.extend(record["failure"].as_object().unwrap().keys().cloned());
    }
    assert!(
        seen.is_subset(&documented),
        "{:?}",
        seen.difference(&documented)
    );
    // Only where there is something to tell.
    let rare = [
        "attributes",
        "broken",
        "kind",
        "log",
        "payload",
        "payload-left-out",
        "skipped",
    ];
    let rare = rare.map(str::to_owned).into();
    assert_eq!(
        documented
            .difference(&seen)
            .cloned()
            .collect::<BTreeSet<_>>(),
        rare
    );
}

#[test]
fn every_metric_is_documented_as_it_is_told_and_no_other() {
    let text = document("host/docs/metrics.md");
    let rows = METRICS.iter().map(|metric| {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram, seconds",
        };
        let labels: Vec<_> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        let (name, labels) = (metric.name, labels.join(", "));
        format!("| `{name}` | {kind} | {labels} | {} |", metric.meaning)
    });
    let documented = text.lines().filter(|line| line.starts_with("| `backstop_"));
    assert_eq!(
        documented.collect::<Vec<_>>().join("\n"),
        rows.collect::<Vec<_>>().join("\n")
    );
}

/// The value of a key of an alert, as the file has it on one line.
fn of_alert<'a>(alert: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = alert.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
}

#[test]
fn every_alert_is_documented_as_its_file_has_it_and_no_other() {
    let rules = document("examples/prometheus/alerts.yaml");
    let alerts = rules.split("- alert: ").skip(1);
    let rows: Vec<_> = alerts
        .map(|alert| {
            let of = |key| of_alert(alert, key).unwrap();
            let lasts = of_alert(alert, "for").map(|span| format!(" for {span}"));
            format!(
                "| `{}` | {} | `{}`{} | {} |",
                alert.lines().next().unwrap(),
                of("severity"),
                of("expr").replace('|', "\\|"),
                lasts.unwrap_or_default(),
                of("summary")
            )
        })
        .collect();
    let text = document("host/docs/metrics.md");
    let documented = text.lines().filter(|line| line.starts_with("| `Backstop"));
    assert_eq!(documented.collect::<Vec<_>>().join("\n"), rows.join("\n"));
    for name in rules.split("backstop_").skip(1) {
        let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let name: String = name.chars().take_while(|c| is_of_name(*c)).collect();
        let known = METRICS
            .iter()
            .any(|metric| metric.name == format!("backstop_{name}"));
        assert!(known, "backstop_{name} is no metric");
    }
}

#[test]
fn every_alert_comes_when_it_should_and_not_before() {
    let promtool = services().join("prometheus/promtool");
    let tests = top().join("examples/prometheus/alerts_test.yaml");
    let tested = document("examples/prometheus/alerts_test.yaml");
    let rules = document("examples/prometheus/alerts.yaml");
    for alert in rules.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap();
        let comes = format!("alertname: {name}\n        exp_alerts:");
        assert!(tested.contains(&comes), "{name} has no test");
    }
    let output = std::process::Command::new(promtool)
        .args(["test", "rules"])
        .arg(tests)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn every_variable_of_the_retry_handler_is_documented_and_no_other() {
    let variables = |text: &str| -> BTreeSet<String> {
        let is_of_name = |c: char| c.is_ascii_uppercase() || c == '_';
        text.match_indices("BACKSTOP_")
            .map(|(at, _)| text[at..].chars().take_while(|c| is_of_name(*c)).collect())
            .collect()
    };
    assert_eq!(
        variables(&document("host/docs/lambda.md")),
        variables(&document("host/backstop/src/config/lambda.rs"))
    );
}

#[test]
fn the_envelope_in_the_documents_is_one_and_each_of_its_fields_is_explained() {
    let text = document("host/docs/lambda.md");
    let shown = &blocks(&text, "json")[0];
    assert!(Envelope::open(shown).is_some());
    let envelope: Value = serde_json::from_str(shown).unwrap();
    let documented = names_in_tables(&text);
    for name in envelope["_retry_metadata"].as_object().unwrap().keys() {
        assert!(documented.contains(name), "{name}");
    }
}

#[test]
fn the_policy_in_the_documents_is_the_one_that_the_sdk_tests() {
    let sdk = document("policies/sdk/src/lib.rs");
    let snippet: String = sdk
        .lines()
        .skip_while(|line| !line.starts_with("//! ```"))
        .skip(1)
        .take_while(|line| !line.starts_with("//! ```"))
        .map(|line| {
            format!(
                "{}\n",
                line.trim_start_matches("//!")
                    .trim_start_matches(' ')
                    .trim_end()
            )
        })
        .collect();
    let flat = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(
        flat(&blocks(&document("host/docs/write-a-policy.md"), "rust")[0]),
        flat(&snippet)
    );
}

/// Runs the blocks of shell in a document that name a queue in memory or a policy, one after another, in one folder, with the toolchains on the path. What each wrote.
async fn commands_of(name: &str) -> Vec<String> {
    commands_in(&document(name)).await
}

/// See [`commands_of`].
async fn commands_in(document: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(top().join("examples"), folder.path().join("examples")).unwrap();
    let ours = [
        program("backstop").parent().unwrap().to_owned(),
        services().join("node_modules/.bin"),
    ];
    let path = std::env::var_os("PATH").unwrap();
    let path = ours.into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).unwrap();
    let mut written = Vec::new();
    for block in blocks(document, "sh") {
        if !block.contains("local:") && !block.contains("backstop policy") {
            continue;
        }
        let output = tokio::process::Command::new("sh")
            .args(["-ec", &block])
            .current_dir(&folder)
            .env("PATH", &path)
            .output()
            .await
            .unwrap();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{block}\n{told}");
        written.push(told);
    }
    written
}

#[tokio::test]
async fn the_commands_that_need_no_account_run_as_the_readme_gives_them() {
    let written = commands_of("README.md").await;
    let expected = [" ended ", "18 passed"];
    assert_eq!(written.len(), expected.len());
    for (told, expected) in written.iter().zip(expected) {
        assert!(told.contains(expected), "{expected:?} is not in:\n{told}");
    }
}

#[tokio::test]
async fn the_commands_for_authors_run_as_their_document_gives_them() {
    let written = commands_of("host/docs/write-a-policy.md").await;
    let expected = [
        "18 passed",
        "metadata   card-payments, 0.1.0, TypeScript",
        " ended ",
        "verdict   retry in ",
    ];
    assert_eq!(written.len(), expected.len());
    for (told, expected) in written.iter().zip(expected) {
        assert!(told.contains(expected), "{expected:?} is not in:\n{told}");
    }
}

#[tokio::test]
async fn the_commands_for_registries_run_as_their_document_gives_them() {
    let registry = Registry::start();
    let text = document("host/docs/registries.md").replace("localhost:5000", &registry.address());
    let written = commands_in(&text).await;
    let expected = ["exports    backstop:policy/backoff@0.1.0", ", verified\n"];
    assert_eq!(written.len(), expected.len());
    for (told, expected) in written.iter().zip(expected) {
        assert!(told.contains(expected), "{expected:?} is not in:\n{told}");
    }
}

#[tokio::test]
async fn the_commands_of_a_replay_run_as_their_document_gives_them() {
    let written = commands_of("host/docs/replay.md").await;
    let expected = [
        "800 of the queue orders: 800 the same, none different",
        "150  18.8 %  verdict  retry     dead-letter",
    ];
    assert_eq!(written.len(), expected.len());
    for (told, expected) in written.iter().zip(expected) {
        assert!(told.contains(expected), "{expected:?} is not in:\n{told}");
    }
}

#[tokio::test]
async fn every_field_of_a_replay_is_documented_and_no_other() {
    let corpus = top().join("tests/corpus/replay");
    let arguments = [
        "policy",
        "replay",
        "decisions.jsonl",
        "--config",
        "backstop.toml",
        "--json",
    ];
    let output = command(&arguments)
        .current_dir(corpus)
        .output()
        .await
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields: BTreeSet<_> = found["report"].as_object().unwrap().keys().collect();
    // The other table with names in it is of the record's `by`.
    let text = document("host/docs/replay.md");
    let (_, fields_on) = text.split_once("| field |").unwrap();
    let documented = names_in_tables(fields_on);
    assert_eq!(documented.iter().collect::<BTreeSet<_>>(), fields);
}

#[test]
fn the_scenario_and_the_manifest_in_the_documents_are_real() {
    let authors = document("host/docs/write-a-policy.md");
    let scenario = &blocks(&authors, "toml")[0];
    assert!(document("examples/policies/scenarios.toml").contains(scenario));
    let manifest = &blocks(&authors, "toml")[1];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.toml"), manifest).unwrap();
    let project = Project::open(folder.path()).unwrap();
    assert_eq!(project.answers, ["backoff"]);
}

#[tokio::test]
async fn the_worker_of_the_examples_runs_on_a_queue_in_memory() {
    let output = tokio::process::Command::new(program("rust-worker"))
        .output()
        .await
        .unwrap();
    assert_eq!(
        text(&output.stdout),
        "2 done, 1 tried again, 1 dead-lettered\n"
    );
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    for name in documents() {
        let text = document(&name);
        let folder = top().join(&name).parent().unwrap().to_owned();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap();
            if !file.starts_with("http") && !file.is_empty() {
                assert!(folder.join(file).exists(), "{name}: {target}");
            }
        }
    }
}

/// The lines of the demo that its picture shows: a bar that says nothing new, and a path of this machine's, are left out.
fn shown_of_demo(output: &str) -> Vec<&str> {
    let mut shown = vec!["$ backstop demo"];
    let mut bar = "";
    for line in output.trim_end().lines() {
        if let Some((_, counts)) = line.split_once("  all         ") {
            if counts == bar {
                continue;
            }
            bar = counts;
        }
        if !line.contains("orders.wat\u{1b}") {
            shown.push(line);
        }
    }
    shown
}

/// A line of the demo without what differs from run to run: the time, and counts that depend on it. `None` for a bar.
fn lasting(line: &str) -> Option<String> {
    let (time, rest) = line.split_at_checked(8).unwrap_or(("", line));
    let rest = if time.ends_with("s  ") { rest } else { line };
    let varies = ["all  ", "  requests", "  decisions"];
    (!rest.is_empty() && !varies.iter().any(|it| rest.starts_with(it))).then(|| rest.to_owned())
}

/// `RENEW=1` draws it anew.
#[tokio::test]
async fn the_picture_in_the_readme_is_the_output_of_the_demo() {
    let mut demo = command(&["demo"]);
    demo.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let output = text(&demo.output().await.unwrap().stdout);
    let shown = shown_of_demo(&output);
    let file = top().join("host/docs/demo.svg");
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
