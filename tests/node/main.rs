//! The addon for Node.js: each file of `cases` is a suite of `node --test`, with the package, the addon and the command that are built. What works on a queue has an emulator.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::process::Command;

use backstop_tests::backstop::{cache, program};
use backstop_tests::documents::{document, top};
use backstop_tests::emulator::{ministack, services};
use backstop_tests::npm::{self, succeeds};

/// A folder in which the package is installed.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let modules = folder.path().join("node_modules");
    std::fs::create_dir(&modules).unwrap();
    let package = npm::built("node");
    std::os::unix::fs::symlink(&package, modules.join("backstop-sqs")).unwrap();
    let types = package.join("node_modules/@types");
    std::os::unix::fs::symlink(types, modules.join("@types")).unwrap();
    folder
}

/// A program with the package, in this folder.
fn command(name: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let addon = program("backstop").with_file_name("libbackstop_node.so");
    assert!(
        addon.exists(),
        "{} is not there: run `make build`",
        addon.display()
    );
    let mut command = Command::new(name);
    command
        .current_dir(folder)
        .env("BACKSTOP_ADDON", addon)
        .env("BACKSTOP_COMMAND", program("backstop"))
        .env("BACKSTOP_CACHE", cache())
        .env("BACKSTOP_TOP", top())
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1");
    command
}

/// Tests a file of cases in this folder.
fn cases_in(folder: &Path, file: &str) {
    // Copied: what it imports is found next to it.
    for name in [file, "queues.mjs"] {
        std::fs::copy(top().join("tests/node/cases").join(name), folder.join(name)).unwrap();
    }
    let said = succeeds(command("node", folder).args(["--test", file]));
    assert!(
        said.contains("# fail 0") && !said.contains("# pass 0"),
        "{said}"
    );
}

fn cases(file: &str) {
    cases_in(installed().path(), file);
}

#[test]
fn workers_serve_a_queue_in_memory() {
    cases("worker.test.mjs");
}

#[test]
fn errors_say_what_the_policies_classify() {
    cases("errors.test.mjs");
}

#[test]
fn mistakes_say_what_is_expected() {
    cases("mistakes.test.mjs");
}

#[test]
fn a_policy_decides() {
    cases("policy.test.mjs");
}

#[test]
fn programs_end_as_they_are_asked_to() {
    cases("programs.test.mjs");
}

#[test]
fn workers_serve_a_queue_and_lose_nothing() {
    // Its endpoint is in a file, since the workers are processes of their own.
    let folder = installed();
    std::fs::write(folder.path().join("endpoint"), &ministack().endpoint).unwrap();
    let sdk = services().join("node_modules/@aws-sdk");
    std::os::unix::fs::symlink(sdk, folder.path().join("node_modules/@aws-sdk")).unwrap();
    cases_in(folder.path(), "queue.test.mjs");
}

#[test]
fn its_types_are_strict() {
    let folder = installed();
    let package = npm::built("node");
    for name in ["uses.mts", "uses.cts"] {
        std::fs::copy(
            top().join("tests/node/cases").join(name),
            folder.path().join(name),
        )
        .unwrap();
    }
    let mut check = command(package.join("node_modules/.bin/tsc"), folder.path());
    check.args(["--noEmit", "--strict", "--module", "nodenext"]);
    check.args(["--target", "es2022", "--lib", "es2023", "--types", "node"]);
    check.args(["--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"]);
    succeeds(check.args(["uses.mts", "uses.cts"]));
}

#[test]
fn its_lock_file_has_no_address_of_a_registry() {
    let lock = document("host/node/package-lock.json");
    assert!(
        !lock.contains("resolved") && !lock.contains("http://"),
        "{lock}"
    );
}
