//! Runs a command for each message: the body on its standard input, the message's other properties in its environment. Exit 0 is success.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join3;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::variables::{NAMES, Room, variables};
use super::{Handler, error_payload};
use backstop_core::failure::{Error, MESSAGE_BYTES};
use backstop_core::network;
use backstop_core::text::tail;
use backstop_queue::Message;

/// How many bytes at the end of a command's output are kept.
const OUTPUT_BYTES: usize = 64 << 10;

/// The code of a command that cannot be started.
const CANNOT_START: &str = "can't start";

/// How long the output is still read after the command has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The environment variable with the token of the admin interface. No command gets it.
pub const TOKEN_VARIABLE: &str = "BACKSTOP_ADMIN_TOKEN";

/// The environment variable that identifies the host which started a command.
pub const HOST: &str = "BACKSTOP_HOST";

/// The mark of this process; unique for each process. Whatever its commands start inherits it, unless they clear their environment.
pub fn host_mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| uuid::Uuid::new_v4().to_string())
}

/// Runs a command for each message.
#[derive(Debug)]
pub struct Exec {
    program: String,
    arguments: Vec<String>,
}

impl Exec {
    /// A handler that runs `program`, a path or a name to look up on the `PATH`.
    pub fn new(program: impl Into<String>, arguments: impl IntoIterator<Item = String>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().collect(),
        }
    }

    /// Starts the command. If there is no room for the message's attributes, it does without.
    fn start(&self, message: &Message) -> io::Result<Child> {
        self.spawn(message, Room::Usual).or_else(|error| {
            if error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) {
                self.spawn(message, Room::Little)
            } else {
                Err(error)
            }
        })
    }

    fn spawn(&self, message: &Message, room: Room) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env(HOST, host_mark())
            // Whatever a command does with its environment, the host's secret is not in it.
            .env_remove(TOKEN_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The command has its own process group, so that everything it starts ends with it.
            .process_group(0)
            .kill_on_drop(true);
        for name in NAMES {
            command.env_remove(name);
        }
        command.envs(variables(message, room)).spawn()
    }
}

