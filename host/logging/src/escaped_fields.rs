//! Formats log events as text: one line per event, whatever its fields contain.

use std::fmt::{self, Debug, Formatter, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

use backstop_core::text::Escaping;

/// Formats the fields of an event or a span as text. Line breaks and terminal control characters are escaped, so that text from messages, policies and workers can't forge a log line.
///
/// JSON lines don't need it, because JSON has its own escapes.
#[derive(Debug, Clone, Copy, Default)]
pub struct EscapedFields;

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = EscapingVisitor(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

/// Escapes every value; the inner visitor adds names and colours.
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
    fn line_breaks_and_control_characters_in_fields_are_escaped() {
        let lines = Lines::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields)
            .with_ansi(false)
            .without_time()
            .with_writer(move || written.clone())
            .finish();
        let hostile = "E\r\n  INFO all is well\u{1b}[2J\u{9b}0m\u{202e}\u{2028}";
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("message", id = hostile, shown = %hostile).entered();
            tracing::warn!(error = %hostile, class = hostile, debugged = ?hostile, count = 3, "{hostile}");
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
