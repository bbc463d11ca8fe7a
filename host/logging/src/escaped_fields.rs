//! How log lines are written as text: one line for each event, whatever is in its fields.

use std::fmt::{self, Debug, Formatter, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

use backstop_core::text::Escaping;

/// The fields of an event or a span as text, with everything escaped that would begin another line or that a terminal would obey: what comes from messages, policies and workers can't forge a log line.
///
/// JSON lines don't need it: JSON has escapes of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct EscapedFields;

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = EscapingVisitor(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

/// Hands every value on escaped; names and colours are the other visitor's.
struct EscapingVisitor<'writer>(DefaultVisitor<'writer>);

impl Visit for EscapingVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.record_debug(field, &Escaped(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }
}

struct Escaped<'a>(&'a dyn Debug);

impl Debug for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_field_begins_a_line_or_reaches_a_terminal_as_it_is() {
        let lines = Lines::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields)
            .with_ansi(false)
            .without_time()
            .with_writer(move || written.clone())
            .finish();
        let odd = "E\r\n  INFO all is well\u{1b}[2J\u{9b}0m\u{202e}\u{2028}";
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("message", id = odd, shown = %odd).entered();
            tracing::warn!(error = %odd, class = odd, debugged = ?odd, count = 3, "{odd}");
        });
        let lines = lines.0.lock().unwrap();
        let text = std::str::from_utf8(&lines).unwrap();
        let line = text.strip_suffix('\n').unwrap();
        assert_eq!(line, backstop_core::text::one_line(line));
        let shown = "E\\r\\n  INFO all is well\\u{1b}[2J\\u{9b}0m\\u{202e}\\u{2028}";
        assert_eq!(line.matches(shown).count(), 6, "{line}");
        assert!(
            line.contains(&format!(": {shown} error={shown} class=\"{shown}\"")),
            "{line}"
        );
        assert!(line.contains(" count=3"), "{line}");
    }
}
