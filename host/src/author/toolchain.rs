//! The programs of a language's toolchain: found in the policy's own folder first, then where the shell finds them, and run there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much of what a tool wrote is told when it fails, in bytes: its end.
const TOLD: usize = 8 << 10;

/// A tool is missing, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Not found anywhere.
    #[error("`{name}` is not installed here; {install}")]
    Missing {
        /// The program.
        name: &'static str,
        /// What to type.
        install: String,
    },
    /// Found, and can't be started.
    #[error("can't start {}", program.display())]
    Unstartable {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// Ended with an error of its own.
    #[error("`{command}` failed:\n{said}")]
    Failed {
        /// As it was started.
        command: String,
        /// What it wrote.
        said: String,
    },
}

/// One program of a toolchain.
#[derive(Debug)]
pub(super) struct Tool(PathBuf);

impl Tool {
    /// The first of `names` that is in the folder's `node_modules` or `.venv`, in those of a folder around it, or on the path. `install` says what to type where there is none.
    pub(super) fn find(
        folder: &Path,
        names: &[&'static str],
        install: &str,
    ) -> Result<Self, ToolError> {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let own = absolute
            .ancestors()
            .flat_map(|at| [at.join("node_modules/.bin"), at.join(".venv/bin")]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places: Vec<_> = own.chain(std::env::split_paths(&path)).collect();
        let found = places
            .iter()
            .flat_map(|place| names.iter().map(move |name| place.join(name)))
            .find(|candidate| candidate.is_file());
        found.map(Self).ok_or_else(|| ToolError::Missing {
            name: names.first().copied().unwrap_or_default(),
            install: install.to_owned(),
        })
    }

    /// A command of this tool, to be run in `folder`.
    pub(super) fn command<A: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(&self.0);
        command.current_dir(folder).args(arguments);
        command
    }
}

/// Runs to the end. What the tool wrote on stdout.
pub(super) fn run(command: &mut Command) -> Result<Vec<u8>, ToolError> {
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|cause| ToolError::Unstartable {
            program: command.get_program().into(),
            cause,
        })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    let said = said.trim();
    let mut from = said.len().saturating_sub(TOLD);
    while !said.is_char_boundary(from) {
        from += 1;
    }
    Err(ToolError::Failed {
        command: shown(command),
        said: said.get(from..).unwrap_or_default().to_owned(),
    })
}

/// A command as a person would type it.
pub(super) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words: Vec<_> = std::iter::once(name)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_the_policy_s_own_folder_comes_before_all_others() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("policies/mine");
        let own = top.path().join("policies/.venv/bin");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("sh"), "").unwrap();
        let found = Tool::find(&folder, &["sh"], "").unwrap();
        assert_eq!(found.0, own.join("sh"));
        let elsewhere = Tool::find(&folder, &["no-such-tool", "env"], "").unwrap();
        assert!(elsewhere.0.ends_with("env"));
        let missing = Tool::find(&folder, &["no-such-tool"], "type this").unwrap_err();
        assert_eq!(
            missing.to_string(),
            "`no-such-tool` is not installed here; type this"
        );
    }

    #[test]
    fn what_a_failing_tool_wrote_is_told() {
        let tool = Tool::find(Path::new("/"), &["sh"], "").unwrap();
        let mut command = tool.command(Path::new("/"), ["-c", "echo one; echo two >&2; exit 3"]);
        let failed = run(&mut command).unwrap_err().to_string();
        assert_eq!(
            failed,
            "`sh -c 'echo one; echo two >&2; exit 3'` failed:\none\ntwo"
        );
        let mut command = tool.command(Path::new("/"), ["-c", "echo one"]);
        assert_eq!(run(&mut command).unwrap(), b"one\n");
    }
}
