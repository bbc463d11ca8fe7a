//! `backstop policy export --javascript` and npm's `backstop-retry`: built, tested with Node.js, and the same decisions as the engine's.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use backstop_core::decision::{Action, Answer};
use backstop_core::policy::NAMES;
use backstop_core::settings::Settings;
use backstop_engine::{Limits, Payload, Sandbox};
use backstop_tests::backstop::{cache, program, text};
use backstop_tests::documents::{document, top};
use backstop_tests::npm::{self, succeeds};
use backstop_tests::toolchain::{Author, example};
use backstop_versions::Source;
use backstop_workbench::check;
use backstop_workbench::scenario::Suite;
use backstop_workbench::subject::Subject;
use serde_json::{Value, json};

use crate::card_payments::compiled;

/// How many failures each policy decides about.
const FAILURES: usize = 10_000;

/// An instance is replaced after this many evaluations: the C template never frees memory.
const LIVE: usize = 100;

fn package() -> PathBuf {
    top().join("host/node-retry")
}

/// The `backstop` command with these arguments.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("backstop"));
    command.args(arguments).env("BACKSTOP_CACHE", cache());
    command
}

/// The package with its development dependencies, built once.
fn built() -> PathBuf {
    npm::built("node-retry")
}

#[test]
fn its_own_tests_pass() {
    let mut tests = Command::new("node");
    succeeds(tests.args(["--test", "test/"]).current_dir(built()));
}

#[test]
fn its_lock_file_has_no_address_of_a_registry() {
    let lock = document("host/node-retry/package-lock.json");
    assert!(
        !lock.contains("resolved") && !lock.contains("http://"),
        "{lock}"
    );
}

/// The modules that are committed are those of their sources.
#[test]
fn the_rules_of_exported_policies_are_those_of_their_sources() {
    built();
    let folder = tempfile::tempdir().unwrap();
    let mut build = Command::new(package().join("build.sh"));
    let debug = program("backstop").parent().unwrap().to_owned();
    build.env("CARGO_TARGET_DIR", debug.parent().unwrap());
    succeeds(build.arg(folder.path()));
    let built = std::fs::read(folder.path().join("rules.wasm")).unwrap();
    let committed = std::fs::read(top().join("host/workbench/src/export/rules.wasm")).unwrap();
    assert!(built == committed, "run host/node-retry/build.sh");
}

/// Writes failures and the engine's answers, a line each.
fn write_decisions(subject: &Subject, settings: &Settings, file: &Path) {
    let suite = Suite::read(&example("scenarios.toml")).unwrap();
    let payload = Arc::<Payload>::default();
    let failures: Vec<_> = check::failures(7, &suite.scenarios)
        .map(|(failure, _)| failure.within_bounds().into_owned())
        .take(FAILURES)
        .collect();
    let policy = subject.policy(settings);
    let mut file = std::io::BufWriter::new(std::fs::File::create(file).unwrap());
    for failures in failures.chunks(LIVE) {
        let mut session = policy.session(&payload);
        for failure in failures {
            let answer = session.evaluate(failure).unwrap();
            let line = json!({"failure": failure, "answer": shown(&answer)});
            writeln!(file, "{line}").unwrap();
        }
    }
}

/// An answer as the JavaScript has it.
fn shown(answer: &Answer) -> Value {
    let (verdict, reason, delay) = match &answer.action {
        Action::Retry { delay } => ("retry", None, Some(delay.0)),
        Action::DeadLetter { reason } => ("dead-letter", Some(reason), None),
        Action::Discard { reason } => ("discard", Some(reason), None),
    };
    let class = match answer.class.known() {
        Some(_) => answer.class.to_string(),
        None => format!("other:{}", answer.class),
    };
    json!({"class": class, "verdict": verdict, "reason": reason, "delay": delay, "down-for": answer.down_for.map(|it| it.0)})
}

/// Exports the policy, and compares its decisions in Node.js with the engine's.
fn decides_alike(name: &str, subject: &Subject, settings: &Settings) {
    let folder = tempfile::tempdir().unwrap();
    let decisions = folder.path().join("decisions.jsonl");
    write_decisions(subject, settings, &decisions);
    let exported = folder.path().join("policy");
    let mut export = command(&["policy", "export", name, "--javascript", "--out"]);
    succeeds(export.arg(&exported));
    let settings: serde_json::Map<_, _> = settings
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.clone())))
        .collect();
    let mut node = Command::new("node");
    // Node.js 20 runs the linked runtimes of Python and JavaScript with this flag alone.
    node.args(["--no-warnings", "--experimental-wasm-extended-const"]);
    node.arg(package().join("decisions.mjs"))
        .args([&exported, &decisions]);
    let printed = succeeds(node.arg(Value::Object(settings).to_string()));
    assert_eq!(
        printed,
        format!("{FAILURES} decisions are the same\n"),
        "{name}"
    );
}

