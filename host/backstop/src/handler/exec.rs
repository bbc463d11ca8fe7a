//! A command for each message: the body on its standard input, what there is to know of the message in its environment. Exit 0 is success.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join3;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::{Handler, error_payload};
use crate::failure::{Error, MESSAGE_BYTES};
use crate::queue::Message;
use crate::text::tail;

/// How much of the end of a command's output is kept.
const OUTPUT_BYTES: usize = 64 << 10;

/// For how long the output of a command that has ended is still read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long the next start waits after one for which this machine lacked something.
const START_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The variable of a command's environment that marks whose it is.
pub const HOST: &str = "BACKSTOP_HOST";

/// This process's mark: another for each process. All that its commands start bears it, too, unless they clear their environment.
pub fn host_mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| uuid::Uuid::new_v4().to_string())
}

/// Runs a command for each message.
#[derive(Debug)]
pub struct Exec {
    program: String,
    arguments: Vec<String>,
    /// The last start failed for want of something that this machine lacks.
    is_short: AtomicBool,
}

impl Exec {
    /// A handler that runs `program`, found on the `PATH` unless it is a path itself.
    pub fn new(program: impl Into<String>, arguments: impl IntoIterator<Item = String>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().collect(),
            is_short: AtomicBool::new(false),
        }
    }

    /// Starts the command. While this machine lacks what it takes, that is tried again and again: the message can't help it, so that is no failure of the attempt, which is only over with its time.
    async fn start(&self, message: &Message) -> Result<Child, Error> {
        loop {
            match self.spawn(message) {
                Ok(child) => {
                    if self.is_short.swap(false, Ordering::Relaxed) {
                        tracing::info!(program = self.program, "the command can be started again");
                    }
                    return Ok(child);
                }
                Err(error) if is_of_machine(&error) => {
                    if !self.is_short.swap(true, Ordering::Relaxed) {
                        tracing::warn!(program = self.program, %error, "this machine can't start the command now: tried again every second, with no attempt counted");
                    }
                    sleep(START_RETRY_DELAY).await;
                }
                Err(error) => {
                    let reason = format!("{}: {error}", self.program);
                    return Err(Error::new("can't start", reason));
                }
            }
        }
    }

    fn spawn(&self, message: &Message) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env(HOST, host_mark())
            .env("BACKSTOP_MESSAGE_ID", &message.id)
            .env("BACKSTOP_ATTEMPT", message.receive_count.to_string())
            .env("BACKSTOP_SENT", message.sent.0.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that what the command starts ends with it.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(group) = &message.group {
            command.env("BACKSTOP_MESSAGE_GROUP", group);
        }
        if let Some(trace) = &message.trace_header {
            command.env("_X_AMZN_TRACE_ID", trace);
        }
        command.spawn()
    }
}

#[async_trait]
impl Handler for Exec {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        let mut child = self.start(message).await?;
        let group = Group::of(&child);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let body = message.body.clone();
        let write = async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input is no failure.
                let _ = stdin.write_all(body.as_bytes()).await;
            }
        };
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let status = {
            let streams = join3(
                write,
                end_of(stdout, &mut output),
                end_of(stderr, &mut errors),
            );
            let ended = async move {
                let status = child.wait().await;
                drop(group);
                status
            };
            tokio::pin!(streams, ended);
            tokio::select! {
                status = &mut ended => {
                    // Something that left its group may hold the output open for ever.
                    let _ = timeout(LAST_WORDS, streams).await;
                    status
                }
                _ = &mut streams => ended.await,
            }
        };
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output),
            String::from_utf8_lossy(&errors),
        );
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failure(status, &stdout, &stderr)),
            Err(error) => Err(Error::new(
                "can't wait",
                format!("{}: {error}", self.program),
            )),
        }
    }

    /// The program is there and may be run.
    async fn check(&self) -> Result<(), Error> {
        let found = if self.program.contains('/') {
            is_executable(self.program.as_ref())
        } else {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| is_executable(&folder.join(&self.program)))
        };
        if found {
            return Ok(());
        }
        Err(Error::new(
            "can't start",
            format!(
                "`{}` is not a program on the PATH or a path to one",
                self.program
            ),
        ))
    }
}

/// Whether a command did not start for a reason of this machine's that will pass: no file descriptors, processes or memory left, or the program is being written.
fn is_of_machine(error: &io::Error) -> bool {
    [
        Errno::MFILE,
        Errno::NFILE,
        Errno::AGAIN,
        Errno::NOMEM,
        Errno::TXTBSY,
    ]
    .iter()
    .any(|lacking| error.raw_os_error() == Some(lacking.raw_os_error()))
}

fn is_executable(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The command's process group, ended when dropped: what the command starts ends with it, and both end when the attempt is cut short.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads to the end and keeps the last part.
async fn end_of(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0; 8 << 10];
    while let Ok(read) = stream.read(&mut chunk).await
        && read > 0
    {
        kept.extend(chunk.iter().take(read));
        let surplus = kept.len().saturating_sub(OUTPUT_BYTES);
        kept.drain(..surplus);
    }
}

/// The last line of the output where it is an error of Lambda's shape; else the exit code or signal with the end of stderr.
fn failure(status: ExitStatus, stdout: &str, stderr: &str) -> Error {
    let last_line = stdout.trim_end().lines().next_back().unwrap_or_default();
    if let Some(error) = error_payload::error(last_line) {
        return error;
    }
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "exit unknown".to_owned(),
    };
    Error::new(code, tail(stderr.trim_end(), MESSAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_machine_lacks_for_a_while_is_no_failure_of_an_attempt() {
        for (errno, expected) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::AGAIN, true),
            (Errno::NOMEM, true),
            (Errno::TXTBSY, true),
            (Errno::NOENT, false),
            (Errno::ACCESS, false),
            (Errno::TOOBIG, false),
            (Errno::NOEXEC, false),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            assert_eq!(is_of_machine(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_failed_command_is_its_exit_code_and_the_end_of_its_errors() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!(
            failure(exit(3), "working\n", "first\nlast\n"),
            Error::new("exit 3", "first\nlast")
        );
        assert_eq!(
            failure(ExitStatus::from_raw(9), "", ""),
            Error::new("signal 9", "")
        );
        let long = "x".repeat(MESSAGE_BYTES) + "end";
        assert!(failure(exit(1), "", &long).message.ends_with("end"));
    }

    #[test]
    fn a_last_line_of_lambdas_shape_names_the_error() {
        let output = "working\n{\"errorType\": \"OutOfStock\", \"errorMessage\": \"none left\"}\n";
        assert_eq!(
            failure(ExitStatus::from_raw(1 << 8), output, "noise"),
            Error::new("OutOfStock", "none left")
        );
    }
}
