//! The files in the map of the code exist, and every warning and error of the log is explained, with its level.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use backstop_tests::documents::{document, top};

#[test]
fn every_file_that_the_architecture_names_exists() {
    let text = document("host/docs/contributing/architecture.md");
    let names: Vec<_> = text.split('`').skip(1).step_by(2).collect();
    let is_path = |name: &&str| name.contains('/') && !name.contains([' ', ':', '<', '*']);
    let paths: Vec<_> = names.iter().copied().filter(is_path).collect();
    for path in &paths {
        let (under_host, under_top) = (top().join("host").join(path), top().join(path));
        assert!(under_host.exists() || under_top.exists(), "{path}");
    }
    // A file whose path the page has given before.
    for name in names
        .iter()
        .filter(|name| !is_path(name) && name.ends_with(".rs"))
    {
        let path = format!("/{name}");
        assert!(paths.iter().any(|named| named.ends_with(&path)), "{name}");
    }
    assert!(paths.len() > 30, "{}", paths.len());
}

/// The Rust sources of all crates.
pub(crate) fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let crates = std::fs::read_dir(top().join("host")).unwrap();
    let mut folders: Vec<_> = crates
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|folder| folder.is_dir())
        .collect();
    assert!(folders.len() > 15, "{folders:?}");
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// Whether a source has unit tests and nothing else.
pub(crate) fn is_tests(path: &Path) -> bool {
    path.to_string_lossy().ends_with("tests.rs")
}

/// The text literals of a macro call, up to its end.
fn literals(call: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let (mut depth, mut text) = (0, None::<String>);
    let mut characters = call.chars();
    while let Some(c) = characters.next() {
        match (&mut text, c) {
            (Some(inner), '\\') => inner.extend(characters.next().filter(|c| *c == '"')),
            (Some(_), '"') => {
                // `"message-id" = id` is a field.
                let is_field = characters.as_str().trim_start().starts_with('=');
                literals.extend(text.take().filter(|_| !is_field));
            }
            (Some(inner), c) => inner.push(c),
            (None, '"') => text = Some(String::new()),
            (None, '(') => depth += 1,
            (None, ')') if depth == 1 => break,
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    literals
}

/// A message with `…` for placeholders. `None` if there is nothing else.
fn fixed(message: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('{') {
        text = text + before + "…";
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    text += rest;
    text.contains(|c: char| c.is_alphabetic()).then_some(text)
}

/// A message, and the level at which it is logged.
type Message = (String, &'static str);

/// The warnings and errors that a source logs.
#[derive(Default)]
struct Logged {
    /// Those with a text of their own.
    fixed: Vec<Message>,
    /// The first literal of the others: they show a value whose text is elsewhere.
    shown: Vec<String>,
}

fn logged(path: &Path) -> Logged {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let mut logged = Logged::default();
    for (call, level) in [("tracing::warn!", "WARN"), ("tracing::error!", "ERROR")] {
        for call in code.split(call).skip(1) {
            let literals = literals(call);
            let literal = literals.first().map_or("", String::as_str);
            match fixed(literal) {
                Some(message) => logged.fixed.push((message, level)),
                None => logged.shown.push(format!("{level} {literal}")),
            }
        }
    }
    logged
}

/// The messages of the values that are logged as they are: the fixed texts of an error type, in one of the sources.
fn of_type(file: &str, name: &str, level: &'static str) -> Vec<Message> {
    let text = document(file);
    let (_, code) = text.split_once(&format!("pub enum {name} {{\n")).unwrap();
    let (code, _) = code.split_once("\n}\n").unwrap();
    texts_of_errors(code)
        .map(|message| (message, level))
        .collect()
}

/// Every fixed message of the error types in some code.
fn texts_of_errors(code: &str) -> impl Iterator<Item = String> {
    let attributes = code.split("#[error").skip(1);
    attributes.filter_map(|call| fixed(literals(call).first()?))
}

/// What `troubleshooting.md` explains, with its level.
fn explained() -> Vec<(String, String)> {
    let text = document("host/docs/operate/troubleshooting.md");
    let entries = text.lines().filter_map(|line| {
        let (message, level) = line.strip_prefix("**`")?.split_once("`** (")?;
        let (level, _) = level.split_once(')')?;
        Some((message.to_owned(), level.to_owned()))
    });
    entries.collect()
}

#[test]
fn all_warnings_and_errors_of_the_log_and_no_others_are_explained() {
    let mut sources = sources();
    sources.retain(|path| !is_tests(path));
    let all = sources.iter().map(|path| logged(path));
    let all: Vec<_> = all.flat_map(|logged| logged.fixed).collect();
    let explained = explained();
    let missing: Vec<_> = all
        .iter()
        .filter(|(message, level)| {
            !explained
                .iter()
                .any(|it| it.0 == *message && it.1 == *level)
        })
        .collect();
    let types: Vec<_> = sources
        .iter()
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            texts_of_errors(&text).collect::<Vec<_>>()
        })
        .collect();
    let verdicts = ["dead-letter", "discard"];
    let gone: Vec<_> = explained
        .iter()
        .filter(|(message, level)| {
            let is_logged = all.iter().any(|it| it.0 == *message && it.1 == *level);
            let is_of_type = types.iter().any(|text| text.starts_with(message));
            !is_logged && !is_of_type && !verdicts.contains(&message.as_str())
        })
        .collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "host/docs/operate/troubleshooting.md has no entry for {missing:#?} and one for {gone:#?}"
    );
}

/// A message without a literal of its own escapes the test above, so each kind of them is named here.
#[test]
fn messages_that_are_values_are_explained_too() {
    let mut all = sources();
    all.retain(|path| !is_tests(path));
    let shown: BTreeSet<_> = all.iter().flat_map(|path| logged(path).shown).collect();
    let known = [
        // What doctor prints as well.
        "WARN {warning}",
        "WARN {too_few}",
        // The decision about a message that is given up.
        "WARN {verdict}",
        "WARN {}",
        // The count of lines that a storm had too many of, with their own text.
        "ERROR {message}",
        "WARN {message}",
        // A panic, and the error with which a command or a batch ends: the document says that they are not listed.
        "ERROR {error}",
        "ERROR {error:#}",
        "ERROR {panic}",
        "ERROR {panic}{backtrace}",
    ];
    // A `\n` of a literal is no letter for `literals`.
    let known = known.map(str::to_owned).into();
    assert_eq!(
        shown, known,
        "name the texts of a new kind here, and explain them"
    );

    let warnings = of_type("host/host/src/consumer/startup/fault.rs", "Warning", "WARN");
    assert!(warnings.len() >= 10, "{warnings:?}");
    let too_few = document("host/host/src/service/descriptors.rs");
    let too_few = texts_of_errors(&too_few).map(|message| (message, "WARN"));
    let verdicts = ["dead-letter", "discard"].map(|it| (it.to_owned(), "WARN"));
    let explained = explained();
    for (message, level) in warnings.into_iter().chain(too_few).chain(verdicts) {
        let is_explained = explained
            .iter()
            .any(|(entry, of)| message.starts_with(entry.as_str()) && of == level);
        assert!(
            is_explained,
            "host/docs/operate/troubleshooting.md has no entry for {level} {message}"
        );
    }
}
