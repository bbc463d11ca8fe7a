//! The crates of the workspace: how much each of them brings along, and which way the arrows
//! between them point.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use backstop_tests::documents::top;
use serde_json::Value;

pub(crate) fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--offline", "--color", "never"])
        .current_dir(top())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The crates that a user of this package builds, including itself, as `name version`.
fn closure(package: &str, features: &[&str]) -> BTreeSet<String> {
    let tree = [
        "tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
    ];
    cargo(&[&tree[..], &["--package", package], features].concat())
        .lines()
        .map(|line| {
            line.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .filter(|line| !line.is_empty())
        .collect()
}

/// Crates for authors and the command line, which must not run in production.
const WORKBENCH_ONLY: [&str; 5] = [
    "backstop-workbench ",
    "clap ",
    "plotters ",
    "proptest ",
    "wit-bindgen",
];

#[test]
fn each_crate_has_no_more_dependencies_than_allowed() {
    let none = ["--no-default-features"].as_slice();
    for (package, features, most) in [
        ("backstop-core", [].as_slice(), 30),
        ("backstop-records", &[], 35),
        ("backstop-queue", &[], 184),
        ("backstop-functions", &[], 166),
        ("backstop-retry", &[], 40),
        ("backstop-retry", &["--features", "wasm"], 180),
        ("backstop-deliver", &[], 52),
        (
            "backstop-deliver",
            &["--features", "sqs,dynamodb,firehose"],
            187,
        ),
        ("backstop-idempotency", &[], 45),
        ("backstop-idempotency", &["--features", "dynamodb"], 155),
        ("backstop-engine", &[], 180),
        ("backstop-versions", none, 180),
        ("backstop", &[], 354),
        ("backstop", none, 320),
        ("backstop-settle", &[], 282),
        ("backstop-handlers", &[], 194),
        ("backstop", &["--features", "deliver,idempotency"], 358),
        ("backstop", &["--features", "traces"], 370),
        ("backstop-dead-letters", &[], 190),
        ("backstop-lambda", &[], 386),
    ] {
        let crates = closure(package, features);
        let count = crates.len();
        assert!(count <= most, "{package} {features:?}: {count} crates");
        let unwanted: Vec<_> = crates
            .iter()
            .filter(|name| WORKBENCH_ONLY.iter().any(|prefix| name.starts_with(prefix)))
            .collect();
        assert!(unwanted.is_empty(), "{package} {features:?}: {unwanted:?}");
    }
}

/// `make demo` builds the command, `make test` first the programs and then the tests: none must build the dependencies of the one before again.
#[test]
fn the_programs_build_their_dependencies_as_the_tests_do() {
    let list = |edges: &str| -> BTreeSet<String> {
        let tree = [
            "tree",
            "--workspace",
            "--prefix",
            "none",
            "--format",
            "{p} {f}",
        ];
        cargo(&[&tree[..], &["--edges", edges]].concat())
            .lines()
            .map(|line| line.trim_end_matches(" (*)").trim_end().to_owned())
            .collect()
    };
    let (programs, tests) = (list("normal,build"), list("normal,build,dev"));
    let again: Vec<_> = programs
        .difference(&tests)
        .filter(|line| !line.starts_with("backstop-"))
        .collect();
    assert!(again.is_empty(), "other features alone: {again:?}");
}

/// The members of the workspace that each member depends on, for any purpose.
fn members() -> BTreeMap<String, BTreeSet<String>> {
    let text = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let names = |list: &Value| -> BTreeSet<String> {
        let list = list.as_array().unwrap();
        let named = list
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned());
        named.collect()
    };
    let all = names(&metadata["packages"]);
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let name = package["name"].as_str().unwrap().to_owned();
            let dependencies = names(&package["dependencies"]);
            (name, dependencies.intersection(&all).cloned().collect())
        })
        .collect()
}

/// Everything that `package` depends on, directly or not.
fn reached(package: &str, members: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![package];
    while let Some(package) = next.pop() {
        for dependency in &members[package] {
            if reached.insert(dependency.clone()) {
                next.push(dependency);
            }
        }
    }
    reached
}

#[test]
fn no_crate_depends_on_itself_through_others() {
    let members = members();
    for package in members.keys() {
        assert!(!reached(package, &members).contains(package), "{package}");
    }
}

#[test]
fn an_edit_of_the_command_line_rebuilds_no_other_crate() {
    for (package, dependencies) in members() {
        assert!(!dependencies.contains("backstop-cli"), "{package}");
    }
}

#[test]
fn the_engine_knows_no_source_no_queue_and_no_workbench() {
    let below = [
        "backstop-backoff",
        "backstop-core",
        "backstop-files",
        "backstop-json",
    ];
    let reached = reached("backstop-engine", &members());
    assert_eq!(reached, below.map(str::to_owned).into());
}

/// Else a change in a crate would build the host before its suite.
#[test]
fn the_suites_of_crates_below_the_host_do_not_build_it() {
    let members = members();
    for suite in [
        "dead-letters",
        "deliver",
        "idempotency",
        "policies",
        "retry",
    ] {
        let reached = reached(&format!("tests-{suite}"), &members);
        assert!(!reached.contains("backstop-host"), "{suite}: {reached:?}");
    }
    let shared = ["backstop-core", "backstop-idempotency"];
    assert_eq!(members["backstop-tests"], shared.map(str::to_owned).into());
}
