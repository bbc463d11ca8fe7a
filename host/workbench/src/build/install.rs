//! Installs the toolchain of a language, for `backstop policy new --install`.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::toolchain::{self, Tool, ToolError};
use crate::project::Language;

/// The commands that install the toolchain of a language.
#[derive(Debug, Clone, Copy)]
pub struct Installation(Language);

impl Installation {
    /// The installation for a policy that will be in this folder. It fails if the program that would install is missing itself.
    pub fn new(language: Language, folder: &Path) -> Result<Self, ToolError> {
        let (name, install) = installer(language);
        Tool::find(folder, &[name], install)?;
        Ok(Self(language))
    }

    /// The commands, as a person would type them in the policy's folder.
    pub fn commands(self) -> Vec<String> {
        self.0.install_commands()
    }

    /// Runs the commands in the policy's folder, one after another. What they write goes to standard error, as they write it. `step` is called with each command before it runs.
    pub fn run(self, folder: &Path, step: &mut dyn FnMut(&str)) -> Result<(), ToolError> {
        for line in self.commands() {
            let mut words = line.split(' ');
            let program = program_in(folder, words.next().unwrap_or_default())?;
            step(&line);
            let mut command = Command::new(&program);
            command.args(words).current_dir(folder);
            let output = io::stderr().as_fd().try_clone_to_owned();
            let output = output.map_err(|cause| ToolError::Unstartable { program, cause })?;
            toolchain::show(command.stdout(Stdio::from(output)))?;
        }
        Ok(())
    }
}

/// A program of the folder itself, or one on the path.
fn program_in(folder: &Path, program: &str) -> Result<PathBuf, ToolError> {
    if program.contains('/') {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        return Ok(folder.join(program));
    }
    Tool::find(folder, &[program], "").map(Tool::into_path)
}

/// The program that installs, and where it comes from.
fn installer(language: Language) -> (&'static str, &'static str) {
    match language {
        Language::Rust => ("rustup", "install Rust from https://rustup.rs"),
        Language::JavaScript | Language::TypeScript => (
            "npm",
            "install Node.js 20 or later from https://nodejs.org, which contains it",
        ),
        Language::Python | Language::Go | Language::C => (
            "python3",
            "install Python 3.10 or later from https://www.python.org",
        ),
    }
}
