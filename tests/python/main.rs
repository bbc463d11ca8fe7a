//! The module for Python: each file of `cases` is tested by pytest, with the module and the command that are built, and with the libraries whose exceptions it describes. What works on a queue has an emulator.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::process::{Command, Output};

use backstop_tests::backstop::{program, text};
use backstop_tests::documents::top;
use backstop_tests::emulator::{ministack, services};
use backstop_tests::python::package;

/// Runs a program of the tests' Python with the package.
fn python(folder: &Path, arguments: &[&str]) -> Output {
    let [tool, arguments @ ..] = arguments else {
        panic!("which tool?")
    };
    Command::new(services().join("python/bin").join(tool))
        .args(arguments)
        .current_dir(folder)
        .env("PYTHONPATH", folder)
        .env("BACKSTOP_COMMAND", program("backstop"))
        .env("BACKSTOP_CACHE", folder.join("cache"))
        .env("BACKSTOP_TOP", top())
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .output()
        .unwrap()
}

/// Tests a file of cases in this folder.
fn cases_in(folder: &Path, file: &str) {
    let file = top().join("tests/python/cases").join(file);
    let file = file.to_str().unwrap();
    let output = python(folder, &["pytest", "-q", "-p", "no:cacheprovider", file]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" passed"), "{said}");
}

fn cases(file: &str) {
    cases_in(package().path(), file);
}

#[test]
fn exceptions_say_what_the_policies_classify() {
    cases("test_failures.py");
}

#[test]
fn calls_are_retried() {
    cases("test_retry.py");
}

#[test]
fn a_policy_decides() {
    cases("test_policy.py");
}

#[test]
fn scenarios_are_tests_of_pytest() {
    cases("test_plugin.py");
}

#[test]
fn envelopes_are_opened() {
    cases("test_events.py");
}

#[test]
fn workers_serve_a_queue_in_memory() {
    cases("test_worker.py");
}

#[test]
fn workers_are_tested_in_virtual_time() {
    cases("test_virtual_time.py");
}

#[test]
fn workers_serve_a_queue_and_lose_nothing() {
    // Its endpoint is in a file, since the workers are processes of their own.
    let folder = package();
    std::fs::write(folder.path().join("endpoint"), &ministack().endpoint).unwrap();
    cases_in(folder.path(), "test_queue.py");
}

#[test]
fn workers_answer_on_their_admin_address_as_the_command_does() {
    cases("test_admin.py");
}

#[test]
fn workers_that_something_happens_to_lose_nothing() {
    let folder = backstop_tests::python::package();
    std::fs::write(folder.path().join("endpoint"), &ministack().endpoint).unwrap();
    cases_in(folder.path(), "test_faults.py");
}

#[test]
fn its_types_are_strict() {
    let folder = package();
    let uses = top().join("tests/python/cases/uses.py");
    let uses = uses.to_str().unwrap();
    let mypy = python(
        folder.path(),
        &["mypy", "--strict", "--no-incremental", "-p", "backstop"],
    );
    assert!(mypy.status.success(), "{}", text(&mypy.stdout));
    let mypy = python(
        folder.path(),
        &["mypy", "--strict", "--no-incremental", uses],
    );
    assert!(mypy.status.success(), "{}", text(&mypy.stdout));
    std::fs::copy(uses, folder.path().join("uses.py")).unwrap();
    let settings = r#"{"typeCheckingMode": "strict", "include": ["uses.py"]}"#;
    std::fs::write(folder.path().join("pyrightconfig.json"), settings).unwrap();
    let pyright = Command::new(services().join("node_modules/.bin/pyright"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(pyright.status.success(), "{}", text(&pyright.stdout));
}
