//! Standard output. After a failed write, the command continues its work but prints nothing more, and fails at its end. A closed pipe is not an error.
//!
//! Whatever is printed, no character controls the terminal or stays hidden, apart from line breaks and colours: see [`shown`].

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

use backstop_core::text::visible;

/// The first write that failed.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Not everything that was printed has been written.
#[derive(Debug, thiserror::Error)]
#[error("can't write to standard output")]
pub(crate) struct OutputError(#[source] &'static io::Error);

/// Prints a line to standard output, as `std::println` does.
macro_rules! println {
    () => {
        $crate::terminal::output::write(format_args!("\n"))
    };
    ($($text:tt)*) => {
        $crate::terminal::output::write(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Prints to standard error, as `std::eprint` does, and ignores failures.
macro_rules! eprint {
    ($($text:tt)*) => {
        $crate::terminal::output::write_stderr(format_args!($($text)*))
    };
}

/// Prints a line to standard error, as `std::eprintln` does, and ignores failures.
macro_rules! eprintln {
    ($($text:tt)*) => {
        $crate::terminal::output::write_stderr(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(crate) use {eprint, eprintln, println};

/// Standard output as a writer that never fails: see [`finish`].
pub(crate) struct Output;

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

pub(crate) fn write(text: fmt::Arguments<'_>) {
    attempt(|| anstream::stdout().write_all(shown(&text.to_string()).as_bytes()));
}

/// Writes bytes as they are. [`Output`] and the macros remove escape sequences unless standard output is a terminal.
pub(crate) fn write_bytes(bytes: &[u8]) {
    attempt(|| {
        io::stdout()
            .write_all(bytes)
            .and_then(|()| io::stdout().flush())
    });
}

pub(crate) fn write_stderr(text: fmt::Arguments<'_>) {
    let _ = anstream::stderr().write_all(shown(&text.to_string()).as_bytes());
}

/// Controls the terminal that standard output is, such as by clearing it. Only for sequences of our own.
pub(crate) fn control(sequence: &'static str) {
    attempt(|| anstream::stdout().write_all(sequence.as_bytes()));
}

/// The text with every character showing, in JSON too ([`visible`]), except for colours and other styles.
fn shown(text: &str) -> Cow<'_, str> {
    const STYLE: &str = "\u{1b}[";
    if !text.contains(STYLE) {
        return visible(text);
    }
    let mut parts = text.split(STYLE);
    let mut shown = visible(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        let is_style = end.is_some_and(|end| part.get(end..).is_some_and(|it| it.starts_with('m')));
        shown.push_str(if is_style { STYLE } else { "\\u001b[" });
        shown.push_str(&visible(part));
    }
    shown.into()
}

/// Notes that standard output could not be written by others than this module.
pub(crate) fn fail(error: io::Error) {
    let _ = FAILURE.set(error);
}

/// Whether a write has failed, so that nothing more is printed.
pub(crate) fn has_failed() -> bool {
    FAILURE.get().is_some()
}

/// The error of the first failed write, unless the pipe was closed.
///
/// This does not flush: complete lines have been written already, and flushing would wait for the lock on standard output, which the decision records of `backstop run` hold while their reader is stopped.
pub(crate) fn finish() -> Result<(), OutputError> {
    match FAILURE.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(OutputError(error)),
        Some(_) | None => Ok(()),
    }
}

fn attempt(write: impl FnOnce() -> io::Result<()>) {
    if !has_failed()
        && let Err(error) = write()
    {
        fail(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_stay_and_nothing_else_controls_the_terminal() {
        for (text, expected) in [
            ("a\n\tb", "a\n\tb"),
            (
                "\u{1b}[1;31merror:\u{1b}[0m é",
                "\u{1b}[1;31merror:\u{1b}[0m é",
            ),
            (
                "\u{1b}[2J\u{1b}[m\u{1b}]0;t\u{7}",
                "\\u001b[2J\u{1b}[m\\u001b]0;t\\u0007",
            ),
            ("\u{1b}[31", "\\u001b[31"),
            (
                "\u{9b}2J\u{202e}\u{200b}\r",
                "\\u009b2J\\u202e\\u200b\\u000d",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }
}
