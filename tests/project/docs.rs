//! The documents are correct: their configurations load, their commands run, and their tables have every field.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use backstop::record::{LifeEvent, WokenBy};
use backstop_core::failure::Timestamp;
use backstop_envelope::Envelope;
use backstop_host::config::{self, AtOnce, Config, Key, variables};
use backstop_telemetry::{Kind, METRICS};
use backstop_tests::backstop::{command, text};
use backstop_tests::documents::{
    anchors, blocks, compare_rows, document, documents, names_in_tables, top,
};
use backstop_tests::emulator::services;
use backstop_workbench::Project;
use serde_json::Value;

#[test]
fn every_configuration_in_the_documents_is_valid() {
    for name in [
        "host/docs/deploy/configuration.md",
        "host/docs/policies/policies.md",
    ] {
        let blocks = blocks(&document(name), "toml");
        Config::parse(&blocks[0], &top().join("backstop.toml"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn all_keys_of_the_configuration_and_no_others_are_documented() {
    let text = document("host/docs/deploy/configuration.md");
    let example: toml::Value = toml::from_str(&blocks(&text, "toml")[0]).unwrap();
    let mut keys = BTreeSet::new();
    for table in [
        &example,
        &example["decisions"],
        &example["admin-proxy"],
        &example["limits"],
        &example["limits"]["compile"],
        &example["policies"],
        &example["queues"]["orders"],
        &example["queues"]["orders"]["pause"][0],
        &example["queues"]["orders"]["breaker"],
        &example["queues"]["orders"]["idempotency"],
        &example["queues"]["orders"]["idempotency"]["attributes"],
        &example["lambda"],
    ] {
        keys.extend(table.as_table().unwrap().keys().cloned());
    }
    for section in [
        "admin-proxy",
        "decisions",
        "lambda",
        "limits",
        "policies",
        "queues",
    ] {
        keys.remove(section);
    }
    keys.insert("record".to_owned());
    assert_eq!(names_in_tables(&text), keys);
    let operating = document("host/docs/operate/operating.md");
    let (_, list) = operating.split_once("These keys change at once: ").unwrap();
    let list = list.lines().next().unwrap();
    let listed: BTreeSet<_> = list
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    let is_at_once = |key: &&Key| key.at_once.is_some_and(|it| it != AtOnce::Commands);
    let at_once = config::keys().filter(is_at_once);
    let with_table = at_once.flat_map(|key| {
        let table = key.table.strip_prefix("queues.NAME.").map(str::to_owned);
        [Some(key.name()), table]
    });
    assert_eq!(listed, with_table.flatten().collect());
    let letters = document("host/docs/deploy/dead-letter-queue.md");
    for attribute in backstop_queue::dead_letter::ATTRIBUTES {
        assert!(
            letters.contains(&format!("| `{attribute}` |")),
            "{attribute}"
        );
    }
    // A key that the example lacks would be an unknown field here.
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

/// A default of a table as TOML, if it is a value and no description.
fn default_value(cell: &str) -> Option<String> {
    let value = cell.split([',', ';']).next()?.trim();
    let value = value.trim_matches('`');
    let digits = value.replace(' ', "_");
    let is_of_text = value.len() < 12 && value.starts_with(|c: char| c.is_ascii_digit());
    match value {
        "" => None,
        "true" | "false" => Some(value.to_owned()),
        _ if digits.chars().all(|c| c.is_ascii_digit() || c == '_') => Some(digits),
        _ if cell.starts_with('`') || (is_of_text && !value.contains(' ')) => {
            Some(format!("{value:?}"))
        }
        _ => None,
    }
}

#[test]
fn every_default_in_the_tables_of_keys_is_the_one_of_the_code() {
    let text = document("host/docs/deploy/configuration.md");
    let queue = "url = \"local:q\"\nhandler = { exec = [\"true\"] }\n";
    let queues = format!("[queues.q]\n{queue}");
    let idempotency = format!("{queues}[queues.q.idempotency]\ntable = \"t\"\n");
    let parsed = |text: &str| {
        let config = Config::parse(text, Path::new("/x/backstop.toml"));
        format!(
            "{:?}",
            config.unwrap_or_else(|error| panic!("{error}\n{text}"))
        )
    };
    let mut checked = BTreeSet::new();
    for (section, table) in [
        ("## `[limits]`", format!("{queues}[limits]\n")),
        ("## `[policies]`", format!("{queues}[policies]\n")),
        ("## `[queues.NAME]`", queues.clone()),
        ("### Idempotency", idempotency),
        ("## `[lambda]`", "[lambda]\n".to_owned()),
    ] {
        let (_, rest) = text.split_once(&format!("\n{section}\n")).unwrap();
        let (_, rest) = rest.split_once("|---|---|---|\n").unwrap();
        let without = parsed(&table);
        for row in rest.lines().take_while(|line| line.starts_with('|')) {
            let cells: Vec<_> = row.split(" | ").collect();
            let key = cells[0].split('`').nth(1).unwrap();
            let default = cells[2].trim_end_matches('|').trim();
            // It depends on the machine or on other keys.
            if ["cache", "handler", "prefix", "key"].contains(&key) {
                continue;
            }
            let Some(value) = default_value(default) else {
                continue;
            };
            let with = parsed(&format!("{table}{key} = {value}\n"));
            assert_eq!(with, without, "{section} {key}: the default is not {value}");
            checked.insert(format!("{section} {key}"));
        }
    }
    assert!(checked.len() > 25, "{checked:?}");
}

#[tokio::test]
async fn all_fields_of_a_decision_record_and_no_others_are_documented() {
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
    let lines = run("false", &["--max-attempts", "2", "--set", "base=1ms"]).await;
    let (events, records): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|it| it["event"].is_string());
    assert_eq!((records.len(), events.len()), (2, 1));
    let shadowed = run("false", &["--max-attempts", "2", "--shadow", "linear"]).await;
    let shadowed = shadowed.iter().filter(|it| it["event"].is_null());
    let text = document("host/docs/operate/decision-record.md");
    let (decisions, rest) = text.split_once("## Events").unwrap();
    let (of_events, _) = rest.split_once("\n## ").unwrap();
    let documented = names_in_tables(decisions);
    let mut seen = BTreeSet::new();
    for record in records.iter().chain(shadowed) {
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
    // Only present if there is a value.
    let rare = [
        "attributes",
        "broken",
        "details-left-out",
        "down-for",
        "duplicate",
        "end",
        "hold",
        "hops",
        "kind",
        "log",
        "original-id",
        "payload",
        "payload-left-out",
        "received-as",
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
    for event in events_of_each_kind() {
        let fields = event.as_object().unwrap();
        let name = event["event"].as_str().unwrap();
        for word in fields.keys().map(String::as_str).chain([name]) {
            assert!(of_events.contains(&format!("`{word}`")), "{word}");
        }
    }
}

/// Events with all fields that they can have.
fn events_of_each_kind() -> Vec<Value> {
    let some = || Some("x".to_owned());
    let events = [
        LifeEvent::Succeeded {
            attempt: 1,
            not_deleted: true,
        },
        LifeEvent::DeadLettered {
            reason: "x".to_owned(),
            dead_letter_queue: "x".to_owned(),
            letter_id: some(),
        },
        LifeEvent::SentAgain {
            sent_as: some(),
            due: Timestamp(1),
            hops: 1,
        },
        LifeEvent::Woken {
            by: WokenBy::Hop,
            due: Timestamp(1),
            was_due: Timestamp(2),
            policy: some(),
        },
        LifeEvent::Paused {
            by: "x".to_owned(),
            why: some(),
            until: Some(Timestamp(1)),
        },
        LifeEvent::Resumed { by: "x".to_owned() },
    ];
    let json = |event| serde_json::to_value(event).unwrap();
    events.into_iter().map(json).collect()
}

#[test]
fn the_details_that_a_record_keeps_are_documented() {
    let text = document("host/docs/operate/decision-record.md");
    let (_, text) = text.split_once("## Details").unwrap();
    let (text, _) = text.split_once("\n## ").unwrap();
    let lines = text.lines().filter(|line| line.starts_with("- "));
    let documented: BTreeSet<_> = lines
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect();
    assert_eq!(documented, BTreeSet::from(backstop_retry::KEPT_DETAILS));
}

#[test]
fn all_metrics_and_no_others_are_documented_with_their_descriptions() {
    let rows: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram(_) if metric.is_in_seconds() => "histogram, seconds",
                Kind::Histogram(_) => "histogram",
            };
            let labels: Vec<_> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
            let (name, labels) = (metric.name, labels.join(", "));
            format!("| `{name}` | {kind} | {labels} | {} |", metric.meaning)
        })
        .collect();
    let of_retrier: Vec<_> = backstop_retry::telemetry::METRICS
        .iter()
        .map(|metric| {
            let kind = match metric.kind {
                "histogram" => "histogram, seconds",
                kind => kind,
            };
            let labels: Vec<_> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
            let (name, labels) = (metric.name, labels.join(", "));
            format!("| `{name}` | {kind} | {labels} | {} |", metric.meaning)
        })
        .collect();
    compare_rows("host/docs/operate/metrics.md", &["| `backstop_"], &rows);
    compare_rows("host/docs/rust/retrier.md", &["| `backstop_"], &of_retrier);
}

/// The value of a key of an alert, as the file has it on one line.
fn of_alert<'a>(alert: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = alert.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
}

#[test]
fn all_alerts_and_no_others_are_documented_as_in_their_file() {
    let rules = document("examples/operate/alerts.yaml");
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
    compare_rows("host/docs/operate/metrics.md", &["| `Backstop"], &rows);
}

#[test]
fn every_alert_has_its_section_in_troubleshooting() {
    let text = document("host/docs/operate/troubleshooting.md");
    let rules = document("examples/operate/alerts.yaml");
    for alert in rules.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap();
        let anchor = name.to_lowercase();
        let expected = format!("host/docs/operate/troubleshooting.md#{anchor}");
        assert_eq!(of_alert(alert, "runbook_url"), Some(expected.as_str()));
        let sections = text.lines().filter(|line| *line == format!("### {name}"));
        assert_eq!(sections.count(), 1, "{name}");
    }
}

#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    let promtool = services().join("prometheus/promtool");
    let tests = top().join("examples/operate/alerts_test.yaml");
    let tested = document("examples/operate/alerts_test.yaml");
    let rules = document("examples/operate/alerts.yaml");
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
fn all_variables_of_the_retry_handler_and_no_others_are_documented() {
    let named = |text: &str| -> BTreeSet<String> {
        let is_of_name = |c: char| c.is_ascii_uppercase() || c == '_';
        text.match_indices("BACKSTOP_")
            .map(|(at, _)| text[at..].chars().take_while(|c| is_of_name(*c)).collect())
            .collect()
    };
    let known: BTreeSet<_> = variables().map(str::to_owned).collect();
    assert_eq!(named(&document("host/docs/deploy/lambda.md")), known);
}

#[test]
fn the_envelope_in_the_documents_is_valid_and_each_field_is_explained() {
    let text = document("host/docs/deploy/lambda.md");
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
    let policy = |name: &str| blocks(&document(name), "rust").swap_remove(0);
    assert_eq!(
        policy("host/docs/policies/write-a-policy.md"),
        policy("policies/sdk/README.md")
    );
}

#[tokio::test]
async fn all_fields_of_a_replay_and_no_others_are_documented() {
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
    // The other table with names is for the record's `by`.
    let text = document("host/docs/policies/replay.md");
    let (_, fields_on) = text.split_once("| field |").unwrap();
    let documented = names_in_tables(fields_on);
    assert_eq!(documented.iter().collect::<BTreeSet<_>>(), fields);
}

#[test]
fn the_scenario_and_the_manifest_in_the_documents_are_real() {
    let authors = document("host/docs/policies/write-a-policy.md");
    let scenario = &blocks(&authors, "toml")[0];
    assert!(document("examples/policies/scenarios.toml").contains(scenario));
    let manifest = &blocks(&authors, "toml")[1];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.toml"), manifest).unwrap();
    let project = Project::open(folder.path()).unwrap();
    assert_eq!(project.answers, ["backoff"]);
}

#[test]
fn the_worker_and_the_policy_in_the_readme_are_parts_of_the_examples() {
    let readme = document("README.md");
    for (language, example) in [
        ("python", "examples/python-worker/flask_worker.py"),
        ("ts", "examples/policies/typescript/policy.ts"),
    ] {
        let shown = blocks(&readme, language);
        assert_eq!(shown.len(), 1, "{language}");
        assert!(document(example).contains(&shown[0]), "{example}");
    }
}

/// The others with programs have tests of their own.
#[test]
fn every_program_in_a_document_is_compiled_with_the_features_that_it_uses() {
    let own = [
        "host/docs/policies/write-a-policy.md",
        "host/docs/rust/programs.md",
    ];
    let mut found = BTreeSet::new();
    for name in documents() {
        let text = document(&name);
        if !text.contains("```rust") || own.contains(&&*name) {
            continue;
        }
        // `ignore`, `no_run` or a feature would hide one from the test.
        for line in text.lines().filter(|line| line.starts_with("```rust")) {
            assert_eq!(line, "```rust", "{name}");
        }
        assert!(!text.contains("# #[cfg("), "{name}");
        let library = Path::new(&name).file_stem().unwrap().to_str().unwrap();
        let folder = match library {
            "retrier" => "retry",
            other => other,
        };
        let source = document(&format!("host/{folder}/src/lib.rs"));
        let included = format!("#[doc = include_str!(\"../../docs/rust/{library}.md\")]");
        let (before, _) = source.split_once(&included).expect(&name);
        let condition = before.trim_end().lines().next_back().unwrap();
        assert!(condition.starts_with("#[cfg(all(doctest, "), "{condition}");
        // The tests of the workspace have the features of the suite's dependencies.
        let suite = document(&format!("tests/{folder}/Cargo.toml"));
        let suite: toml::Value = toml::from_str(&suite).unwrap();
        let enabled = suite["dependencies"][&format!("backstop-{folder}")]["features"].to_string();
        for feature in condition.split("feature = ").skip(1) {
            let feature = feature.split(')').next().unwrap().trim_end_matches(", ");
            // S3 and registries bring WebAssembly.
            let is_enabled = enabled.contains(feature) || feature == "\"wasm\"";
            assert!(is_enabled, "{name}: {feature} is not in {enabled}");
        }
        found.insert(folder.to_owned());
    }
    assert_eq!(
        found,
        ["deliver", "idempotency", "retry"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn every_link_in_the_documents_is_valid() {
    for name in documents() {
        let text = document(&name);
        let folder = top().join(&name).parent().unwrap().to_owned();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if file.starts_with("http") {
                continue;
            }
            let path = if file.is_empty() {
                top().join(&name)
            } else {
                folder.join(file)
            };
            assert!(path.exists(), "{name}: {target}");
            if !anchor.is_empty() {
                let headings = anchors(&std::fs::read_to_string(path).unwrap());
                assert!(headings.contains(anchor), "{name}: {target}: {headings:?}");
            }
        }
    }
}
