//! Standard output. After a failed write, the command continues its work but prints nothing more, and fails at its end. A closed pipe is not an error.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

/// The first write that failed.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Not everything that was printed has been written.
#[derive(Debug, thiserror::Error)]
#[error("can't write to standard output")]
pub(crate) struct OutputError(#[source] &'static io::Error);

/// Prints to standard output, as `std::print` does.
macro_rules! print {
    ($($text:tt)*) => {
        $crate::output::write(format_args!($($text)*))
    };
}

/// Prints a line to standard output, as `std::println` does.
macro_rules! println {
    () => {
        $crate::output::write(format_args!("\n"))
    };
    ($($text:tt)*) => {
        $crate::output::write(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Prints to standard error, as `std::eprint` does, and ignores failures.
macro_rules! eprint {
    ($($text:tt)*) => {
        $crate::output::write_stderr(format_args!($($text)*))
    };
}

/// Prints a line to standard error, as `std::eprintln` does, and ignores failures.
macro_rules! eprintln {
    ($($text:tt)*) => {
        $crate::output::write_stderr(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(super) use {eprint, eprintln, print, println};

/// Standard output as a writer that never fails: see [`finish`].
pub(super) struct Output;

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        attempt(|| anstream::stdout().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        attempt(|| io::stdout().flush());
        Ok(())
    }
}

pub(super) fn write(text: fmt::Arguments<'_>) {
    attempt(|| anstream::stdout().write_fmt(text));
}

/// Writes bytes as they are. [`Output`] and the macros remove escape sequences unless standard output is a terminal.
pub(super) fn write_bytes(bytes: &[u8]) {
    attempt(|| {
        io::stdout()
            .write_all(bytes)
            .and_then(|()| io::stdout().flush())
    });
}

pub(super) fn write_stderr(text: fmt::Arguments<'_>) {
    let _ = anstream::stderr().write_fmt(text);
}

/// Whether a write has failed, so that nothing more is printed.
pub(super) fn has_failed() -> bool {
    FAILURE.get().is_some()
}

/// The error of the first failed write, unless the pipe was closed.
///
/// This does not flush: complete lines have been written already, and flushing would wait for the lock on standard output, which the decision records of `backstop run` hold while their reader is stopped.
pub(super) fn finish() -> Result<(), OutputError> {
    match FAILURE.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(OutputError(error)),
        Some(_) | None => Ok(()),
    }
}

fn attempt(write: impl FnOnce() -> io::Result<()>) {
    if !has_failed()
        && let Err(error) = write()
    {
        let _ = FAILURE.set(error);
    }
}
