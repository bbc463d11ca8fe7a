//! The bindings for Rust: the SDK, `policies/sdk` and `policies/backoff`, as crates that need no workspace.

use anyhow::Context;
use toml::{Table, Value};

use super::contract::Written;

const WORKSPACE: &str = include_str!("../../sdk/workspace.toml");

macro_rules! sources {
    ($crate_folder:literal: $($file:literal)+) => {
        [$((
            concat!("policies/", $crate_folder, "/src/", $file),
            include_str!(concat!("../../sdk/", $crate_folder, "/", $file)),
        )),+]
    };
}

pub(super) fn add(written: &mut Written) -> anyhow::Result<()> {
    let sdk = sources!("sdk": "lib.rs" "arena.rs" "bindings.rs" "outage_bindings.rs" "conversions.rs" "durations.rs" "policy.rs" "standard.rs" "testing.rs");
    let backoff = sources!("backoff": "lib.rs" "aws_sdk.rs" "aws_sdk_tests.rs" "classify.rs" "classify_tests.rs" "codes.rs" "duration.rs" "failed_attempt.rs" "formula.rs" "jitter.rs" "pattern.rs" "settings.rs" "settings_error.rs" "standard.rs" "values.rs");
    for (path, text) in sdk.into_iter().chain(backoff) {
        written.add(path, text);
    }
    // It is the documentation of `lib.rs`.
    written.add(
        "policies/sdk/README.md",
        include_str!("../../sdk/readme.md"),
    );
    let manifests = [
        (
            "policies/sdk/Cargo.toml",
            include_str!("../../sdk/policy.toml"),
        ),
        (
            "policies/backoff/Cargo.toml",
            include_str!("../../sdk/backoff.toml"),
        ),
    ];
    for (path, manifest) in manifests {
        written.add(path, standalone(manifest).with_context(|| path.to_owned())?);
    }
    Ok(())
}

/// A member's manifest without its workspace: inherited values are filled in, and lints and development dependencies are removed.
fn standalone(manifest: &str) -> anyhow::Result<String> {
    let mut manifest: Table = manifest.parse()?;
    let workspace: Table = WORKSPACE.parse()?;
    let inherited = |table: &str, key: &str| -> anyhow::Result<Value> {
        let found = workspace
            .get("workspace")
            .and_then(|it| it.get(table))
            .and_then(|it| it.get(key));
        found
            .cloned()
            .with_context(|| format!("the workspace has no {table}.{key}"))
    };
    manifest.remove("lints");
    manifest.remove("dev-dependencies");
    if let Some(Value::Table(package)) = manifest.get_mut("package") {
        for (key, value) in package.iter_mut() {
            if value.get("workspace").is_some() {
                *value = inherited("package", key)?;
            }
        }
    }
    if let Some(Value::Table(dependencies)) = manifest.get_mut("dependencies") {
        for (key, value) in dependencies.iter_mut() {
            if value.get("workspace").is_some() {
                *value = pin(inherited("dependencies", key)?);
            }
        }
    }
    Ok(manifest.to_string())
}

/// Pins the version that the SDK was tested with. The path of the SDK's other crate becomes that of the sibling folder.
fn pin(mut dependency: Value) -> Value {
    if let Some(version) = dependency.get_mut("version")
        && let Some(number) = version.as_str()
    {
        *version = Value::String(format!("={number}"));
    }
    if let Some(path) = dependency.get_mut("path")
        && let Some(folder) = path.as_str().and_then(|path| path.rsplit('/').next())
    {
        *path = Value::String(format!("../{folder}"));
    }
    dependency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_needs_no_workspace() {
        let mut written = Written::default();
        add(&mut written).unwrap();
        for (path, bytes) in &written.0 {
            if path.ends_with("Cargo.toml") {
                let manifest = String::from_utf8(bytes.clone()).unwrap();
                assert!(!manifest.contains("workspace"), "{path}: {manifest}");
            }
        }
        let sdk = include_str!("../../sdk/policy.toml");
        let sdk: Table = standalone(sdk).unwrap().parse().unwrap();
        let dependencies = sdk.get("dependencies").unwrap();
        let path = dependencies.get("backstop-backoff").unwrap().get("path");
        assert_eq!(path.and_then(Value::as_str), Some("../backoff"));
        let version = dependencies.get("wit-bindgen").unwrap().get("version");
        assert!(version.and_then(Value::as_str).unwrap().starts_with("=0."));
    }
}
