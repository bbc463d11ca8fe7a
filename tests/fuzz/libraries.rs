//! Idempotency keys, next to the real Powertools libraries and the JMESPath interpreters in them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

use backstop_core::lock::lock;
use backstop_idempotency::{Event, Idempotency, MemoryStore, RecordFormat};
use backstop_tests::emulator::services;
use serde_json::{Value, json};

/// A library, in a process that answers lines.
struct Library {
    format: RecordFormat,
    process: Option<Process>,
}

struct Process {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

static PYTHON: LazyLock<Mutex<Library>> = LazyLock::new(|| Library::of(RecordFormat::Python));
static TYPESCRIPT: LazyLock<Mutex<Library>> =
    LazyLock::new(|| Library::of(RecordFormat::TypeScript));

impl Library {
    fn of(format: RecordFormat) -> Mutex<Self> {
        let process = None;
        Mutex::new(Self { format, process })
    }

    /// What the library says about the key of an event at a path.
    fn key(&mut self, path: &str, event: &str) -> Value {
        let format = self.format;
        let process = self.process.get_or_insert_with(|| Process::start(format));
        let request = json!({"path": path, "event": event});
        let mut line = String::new();
        let asked =
            writeln!(process.input, "{request}").and_then(|()| process.output.read_line(&mut line));
        if !matches!(asked, Ok(1..)) {
            self.process = None;
            panic!("the library has ended: {path} in {event}");
        }
        serde_json::from_str(&line).unwrap()
    }
}

impl Process {
    fn start(format: RecordFormat) -> Self {
        let scripts = env!("CARGO_MANIFEST_DIR");
        let mut command = match format {
            RecordFormat::Python => {
                let mut command = Command::new(services().join("python/bin/python"));
                command.arg(format!("{scripts}/libraries.py"));
                command
            }
            RecordFormat::TypeScript => {
                let mut command = Command::new(services().join("node_modules/.bin/node"));
                command
                    .arg(format!("{scripts}/libraries.mjs"))
                    .arg(services());
                command
            }
        };
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = pipes.spawn().unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            _child: child,
        }
    }
}

/// What is refused here and not there, for a reason that its document gives: a repeat is then an error and never another key.
const REFUSED: [&str; 13] = [
    // JavaScript leaves out what is no base64, and its library sorts arrays by their text.
    "powertools_base64: ",
    "sort: expected",
    // Powertools for TypeScript warns, and uses `null` as a key.
    "no idempotency key",
    // Lists of pairs, and characters by their place.
    "merge: expected an object",
    // An expression with `&` as the argument of a function that takes values.
    "not an expression",
    "TypeScript",
    "38 digits",
    "other than 0 to 9",
    "128 bits",
    "levels deep",
    "not JSON",
    "more than",
    "is no integer",
];

/// The key here is that of the library, or there is none here for a known reason.
fn compare(library: &Mutex<Library>, path: &str, event: &str) {
    let mut library = lock(library);
    let format = library.format;
    let builder = Idempotency::builder(MemoryStore::new(format), "orders").key(path);
    // A path that is refused at the start is no key that differs.
    let Ok(idempotency) = builder.build() else {
        return;
    };
    let Ok(parsed) = Event::parse(event) else {
        return;
    };
    let theirs = library.key(path, event);
    if theirs.get("path").is_some() {
        return;
    }
    let theirs = theirs.get("key").and_then(Value::as_str);
    match (idempotency.key_of(&parsed), theirs) {
        (Ok(Some(ours)), Some(theirs)) => {
            assert_eq!(ours.as_str(), theirs, "{path} in {event} by {format:?}")
        }
        (Ok(Some(ours)), None) => {
            panic!("{path} in {event} by {format:?}: {ours:?}, and no key there")
        }
        (Ok(None) | Err(_), None) => {}
        (Ok(None), Some(theirs)) => {
            panic!("{path} in {event} by {format:?}: no key, and {theirs} there")
        }
        (Err(why), Some(theirs)) => {
            let mut why_not = why.to_string();
            let mut cause = std::error::Error::source(&why);
            while let Some(error) = cause {
                why_not += &format!(": {error}");
                cause = error.source();
            }
            let is_known = REFUSED.iter().any(|it| why_not.contains(it));
            assert!(
                is_known,
                "{path} in {event} by {format:?}: {why_not}, and {theirs} there"
            );
        }
    }
}

fn formats(library: &Mutex<Library>, input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        // An array of two is never missing.
        compare(library, "id", &format!("{{\"id\": [1, {text}]}}"));
    }
}

/// The first line is the expression, the rest the event.
fn jmespath(library: &Mutex<Library>, input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Some((path, event)) = text.split_once('\n') else {
        return;
    };
    if !path.starts_with('/') {
        compare(library, path, event);
    }
}

/// The key of an event as the library of Python makes it.
pub(crate) fn powertools_python(input: &[u8]) {
    formats(&PYTHON, input);
}

/// The key of an event as the library of TypeScript makes it.
pub(crate) fn powertools_typescript(input: &[u8]) {
    formats(&TYPESCRIPT, input);
}

/// What an expression finds, by its key.
pub(crate) fn jmespath_python(input: &[u8]) {
    jmespath(&PYTHON, input);
}

/// What an expression finds, by its key.
pub(crate) fn jmespath_typescript(input: &[u8]) {
    jmespath(&TYPESCRIPT, input);
}
