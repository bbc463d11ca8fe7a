//! Finds and runs the programs of a toolchain: those in the policy's folder first, then those on the `PATH`.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use backstop_backoff::format_duration;
use backstop_core::lock::lock;
use rustix::process::{Pid, Signal, kill_process_group};

use backstop_core::clock;
use backstop_core::text::tail;

/// The end of a failing tool's output that is shown, in bytes.
const MAX_OUTPUT: usize = 8 << 10;

/// Why a tool did not run, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not installed.
    #[error("`{name}` is not installed here; {install}")]
    Missing {
        /// The program.
        name: String,
        /// How to install it.
        install: String,
    },
    /// It can't be started.
    #[error("can't start {}", program.display())]
    Unstartable {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// It exited with an error.
    #[error("`{command}` failed:\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// What it wrote.
        output: String,
    },
    /// It exited with an error, after what it wrote was shown.
    #[error("`{command}` failed ({status}): see above for what it says")]
    Shown {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It exceeded the time limit and was killed.
    #[error(
        "`{command}` was killed: the build took longer than {}, the `build-timeout` of policy.toml",
        format_duration(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
    )]
    Late {
        /// The command line.
        command: String,
        /// The time limit of the whole build.
        limit: Duration,
    },
}

/// One program of a toolchain.
#[derive(Debug)]
pub(crate) struct Tool(PathBuf);

impl Tool {
    /// Finds the first of `names` in the `node_modules` or `.venv` of the folder or of a parent folder, or on the `PATH`. `install` is the hint if there is none.
    pub(crate) fn find(folder: &Path, names: &[&str], install: &str) -> Result<Self, ToolError> {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let own = absolute
            .ancestors()
            .flat_map(|at| [at.join("node_modules/.bin"), at.join(".venv/bin")]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = own.chain(std::env::split_paths(&path)).collect();
        let found = folders
            .iter()
            .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
            .find(|candidate| candidate.is_file());
        found.map(Self).ok_or_else(|| ToolError::Missing {
            name: names.first().copied().unwrap_or_default().to_owned(),
            install: install.to_owned(),
        })
    }

    /// Where the program is.
    pub(crate) fn into_path(self) -> PathBuf {
        self.0
    }

    /// A command of this tool, to be run in `folder`.
    pub(crate) fn command<A: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(&self.0);
        command.current_dir(folder).args(arguments);
        command
    }
}

/// Which output of a failing tool is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// Stdout and stderr.
    All,
    /// Only stderr: stdout is for programs.
    Stderr,
}

/// The time limit of a build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    started: std::time::Instant,
    limit: Duration,
}

impl TimeLimit {
    /// A limit that ends `limit` from now.
    pub(crate) fn from_now(limit: Duration) -> Self {
        Self {
            started: clock::instant(),
            limit,
        }
    }

    fn left(self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }
}

/// Runs a command until it ends, or until the time limit. Returns its stdout.
pub(crate) fn run(
    command: &mut Command,
    words: Words,
    time_limit: TimeLimit,
) -> Result<Vec<u8>, ToolError> {
    // A backtrace of the tool would push its message out of the shown output.
    command.env_remove("RUST_BACKTRACE");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, running) = start(command)?;
    let (ended, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = ended.send(child.wait_with_output());
    });
    let Ok(output) = wait.recv_timeout(time_limit.left()) else {
        running.end();
        return Err(ToolError::Late {
            command: shown(command),
            limit: time_limit.limit,
        });
    };
    drop(running);
    let output = output.map_err(|cause| unstartable(command, cause))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let mut text = match words {
        Words::All => String::from_utf8_lossy(&output.stdout).into_owned(),
        Words::Stderr => String::new(),
    };
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ToolError::Failed {
        command: shown(command),
        output: tail(text.trim(), MAX_OUTPUT).to_owned(),
    })
}

/// Runs a command until it ends, however long it takes, with the output that it has been given.
pub(crate) fn show(command: &mut Command) -> Result<(), ToolError> {
    let (mut child, running) = start(command)?;
    let status = child.wait();
    let status = status.map_err(|cause| unstartable(command, cause))?;
    drop(running);
    if status.success() {
        return Ok(());
    }
    Err(ToolError::Shown {
        command: shown(command),
        status,
    })
}

/// Starts a command without input, in its own process group, so that its children can be killed with it.
fn start(command: &mut Command) -> Result<(Child, Running), ToolError> {
    let started = command.stdin(Stdio::null()).process_group(0).spawn();
    let child = started.map_err(|cause| unstartable(command, cause))?;
    let running = Running::is(&child);
    Ok((child, running))
}

fn unstartable(command: &Command, cause: std::io::Error) -> ToolError {
    let program = PathBuf::from(command.get_program());
    ToolError::Unstartable { program, cause }
}

/// The process groups of the running tools.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// The process group of a running tool, until dropped.
struct Running(Option<Pid>);

impl Running {
    fn is(child: &Child) -> Self {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        lock(&GROUPS).extend(group);
        Self(group)
    }

    /// Kills the tool and its children.
    fn end(&self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&GROUPS).retain(|group| Some(*group) != self.0);
    }
}

/// Kills all running tools and their children. A signal from the terminal does not reach them.
pub fn end_tools() {
    for group in lock(&GROUPS).drain(..) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
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
    fn the_output_of_a_failing_tool_is_in_the_error() {
        let tool = Tool::find(Path::new("/"), &["sh"], "").unwrap();
        let time_limit = TimeLimit::from_now(Duration::from_secs(60));
        let mut command = tool.command(Path::new("/"), ["-c", "echo one; echo two >&2; exit 3"]);
        let failed = |words| run(&mut command, words, time_limit);
        let [all, stderr] = [Words::All, Words::Stderr].map(failed);
        let shown = "`sh -c 'echo one; echo two >&2; exit 3'` failed:";
        assert_eq!(all.unwrap_err().to_string(), format!("{shown}\none\ntwo"));
        assert_eq!(stderr.unwrap_err().to_string(), format!("{shown}\ntwo"));
        let mut command = tool.command(Path::new("/"), ["-c", "echo one"]);
        assert_eq!(run(&mut command, Words::All, time_limit).unwrap(), b"one\n");
    }

    #[test]
    fn a_tool_that_exceeds_the_time_limit_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let tool = Tool::find(folder.path(), &["sh"], "").unwrap();
        let script = "sleep 1000 & echo $! > started; wait";
        let mut command = tool.command(folder.path(), ["-c", script]);
        // Long enough to start two processes on a busy machine.
        let time_limit = TimeLimit::from_now(Duration::from_secs(2));
        let late = run(&mut command, Words::All, time_limit).unwrap_err();
        let expected = format!(
            "`sh -c '{script}'` was killed: the build took longer than 2s, the `build-timeout` of policy.toml"
        );
        assert_eq!(late.to_string(), expected);
        let started = std::fs::read_to_string(folder.path().join("started")).unwrap();
        let started = Pid::from_raw(started.trim().parse().unwrap()).unwrap();
        // Its new parent may take a moment to reap it.
        let is_gone = || {
            let status = std::fs::read_to_string(format!("/proc/{started}/status"));
            status.map_or(true, |status| status.contains("State:\tZ"))
        };
        while !is_gone() {
            std::thread::yield_now();
        }
    }
}
