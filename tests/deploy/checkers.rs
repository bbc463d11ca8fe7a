//! The programs that check deployments, and what reads their files.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use backstop_tests::documents::top;
use backstop_tests::emulator::services;
use serde_json::Value;

/// A folder or a file of `examples/operate`.
pub(crate) fn example(name: &str) -> PathBuf {
    top().join("examples/operate").join(name)
}

/// Runs a program with this standard input.
pub(crate) fn output(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writing.join().unwrap();
    output
}

/// What a program prints that has to succeed.
pub(crate) fn passes(command: &mut Command, input: &str) -> String {
    let output = output(command, input);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}:\n{stdout}{stderr}");
    stdout
}

/// A program of Python's among the test services.
pub(crate) fn python(name: &str) -> Command {
    let mut command = Command::new(services().join("python/bin").join(name));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// A module for Node.js, which may import the packages of the test services.
pub(crate) fn node(module: &str) -> Command {
    let mut command = Command::new(services().join("node_modules/.bin/node"));
    command
        .args(["--input-type=module", "-e", module])
        .current_dir(services());
    command
}

/// The documents of a YAML text.
pub(crate) fn yaml(text: &str) -> Vec<Value> {
    const SCRIPT: &str =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let printed = passes(python("python").args(["-c", SCRIPT]), text);
    serde_json::from_str(&printed).unwrap()
}
