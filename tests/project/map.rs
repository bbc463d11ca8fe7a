//! The files in the map of the code exist, and every warning and error of the log is explained.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that can't go on fails"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use backstop_tests::documents::{document, top};

#[test]
fn every_file_that_the_architecture_names_exists() {
    let text = document("host/docs/architecture.md");
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

/// The Rust sources of the crates that run in production, without their tests.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let crates = [
        "aws",
        "backstop",
        "cli",
        "core",
        "dead-letters",
        "deliver",
        "engine",
        "files",
        "idempotency",
        "lambda",
        "logging",
        "records",
        "retry",
        "versions",
    ];
    let mut folders: Vec<_> = crates
        .map(|name| top().join("host").join(name).join("src"))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                found.push(path);
            }
        }
    }
    found
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

/// Every fixed message of a warning or an error in a source.
fn messages(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let calls = ["tracing::warn!", "tracing::error!"].into_iter();
    let calls = calls.flat_map(|name| code.split(name).skip(1));
    calls
        .filter_map(|call| fixed(literals(call).first()?))
        .collect()
}

/// Every fixed message of an error type in a source: some are logged as warnings.
fn error_types(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let attributes = text.split("#[error").skip(1);
    attributes
        .filter_map(|call| fixed(literals(call).first()?))
        .collect()
}

#[test]
fn all_warnings_and_errors_of_the_log_and_no_others_are_explained() {
    let logged: BTreeSet<_> = sources().iter().flat_map(|path| messages(path)).collect();
    let text = document("host/docs/troubleshooting.md");
    let explained: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("**`")?.split_once("`**"))
        .map(|(message, _)| message.to_owned())
        .collect();
    let missing: Vec<_> = logged.difference(&explained).collect();
    let types: Vec<_> = sources()
        .iter()
        .flat_map(|path| error_types(path))
        .collect();
    let gone: Vec<_> = explained
        .difference(&logged)
        .filter(|it| !types.iter().any(|text| text.starts_with(it.as_str())))
        .collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "host/docs/troubleshooting.md has no entry for {missing:#?} and one for {gone:#?}"
    );
}
