//! The host's side of a child process that compiles: starts it, sends the file, enforces the limits, reads the answer, and explains its exit.

use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::answer::{self, ARGUMENT, Answer, Request};
use super::job::{Job, Wanted};
use crate::component_error::{CompilerError, ComponentError};
use crate::limits::CompileLimits;
use backstop_core::clock;
use backstop_core::text;

/// How often the host checks whether the code is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// After this time, a long compilation is logged.
const SLOW: Duration = Duration::from_secs(10);

/// The number of bytes that are kept of the end of a child's standard error.
const STDERR_BYTES: usize = 4 << 10;

/// The largest machine code, in bytes. The code of a policy in Python has a third of this.
pub(crate) const MOST_CODE: u64 = 512 << 20;

/// The memory that each thread of a child may need. There are no more threads than the limit allows for.
pub(super) const MEMORY_OF_A_THREAD: u64 = 128 << 20;

/// The maximum number of threads. More do not compile one file faster.
const MOST_THREADS: usize = 8;

/// Address space that is reserved but not used: for the program itself, and for each thread's stack and its part of the allocator.
const RESERVED: u64 = 512 << 20;
const RESERVED_OF_A_THREAD: u64 = 256 << 20;

/// For a program whose allocator is mimalloc, as the `backstop` command: its child would map a gibibyte as writable before it confines itself. The kernel would not limit that, and refuse everything after it.
const MIMALLOC: [(&str, &str); 2] = [
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
    // In KiB.
    ("MIMALLOC_ARENA_RESERVE", "65536"),
];

/// The machine code of a file, compiled by a child process of `program`.
pub(super) fn code(
    program: &Path,
    job: &Job<'_>,
    wanted: Wanted<'_>,
) -> Result<Vec<u8>, ComponentError> {
    let mut running = Running(start(program, job).map_err(CompilerError::Process)?);
    let Exchange { answer, stderr } = exchange(&mut running.0, job, wanted)?;
    match answer::read(answer) {
        Some(Ok(code)) => Ok(code),
        Some(Err(Answer::Refused(why))) => Err(ComponentError::Refused(why)),
        Some(Err(Answer::Unable(why))) => Err(CompilerError::Process(io::Error::other(why)).into()),
        Some(Err(Answer::OutOfMemory | Answer::Code(_))) => {
            Err(CompilerError::Memory(job.limits.memory).into())
        }
        None => {
            let status = running.0.wait().map_err(CompilerError::Process)?;
            Err(ending(status, &stderr, &job.limits).into())
        }
    }
}

/// A child process, which is killed and waited for when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Neither affects a child that has exited and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, job: &Job<'_>) -> io::Result<Child> {
    let limits = &job.limits;
    let memory = u64::try_from(limits.memory).unwrap_or(u64::MAX);
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = processors
        .min(usize::try_from(memory / MEMORY_OF_A_THREAD).unwrap_or(MOST_THREADS))
        .clamp(1, MOST_THREADS);
    let reserved = RESERVED + RESERVED_OF_A_THREAD * threads as u64;
    let request = Request {
        parent: std::process::id(),
        most: job.most,
        memory,
        address_space: memory.saturating_add(reserved),
        cpu: seconds(limits.cpu),
        target: job.target.map(str::to_owned),
    };
    Command::new(program)
        .arg0("backstop-compiler")
        .arg(ARGUMENT)
        .arg(serde_json::to_string(&request)?)
        .env_clear()
        .env("RAYON_NUM_THREADS", threads.to_string())
        .envs(MIMALLOC)
        // A process group of its own: the host handles Ctrl-C.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// The kernel counts processor time in whole seconds.
fn seconds(cpu: Duration) -> u64 {
    (cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0)).max(1)
}

/// Texts on standard error that mean that memory ran out: of the allocator before it aborts, of a failed read, and of another failed call of the system.
const OUT_OF_MEMORY: [&str; 3] = ["memory allocation of", "out of memory", "code: 12,"];

/// The exit code of a program whose shared libraries are not found.
const NOT_LOADED: i32 = 127;

/// The output of a child.
struct Exchange {
    answer: Vec<u8>,
    /// The end of its standard error.
    stderr: String,
}

/// Sends the file to a child and reads its answer, complete or not. Each of its three pipes has a thread, so that none can block the others or delay the time limit.
fn exchange(
    child: &mut Child,
    job: &Job<'_>,
    wanted: Wanted<'_>,
) -> Result<Exchange, CompilerError> {
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(CompilerError::Process(io::Error::other("no pipes to it")));
    };
    thread::scope(|scope| {
        let (done, answers) = sync_channel(1);
        let spawned = || {
            let thread = |name: &str| thread::Builder::new().name(name.to_owned());
            thread("compile-in").spawn_scoped(scope, move || {
                // If the child has exited, its status says why.
                let _ = stdin.write_all(job.file);
            })?;
            thread("compile-out").spawn_scoped(scope, move || {
                let mut answer = Vec::new();
                let read = stdout.take(MOST_CODE + 1).read_to_end(&mut answer);
                let _ = done.send(read.map(|_| answer));
            })?;
            thread("compile-err").spawn_scoped(scope, move || end_of(stderr))
        };
        let ended = spawned()
            .map_err(CompilerError::Process)
            .and_then(|stderr| Ok((wait(&answers, &job.limits, wanted)?, stderr)));
        if ended.is_err() {
            // This closes its pipes, which ends the threads.
            let _ = child.kill();
        }
        let (answer, stderr) = ended?;
        Ok(Exchange {
            answer,
            stderr: stderr.join().unwrap_or_default(),
        })
    })
}

