//! The commands that build a policy, for each language.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::toolchain::{self, Tool, ToolError, Words};
use crate::bindings::{ENTRY_MODULE, PYTHON_ENTRY_MODULE, WORLD};
use crate::project::{Language, Project, RUST_CHANNEL, RUST_TARGET};

/// The first tool that is missing in a policy's folder, which need not exist yet, with how to install it. None if the toolchain is complete.
pub fn missing_toolchain(language: Language, folder: &Path) -> Option<ToolError> {
    let tools = language.tools().iter();
    tools
        .map(|names| tool(language, folder, names))
        .find_map(Result::err)
        .or_else(|| match language {
            Language::Rust => missing_target(folder),
            Language::JavaScript
            | Language::TypeScript
            | Language::Python
            | Language::Go
            | Language::C => None,
        })
}

/// Whether Rust lacks WebAssembly.
fn missing_target(folder: &Path) -> Option<ToolError> {
    let rustup = Tool::find(folder, &["rustup"], "");
    let is_there = match &rustup {
        Ok(rustup) => rustup_has_target(rustup),
        Err(_) => rustc_has_target(folder),
    };
    if is_there {
        return None;
    }
    let install = match &rustup {
        Ok(_) => {
            let commands = Language::Rust.install_commands().join(" && ");
            format!("run: {commands} (else the first build does it)")
        }
        Err(_) => Language::Rust.install(),
    };
    Some(ToolError::Missing {
        name: RUST_TARGET.to_owned(),
        install,
    })
}

fn rustup_has_target(rustup: &Tool) -> bool {
    let question = ["target", "list", "--installed", "--toolchain", RUST_CHANNEL];
    let mut command = rustup.command(Path::new("."), question);
    // A question installs nothing.
    let answer = command.env("RUSTUP_AUTO_INSTALL", "0").output();
    answer.is_ok_and(|it| {
        let targets = String::from_utf8_lossy(&it.stdout);
        it.status.success() && targets.lines().any(|line| line.trim() == RUST_TARGET)
    })
}

/// A Rust that rustup has not installed may have other targets, or none.
fn rustc_has_target(folder: &Path) -> bool {
    let Ok(rustc) = Tool::find(folder, &["rustc"], "") else {
        return false;
    };
    let question = ["--print", "target-libdir", "--target", RUST_TARGET];
    let answer = rustc.command(Path::new("."), question).output();
    answer.is_ok_and(|it| {
        let path = String::from_utf8_lossy(&it.stdout).trim().to_owned();
        it.status.success() && Path::new(&path).is_dir()
    })
}

fn tool(language: Language, folder: &Path, names: &[&str]) -> Result<Tool, ToolError> {
    Tool::find(folder, names, &language.install())
}

/// The words of a command line, as a shell takes them.
fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap_or_default()
}

/// Runs one command.
type Run<'a> = &'a mut dyn FnMut(&mut Command, Words) -> Result<Vec<u8>, ToolError>;

/// Runs the toolchain. Returns the path of its output: a core module or a component.
pub(super) fn run(project: &Project, run: Run<'_>) -> Result<PathBuf, ToolError> {
    let folder = project.folder.as_path();
    let raw = folder.join("build/raw.wasm");
    // Toolchains write into it, but not all create it.
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
    // The stack of a policy: the default of 1 MiB would be initialised for every decision.
    let arguments = words(
        "build --release --target wasm32-unknown-unknown --message-format json-render-diagnostics \
         --config \"target.wasm32-unknown-unknown.rustflags=['-C', 'link-arg=-zstack-size=32768']\"",
    );
    let mut command = tool.command(&project.folder, arguments);
    // Flags and toolchains of other builds must not affect the policy.
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
        output: format!(
            "it built no {crate_name}.wasm: in Cargo.toml, the package must be named `{}`, and [lib] needs crate-type = [\"cdylib\", \"rlib\"]",
            project.name
        ),
    })
}

/// Without `--stub-wasi`, so that the message of an exception is written to stderr and reaches the host's log.
fn quickjs(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::JavaScript, folder, &["componentize-qjs"])?;
    let arguments = format!(
        "--wit bindings/wit --world {WORLD} --sync --opt-size --js {ENTRY_MODULE} --output build/raw.wasm"
    );
    let arguments = words(&arguments);
    run(&mut tool.command(folder, arguments), Words::All).map(drop)
}

fn python(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::Python, folder, &["componentize-py"])?;
    let contract = ["--wit-path", "bindings/wit", "--world", WORLD];
    // Only for editors and type checkers.
    let mut bindings = tool.command(folder, contract);
    let _ = std::fs::remove_dir_all(folder.join("bindings/python"));
    run(bindings.args(["bindings", "bindings/python"]), Words::All)?;
    let mut build = tool.command(folder, contract);
    let arguments = format!(
        "componentize {PYTHON_ENTRY_MODULE} --python-path bindings --python-path . --output build/raw.wasm"
    );
    let arguments = words(&arguments);
    run(build.args(arguments), Words::All).map(drop)
}

fn go(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::Go, folder, &["go"])?;
    let arguments = words(
        "build -buildmode=c-shared -trimpath '-ldflags=-s -w -checklinkname=0' -o build/raw.wasm ./bindings",
    );
    let mut command = tool.command(folder, arguments);
    command.env("GOOS", "wasip1").env("GOARCH", "wasm");
    // The folder is its own module, whatever the folders around it contain.
    command.env("GOWORK", "off").env("GO111MODULE", "on");
    command.env_remove("GOFLAGS");
    run(&mut command, Words::All).map(drop)
}

fn c(folder: &Path, run: Run<'_>) -> Result<(), ToolError> {
    let tool = tool(Language::C, folder, &["zig", "python-zig"])?;
    let arguments = words(
        "cc -target wasm32-wasi -mexec-model=reactor -Oz -flto -Wall -Wl,-z,stack-size=32768 -o build/raw.wasm \
         policy.c bindings/backstop.c bindings/backstop_component_type.o",
    );
    run(&mut tool.command(folder, arguments), Words::All).map(drop)
}
