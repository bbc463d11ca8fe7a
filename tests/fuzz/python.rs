//! What programs in Python give to the module: exceptions, options, events. The module is the real one, in a process of Python.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

use backstop_core::lock::lock;
use backstop_tests::backstop::program;
use backstop_tests::emulator::services;
use backstop_tests::python::package;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{assert_readable, text};

static PYTHON: LazyLock<Mutex<Option<Python>>> = LazyLock::new(Mutex::default);

/// A process that answers lines.
struct Python {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
    _package: TempDir,
}

impl Python {
    fn start() -> Self {
        let package = package();
        let mut child = Command::new(services().join("python/bin/python"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python.py"))
            .env("PYTHONPATH", package.path())
            .env("BACKSTOP_COMMAND", program("backstop"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            _child: child,
            _package: package,
        }
    }
}

/// What the module answers; none if it refuses the input, or if that is no object of JSON. An exception that is no answer fails.
fn answer(what: &str, input: &[u8]) -> Option<Value> {
    // As text: Python reads numbers and strings that nothing here does.
    let given = text(input);
    let mut python = lock(&PYTHON);
    let process = python.get_or_insert_with(Python::start);
    let request = json!({"what": what, "given": given});
    let mut line = String::new();
    let asked =
        writeln!(process.input, "{request}").and_then(|()| process.output.read_line(&mut line));
    if !matches!(asked, Ok(1..)) {
        *python = None;
        panic!("Python has ended: {given}");
    }
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert!(answer["wrong"].is_null(), "{} for {given}", answer["wrong"]);
    if let Some(refused) = answer["refused"].as_str() {
        assert_readable(refused);
        return None;
    }
    Some(answer)
}

/// An exception is decided about by its policy, the same each time. One that says that it is permanent is never retried.
pub(crate) fn exception(input: &[u8]) {
    let Some(decided) = answer("exception", input) else {
        return;
    };
    assert_eq!(Some(&decided), answer("exception", input).as_ref());
    assert!(decided["broken"].is_null(), "{decided}");
    let verdict = decided["verdict"].as_str().unwrap();
    if decided["permanent"] == true {
        assert_eq!(verdict, "dead-letter", "{decided}");
    }
    assert_eq!(
        verdict == "retry",
        decided["delay"].is_number(),
        "{decided}"
    );
}

/// Options make a worker, or the mistake is a `TypeError` or a `ValueError` of few words.
pub(crate) fn options(input: &[u8]) {
    answer("options", input);
}

/// An event is handed on as it is, or the one in its envelope, the same each time.
pub(crate) fn event(input: &[u8]) {
    let Some(opened) = answer("event", input) else {
        return;
    };
    assert_eq!(Some(&opened), answer("event", input).as_ref());
    let attempt = opened["attempt"].as_u64();
    assert!(attempt.is_none_or(|it| it > 1), "{opened}");
}
