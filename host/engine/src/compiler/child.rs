//! The child process: it limits itself, reads a policy's file from standard input, compiles it, and writes the code or the reason to standard output.

use std::env;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, getppid, getrlimit, setrlimit};

use super::answer::{self, ARGUMENT, Answer, Request};
use super::job::compile;
use super::process::MEMORY_OF_A_THREAD;
use super::rights;

/// Whether this program understands the arguments of a child that compiles.
static IS_OWN_COMPILER: AtomicBool = AtomicBool::new(false);

pub(super) fn is_own_compiler() -> bool {
    IS_OWN_COMPILER.load(Ordering::Relaxed)
}

/// Lets this program compile policies in child processes of itself, within [`CompileLimits`](crate::CompileLimits). Call it first in `main`:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     backstop_engine::compiler_process().unwrap_or_else(|| {
///         // What the program does.
///         ExitCode::SUCCESS
///     })
/// }
/// ```
///
/// In such a child it compiles, and returns the exit code. In any other process it returns `None`, and every [`Sandbox`](crate::Sandbox) created afterwards compiles policies in child processes.
pub fn compiler_process() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        IS_OWN_COMPILER.store(true, Ordering::Relaxed);
        return None;
    }
    let request = arguments
        .next()
        .and_then(|request| serde_json::from_str(request.to_str()?).ok())
        .ok_or_else(|| io::Error::other("no request to compile anything"));
    let outcome = match request.and_then(|request| Ok((file(&request)?, request))) {
        Ok((file, request)) => code(&file, &request),
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Err(Answer::OutOfMemory),
        Err(error) => Err(Answer::Unable(error.to_string())),
    };
    Some(match answer::write(io::stdout().lock(), &outcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    })
}

/// The file, once this process has confined itself.
fn file(request: &Request) -> io::Result<Vec<u8>> {
    confine(request)?;
    start_threads(request)?;
    let mut file = Vec::new();
    io::stdin().read_to_end(&mut file)?;
    Ok(file)
}

fn code(file: &[u8], request: &Request) -> Result<Vec<u8>, Answer> {
    compile(file, request.most, request.target.as_deref()).map_err(|refused| {
        let why = refused.to_string();
        // The error of mmap(2). A failed `malloc` aborts the process instead.
        if why.contains("os error 12") {
            Answer::OutOfMemory
        } else {
            Answer::Refused(why)
        }
    })
}

/// Starts the compiler's threads. Their stacks count as memory: a large file would leave none for them, and that would look like a fault of the machine.
fn start_threads(request: &Request) -> io::Result<()> {
    let started = rayon::ThreadPoolBuilder::new().build_global();
    started.map_err(|error| {
        if request.memory < MEMORY_OF_A_THREAD {
            io::ErrorKind::OutOfMemory.into()
        } else {
            io::Error::other(error)
        }
    })
}

/// Drops all rights that compiling does not need, before anything of the file is read.
fn confine(request: &Request) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let parent = getppid().and_then(|id| u32::try_from(id.as_raw_nonzero().get()).ok());
    if parent != Some(request.parent) {
        return Err(io::Error::other("the parent of this process has exited"));
    }
    rights::drop_all();
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Cpu, request.cpu),
        (Resource::Data, request.memory),
        (Resource::As, request.address_space),
    ] {
        // Not above this user's own limit.
        let allowed = getrlimit(resource).maximum;
        let at_most = |most: u64| Some(allowed.map_or(most, |allowed| allowed.min(most)));
        // At the limit of processor time, the kernel sends SIGXCPU, which identifies the cause, and SIGKILL a second later.
        let limit = Rlimit {
            current: at_most(most),
            maximum: at_most(most.saturating_add(u64::from(resource == Resource::Cpu))),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}
