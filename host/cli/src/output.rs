//! Standard output. A write that fails stops no command in the middle of its work: the rest is not printed, and the command ends with an error. A reader that has gone is no error.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

/// The first write that failed.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Not all that was printed has been written.
#[derive(Debug, thiserror::Error)]
#[error("can't write to standard output")]
pub(super) struct OutputError(#[source] &'static io::Error);

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

/// Prints to standard error, as `std::eprint` does, or nothing where that fails.
macro_rules! eprint {
    ($($text:tt)*) => {
        $crate::output::write_aside(format_args!($($text)*))
    };
}

/// Prints a line to standard error, as `std::eprintln` does, or nothing where that fails.
macro_rules! eprintln {
    ($($text:tt)*) => {
        $crate::output::write_aside(format_args!("{}\n", format_args!($($text)*)))
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

pub(super) fn write_aside(text: fmt::Arguments<'_>) {
    let _ = anstream::stderr().write_fmt(text);
}

/// Whether nothing is printed any more, since a write has failed.
pub(super) fn has_failed() -> bool {
    FAILURE.get().is_some()
}

/// The error of the first write that failed, unless the reader had gone.
///
/// Whole lines have been written by now. Flushing here would wait for whoever holds standard output: the decision records of `backstop run` do, where a reader has stopped.
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
