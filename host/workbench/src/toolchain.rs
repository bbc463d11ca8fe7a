//! The programs of a language's toolchain: found in the policy's own folder first, then where the shell finds them, and run there.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use backstop_backoff::format_duration;
use rustix::process::{Pid, Signal, kill_process_group};

use backstop_core::clock;
use backstop_core::text::tail;

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
    /// Did not end in time, and was ended.
    #[error(
        "`{command}` was ended: the build took longer than {}, the `build-timeout` of policy.toml",
        format_duration(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
    )]
    Late {
        /// As it was started.
        command: String,
        /// How long the whole build may take.
        limit: Duration,
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

/// Which of a failing tool's words are for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// All of them.
    All,
    /// Those on stderr: on stdout it talks to programs.
    Stderr,
}

/// How long a build may take, and when it is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    started: std::time::Instant,
    limit: Duration,
}

impl Deadline {
    /// So long from now.
    pub(super) fn within(limit: Duration) -> Self {
        Self {
            started: clock::instant(),
            limit,
        }
    }

    fn left(self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }
}

/// Runs to the end, or to the deadline. What the tool wrote on stdout.
pub(super) fn run(
    command: &mut Command,
    words: Words,
    deadline: Deadline,
) -> Result<Vec<u8>, ToolError> {
    // A backtrace of the tool's own would be all that is left of what it says.
    command.env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that what it starts ends with it.
    command.process_group(0);
    let program = PathBuf::from(command.get_program());
    let unstartable = |cause| ToolError::Unstartable { program, cause };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(cause) => return Err(unstartable(cause)),
    };
    let running = Running::is(&child);
    let (ended, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = ended.send(child.wait_with_output());
    });
    let Ok(output) = wait.recv_timeout(deadline.left()) else {
        running.end();
        return Err(ToolError::Late {
            command: shown(command),
            limit: deadline.limit,
        });
    };
    drop(running);
    let output = output.map_err(unstartable)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let mut said = match words {
        Words::All => String::from_utf8_lossy(&output.stdout).into_owned(),
        Words::Stderr => String::new(),
    };
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ToolError::Failed {
        command: shown(command),
        said: tail(said.trim(), TOLD).to_owned(),
    })
}

/// The process groups of the tools that run now.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process group of a tool that runs, until dropped.
struct Running(Option<Pid>);

impl Running {
    fn is(child: &Child) -> Self {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        groups().extend(group);
        Self(group)
    }

    /// Ends the tool and what it has started.
    fn end(&self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        groups().retain(|group| Some(*group) != self.0);
    }
}

/// Ends every tool that a build runs now, and what it has started: a signal that a terminal sends does not reach them.
pub fn end_tools() {
    for group in groups().drain(..) {
        let _ = kill_process_group(group, Signal::KILL);
    }
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
        let deadline = Deadline::within(Duration::from_secs(60));
        let mut command = tool.command(Path::new("/"), ["-c", "echo one; echo two >&2; exit 3"]);
        let told = |words| run(&mut command, words, deadline);
        let [all, stderr] = [Words::All, Words::Stderr].map(told);
        let shown = "`sh -c 'echo one; echo two >&2; exit 3'` failed:";
        assert_eq!(all.unwrap_err().to_string(), format!("{shown}\none\ntwo"));
        assert_eq!(stderr.unwrap_err().to_string(), format!("{shown}\ntwo"));
        let mut command = tool.command(Path::new("/"), ["-c", "echo one"]);
        assert_eq!(run(&mut command, Words::All, deadline).unwrap(), b"one\n");
    }

    #[test]
    fn a_tool_that_does_not_end_in_time_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let tool = Tool::find(folder.path(), &["sh"], "").unwrap();
        let script = "sleep 1000 & echo $! > started; wait";
        let mut command = tool.command(folder.path(), ["-c", script]);
        // Long enough to start two processes on a busy machine.
        let deadline = Deadline::within(Duration::from_secs(2));
        let late = run(&mut command, Words::All, deadline).unwrap_err();
        let expected = format!(
            "`sh -c '{script}'` was ended: the build took longer than 2s, the `build-timeout` of policy.toml"
        );
        assert_eq!(late.to_string(), expected);
        let started = std::fs::read_to_string(folder.path().join("started")).unwrap();
        let started = Pid::from_raw(started.trim().parse().unwrap()).unwrap();
        // Whoever inherits it may take a moment to bury it.
        let is_gone = || {
            let status = std::fs::read_to_string(format!("/proc/{started}/status"));
            status.map_or(true, |status| status.contains("State:\tZ"))
        };
        while !is_gone() {
            std::thread::yield_now();
        }
    }
}