#[test]
fn each_built_in_policy_decides_in_node_as_in_the_engine() {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    for name in NAMES {
        let source = Source::parse(name, Path::new("")).unwrap();
        let subject = Subject::load(&sandbox, &source, name).unwrap();
        let settings = [("base", "50ms"), ("cap", "20s"), ("max-attempts", "9")];
        decides_alike(name, &subject, &settings.into());
    }
}

/// A policy of a language, as `backstop policy new` makes it.
async fn of_language_decides_alike(language: &str) {
    let author = Author::new(language).await;
    let built = author.backstop(&["policy", "build"]).await;
    assert!(built.status.success(), "{}", text(&built.stderr));
    let component = author.component();
    let subject = compiled(&component);
    decides_alike(component.to_str().unwrap(), &subject, &Settings::new());
}

#[tokio::test]
async fn a_policy_in_rust_decides_in_node_as_in_the_engine() {
    of_language_decides_alike("rust").await;
}

#[tokio::test]
async fn a_policy_in_javascript_decides_in_node_as_in_the_engine() {
    of_language_decides_alike("javascript").await;
}

#[tokio::test]
async fn a_policy_in_typescript_decides_in_node_as_in_the_engine() {
    of_language_decides_alike("typescript").await;
}

#[tokio::test]
async fn a_policy_in_python_decides_in_node_as_in_the_engine() {
    of_language_decides_alike("python").await;
}

#[tokio::test]
async fn a_policy_in_go_decides_in_node_as_in_the_engine() {
    of_language_decides_alike("go").await;
}

#[tokio::test]
async fn a_policy_in_c_decides_in_node_as_in_the_engine() {
    of_language_decides_alike("c").await;
}

/// A policy with one function: the host's defaults answer the rest.
#[test]
fn a_policy_that_answers_one_question_has_the_defaults_of_the_engine() {
    let file = top().join("examples/first-policy.wat");
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let subject = Subject::load(&sandbox, &Source::path(file.clone()), "first").unwrap();
    decides_alike(file.to_str().unwrap(), &subject, &Settings::new());
}

#[test]
fn an_export_leaves_other_files_alone_and_replaces_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let export = |name: &str| {
        let mut export = command(&["policy", "export", name, "--javascript", "--out", "out"]);
        export.current_dir(folder.path()).output().unwrap()
    };
    let read = |file: &str| std::fs::read_to_string(folder.path().join("out").join(file)).unwrap();
    let first = export("linear");
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stdout).contains("package    linear 0.1.0\n"));
    for file in ["policy.core9.wasm", "rules.wasm", "mine.wasm"] {
        std::fs::write(folder.path().join("out").join(file), "old").unwrap();
    }
    assert!(export("full-jitter").status.success());
    let mut files: Vec<_> = std::fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let expected = [
        "host.js",
        "index.d.ts",
        "index.js",
        "mine.wasm",
        "package.json",
        "policy.core.wasm",
        "policy.js",
    ];
    assert_eq!(files, expected);
    let manifest: Value = serde_json::from_str(&read("package.json")).unwrap();
    assert_eq!(manifest["name"], "full-jitter");
    assert!(read("index.js").contains(manifest["backstop"]["digest"].as_str().unwrap()));

    std::fs::write(folder.path().join("out/package.json"), "{}").unwrap();
    let refused = export("full-jitter");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("name another folder with `--out`"));
    let unknown = command(&["policy", "export", "nothing", "--javascript"])
        .output()
        .unwrap();
    assert_eq!(unknown.status.code(), Some(4));
}

/// A limit of a file's size stands for a full disk.
#[test]
fn an_export_that_fails_leaves_the_earlier_one_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let export = |name: &str, most: Option<u64>| {
        let mut export = Command::new("sh");
        let limit = most.map_or_else(|| "unlimited".to_owned(), |it| it.to_string());
        // The limit of a file's size, in blocks of 512 bytes.
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
        export.args(["-c", &script, "sh"]).arg(program("backstop"));
        export.args(["policy", "export", name, "--javascript", "--out"]);
        let output = export.arg(&out).env("BACKSTOP_CACHE", cache()).output();
        output.unwrap()
    };
    let files = || -> Vec<_> {
        let entries = std::fs::read_dir(&out).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| {
                let path = entry.unwrap().path();
                (path.clone(), std::fs::read(path).unwrap())
            })
            .collect();
        files.sort();
        files
    };
    // `policy.js` is larger.
    let most = Some(64);
    let failed = export("linear", most);
    assert!(!failed.status.success());
    assert!(text(&failed.stderr).contains("can't write"), "{failed:?}");
    assert!(files().is_empty());
    assert!(export("linear", None).status.success());
    let earlier = files();
    assert!(!export("full-jitter", most).status.success());
    assert!(files() == earlier);
}