/// The answer, once the child has closed its standard output.
fn wait(
    answers: &Receiver<io::Result<Vec<u8>>>,
    limits: &CompileLimits,
    wanted: Wanted<'_>,
) -> Result<Vec<u8>, CompilerError> {
    let started = clock::instant();
    let mut is_logged = false;
    loop {
        let left = limits.time.saturating_sub(started.elapsed());
        match answers.recv_timeout(left.min(CHECK_INTERVAL)) {
            Ok(Ok(answer)) if answer.len() as u64 > MOST_CODE => {
                return Err(CompilerError::Code(MOST_CODE));
            }
            Ok(answer) => return answer.map_err(CompilerError::Process),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(CompilerError::Process(io::Error::other(
                    "the thread that reads its answer has ended",
                )));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if started.elapsed() >= limits.time {
            return Err(CompilerError::Time(limits.time));
        }
        if !wanted() {
            return Err(CompilerError::Unwanted);
        }
        if started.elapsed() >= SLOW && !std::mem::replace(&mut is_logged, true) {
            tracing::info!(at_most = ?limits.time, "compiling a policy takes long");
        }
    }
}

/// The last bytes of a stream of any length.
fn end_of(mut from: impl Read) -> String {
    let mut end = Vec::new();
    let mut buffer = [0; STDERR_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        end.extend_from_slice(buffer.get(..read).unwrap_or_default());
        end.drain(..end.len().saturating_sub(STDERR_BYTES));
    }
    String::from_utf8_lossy(&end).into_owned()
}

/// Why a child exited without an answer.
fn ending(status: ExitStatus, stderr: &str, limits: &CompileLimits) -> CompilerError {
    let signal = status.signal().unwrap_or_default();
    let is = |which: &[Signal]| which.iter().any(|it| it.as_raw() == signal);
    if is(&[Signal::XCPU]) {
        return CompilerError::Cpu(Duration::from_secs(seconds(limits.cpu)));
    }
    if is(&[
        Signal::KILL,
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
    ]) {
        return CompilerError::Killed(status.to_string());
    }
    if OUT_OF_MEMORY.iter().any(|it| stderr.contains(it)) {
        return CompilerError::Memory(limits.memory);
    }
    if status.code() == Some(NOT_LOADED) {
        let why = format!("{status}: {}", text::one_line(stderr.trim()));
        return CompilerError::Process(io::Error::other(why));
    }
    let mut lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    CompilerError::Crash(match lines.find(|line| !line.starts_with("note:")) {
        Some(_) => format!("{status}: {}", text::one_line(stderr.trim())),
        None => status.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_of_a_child_is_explained() {
        let limits = CompileLimits::default();
        let signal = |signal: Signal| ExitStatus::from_raw(signal.as_raw());
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        for (status, stderr, name) in [
            (
                signal(Signal::XCPU),
                "",
                "more than the 120s of processor time",
            ),
            (
                signal(Signal::ABORT),
                "memory allocation of 5 bytes failed",
                "more than the 2048 MiB",
            ),
            (exit(1), "out of memory", "`limits.compile.memory`"),
            (exit(127), "", "this machine can't load it now"),
            (
                signal(Signal::ABORT),
                "\nthread 'main' has overflowed its stack\nfatal runtime error\n",
                "crashes the compiler, whose process ended with signal: 6 (SIGABRT): thread 'main' has overflowed its stack\\nfatal",
            ),
            (signal(Signal::SEGV), "", "ended with signal: 11 (SIGSEGV)"),
            (
                exit(101),
                "panicked at src/lib.rs",
                "exit status: 101: panicked at src/lib.rs",
            ),
            (exit(0), "", "exit status: 0"),
            (
                signal(Signal::KILL),
                "",
                "killed from outside: signal: 9 (SIGKILL)",
            ),
            (signal(Signal::TERM), "", "killed from outside"),
        ] {
            let called = ending(status, stderr, &limits).to_string();
            assert!(called.contains(name), "{called}");
        }
    }

    #[test]
    fn processor_time_is_counted_in_whole_seconds() {
        for (span, counted) in [(1, 1), (999, 1), (1_000, 1), (1_001, 2), (120_000, 120)] {
            assert_eq!(seconds(Duration::from_millis(span)), counted);
        }
    }

    #[test]
    fn only_the_end_of_a_child_s_output_is_kept() {
        let stderr = format!("{}the end", "x".repeat(3 * STDERR_BYTES));
        let kept = end_of(stderr.as_bytes());
        assert!(kept.len() == STDERR_BYTES && kept.ends_with("the end"));
    }

    #[test]
    fn a_program_that_does_not_answer_is_rejected_and_killed() {
        let job = Job {
            file: &[0; 1 << 20],
            most: usize::MAX,
            limits: CompileLimits::default(),
            target: None,
        };
        let refused = code(Path::new("/bin/true"), &job, &|| true).unwrap_err();
        assert!(refused.to_string().contains("exit status: 0"), "{refused}");
        let refused = code(Path::new("/no/such/program"), &job, &|| true).unwrap_err();
        assert!(refused.to_string().contains("this machine"), "{refused}");
    }
}
