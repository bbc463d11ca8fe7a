//! `backstop policy build`: from a policy's folder to its component, by the language's own toolchain.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bindings::{self, BindingsError, WORLD};
use super::component::{self, ComponentError};
use super::hint;
use super::language::Language;
use super::project::Project;
use super::toolchain::{self, Deadline, Tool, ToolError, Words};
use backstop::policy::PolicyDigest;

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
/// It takes no longer than the project's `build-timeout`: then the tool that runs is ended, with all that it has started.
///
/// The component replaces the one before as a whole, so that a host that watches it never sees half of it. One that is the same is left alone.
pub fn build(
    project: &Project,
    names: bool,
    step: &mut dyn FnMut(&str),
) -> Result<Built, BuildError> {
    let sources = project.sources();
    bindings::write(project)?;
    let deadline = Deadline::within(project.build_timeout);
    let made = make(project, &mut |command, words| {
        step(&toolchain::shown(command));
        toolchain::run(command, words, deadline)
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

/// What there is to type before the policy builds: none where its toolchain is found.
pub fn missing_toolchain(project: &Project) -> Option<ToolError> {
    let tools = project.language.tools().iter();
    tools
        .map(|names| tool(project.language, &project.folder, names))
        .find_map(Result::err)
}

fn tool(language: Language, folder: &Path, names: &[&'static str]) -> Result<Tool, ToolError> {
    Tool::find(folder, names, language.install())
}

/// Runs commands one after another.
type Run<'a> = &'a mut dyn FnMut(&mut Command, Words) -> Result<Vec<u8>, ToolError>;

/// Runs the toolchain. The file that it leaves: a core module or a component.
fn make(project: &Project, run: Run<'_>) -> Result<PathBuf, ToolError> {
    let folder = project.folder.as_path();
    let raw = folder.join("build/raw.wasm");
    // Toolchains write into it, and not all make it.
    let _ = std::fs::create_dir_all(folder.join("build"));
    match project.language {
        Language::Rust => return cargo(project, run),
        Language::JavaScript => quickjs(folder, run)?,
        Language::TypeScript => {
            let tsc = tool(Language::TypeScript, folder, &["tsc"])?;
            run(
                &mut tsc.command(folder, ["--project", "tsconfig.json"]),
                Words::All,
            )?;
            quickjs(folder, run)?;
        }
        Language::Python => python(folder, run)?,
        Language::Go => go(folder, run)?,
        Language::C => c(folder, run)?,
    }
    Ok(raw)
}

fn cargo(project: &Project, run: Run<'_>) -> Result<PathBuf, ToolError> {
    let tool = tool(Language::Rust, &project.folder, &["cargo"])?;
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
    let messages = run(&mut command, Words::Stderr)?;
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
fn quickjs(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::JavaScript, folder, &["componentize-qjs"])?;
    let arguments = [
        "--wit",
        "bindings/wit",
        "--world",
        WORLD,
        "--sync",
        "--opt-size",
        "--js",
        bindings::javascript::MODULE,
        "--output",
        "build/raw.wasm",
    ];
    run(&mut tool.command(folder, arguments), Words::All).map(drop)
}

fn python(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::Python, folder, &["componentize-py"])?;
    let contract = ["--wit-path", "bindings/wit", "--world", WORLD];
    // For editors and type checkers alone.
    let mut bindings = tool.command(folder, contract);
    let _ = std::fs::remove_dir_all(folder.join("bindings/python"));
    run(bindings.args(["bindings", "bindings/python"]), Words::All)?;
    let mut build = tool.command(folder, contract);
    let arguments = ["componentize", "policy", "--output", "build/raw.wasm"];
    run(build.args(arguments), Words::All).map(drop)
}

fn go(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::Go, folder, &["go"])?;
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
    run(&mut command, Words::All).map(drop)
}

fn c(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::C, folder, &["zig", "python-zig"])?;
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
    run(&mut tool.command(folder, arguments), Words::All).map(drop)
}