#[async_trait]
impl Handler for Exec {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        let mut child = self
            .start(message)
            .map_err(|error| start_error(&self.program, &error))?;
        let group = Group::of(&child);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let body = message.body.clone();
        let write = async move {
            if let Some(mut stdin) = stdin {
                // A command may ignore its input.
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
                    // A process that left the group may keep the output open forever.
                    let _ = timeout(OUTPUT_TIMEOUT, streams).await;
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

    /// A signal that stops programs ended it, or it exited as shells and the JVM do then.
    fn has_ended(&self, error: &Error) -> bool {
        let codes = [
            "signal 1",
            "signal 2",
            "signal 15",
            "exit 129",
            "exit 130",
            "exit 143",
        ];
        codes.contains(&error.code.as_str())
    }

    /// The program exists and is executable.
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
        Err(Error::unavailable(
            CANNOT_START,
            format!(
                "`{}` is not a program on the PATH or a path to one",
                self.program
            ),
        ))
    }

    /// The program is still there.
    async fn is_reachable(&self) -> Result<(), Error> {
        self.check().await
    }
}

/// The error of a command that did not start: it cannot have seen the message. The message is not to blame, since what it adds to the environment is small and has no zero byte.
fn start_error(program: &str, error: &io::Error) -> Error {
    Error::unavailable(
        network::lack(error).unwrap_or(CANNOT_START),
        format!("{program}: {error}"),
    )
}

fn is_executable(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The command's process group, killed when dropped. Whatever the command started ends with it, even if the attempt is cancelled.
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

/// Reads to the end and keeps the last [`OUTPUT_BYTES`].
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

/// `EX_DATAERR` of sysexits.h: the input is wrong, whatever else the command says.
const EX_DATAERR: i32 = 65;

/// `EX_TEMPFAIL` of sysexits.h.
const EX_TEMPFAIL: i32 = 75;

/// The error in the last line of the output, if it has Lambda's format; otherwise the exit code or signal with the end of stderr. The code of an error of boto3 or the AWS CLI that ends stderr precedes exit codes that say nothing.
fn failure(status: ExitStatus, stdout: &str, stderr: &str) -> Error {
    let last_line = stdout.trim_end().lines().next_back().unwrap_or_default();
    let ended = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "exit unknown".to_owned(),
    };
    let is_wrong_input = status.code() == Some(EX_DATAERR);
    if let Some(error) = error_payload::error(last_line) {
        return if is_wrong_input {
            error.made_permanent(&ended)
        } else {
            error
        };
    }
    let says_more = is_wrong_input || status.code() == Some(EX_TEMPFAIL) || status.code().is_none();
    let of_service = Error::code_of_output(stderr).filter(|_| !says_more);
    let code = of_service.unwrap_or(ended);
    Error::new(code, tail(stderr.trim_end(), MESSAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use backstop_core::decision::ErrorClass;
    use backstop_core::fallback::class_of;

    use super::*;

    #[test]
    fn a_command_that_does_not_start_has_not_seen_the_message() {
        for (errno, code) in [
            (Errno::MFILE, "EMFILE"),
            (Errno::NFILE, "ENFILE"),
            (Errno::AGAIN, "EAGAIN"),
            (Errno::NOMEM, "ENOMEM"),
            (Errno::TXTBSY, "ETXTBSY"),
            (Errno::NOENT, CANNOT_START),
            (Errno::ACCESS, CANNOT_START),
            (Errno::NOEXEC, CANNOT_START),
            (Errno::TOOBIG, CANNOT_START),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            let found = start_error("work", &error);
            assert_eq!(
                (found.code.as_str(), found.unavailable),
                (code, true),
                "{error}"
            );
        }
    }

    /// What the arguments leave of the system's limit is too little for the attributes.
    #[tokio::test]
    async fn a_command_runs_without_attributes_if_the_environment_would_be_too_large() {
        const ROOM: usize = 40_000;
        let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
        let limit = stack.map_or(u64::MAX, |stack| (stack / 4).max(128 << 10));
        let limit = usize::try_from(limit.min(6 << 20)).unwrap();
        let pointer = size_of::<usize>() + 1;
        let inherited: usize = std::env::vars_os()
            .map(|(name, value)| name.len() + value.len() + 1 + pointer)
            .sum();
        let filler = "x".repeat(10_000);
        let fillers = (limit - inherited - ROOM) / (filler.len() + pointer);
        let script = r#"cat > /dev/null
            test "$BACKSTOP_ATTRIBUTES" = '{}' && test "$BACKSTOP_OMITTED" = '["blob"]'"#;
        let words = ["-c".to_owned(), script.to_owned()];
        let words = words
            .into_iter()
            .chain(std::iter::repeat_n(filler, fillers));
        let command = Exec::new("sh", words);
        let mut message = backstop_queue::ordinary_message();
        let blob = backstop_queue::Attribute::string("x".repeat(60_000));
        message.attributes = [("blob".to_owned(), blob)].into();
        let usual = command.spawn(&message, Room::Usual).unwrap_err();
        assert_eq!(usual.raw_os_error(), Some(Errno::TOOBIG.raw_os_error()));
        assert_eq!(command.handle(&message).await, Ok(()));
    }

    #[test]
    fn a_failed_command_is_described_by_its_exit_code_and_the_end_of_stderr() {
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
    fn exit_65_is_permanent_whatever_the_last_line_says() {
        let line =
            |name: &str| format!("{{\"errorType\": \"{name}\", \"errorMessage\": \"why\"}}\n");
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let class = |error: &Error| class_of(&error.code, error.status);
        for (name, code, message) in [
            ("BadOrder", "BadOrder", "why"),
            ("ThrottlingException", "exit 65", "ThrottlingException: why"),
            (
                "com.example.TimeoutError",
                "exit 65",
                "com.example.TimeoutError: why",
            ),
        ] {
            let error = failure(exit(65), &line(name), "noise");
            assert_eq!(
                (error.code.as_str(), error.message.as_str()),
                (code, message)
            );
            assert_eq!(class(&error), ErrorClass::Permanent, "{name}");
            let other = failure(exit(1), &line(name), "noise");
            assert_eq!(other, Error::new(name, "why"));
        }
        assert_eq!(class(&failure(exit(65), "", "")), ErrorClass::Permanent);
    }

    #[test]
    fn an_error_of_boto3_or_the_aws_cli_at_the_end_of_stderr_gives_the_code() {
        let text =
            "An error occurred (ThrottlingException) when calling the PutItem operation: slow";
        let traceback = format!("Traceback\n  x\nbotocore.exceptions.ClientError: {text}\n\n");
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        for (status, stderr, code) in [
            (exit(1), traceback.as_str(), "ThrottlingException"),
            (exit(254), text, "ThrottlingException"),
            (
                exit(1),
                "An error occurred (A) when calling the B operation: x\ngave up",
                "exit 1",
            ),
            // These say more.
            (exit(65), text, "exit 65"),
            (exit(75), text, "exit 75"),
            (ExitStatus::from_raw(9), text, "signal 9"),
        ] {
            let error = failure(status, "working", stderr);
            assert_eq!(error, Error::new(code, stderr.trim_end()));
        }
    }

    #[test]
    fn a_last_line_in_lambdas_format_is_the_error() {
        let output = "working\n{\"errorType\": \"OutOfStock\", \"errorMessage\": \"none left\"}\n";
        assert_eq!(
            failure(ExitStatus::from_raw(1 << 8), output, "noise"),
            Error::new("OutOfStock", "none left")
        );
    }
}
