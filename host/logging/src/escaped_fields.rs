//! Formats log events: one line per event, whatever its fields contain.

use std::fmt::{self, Debug, Formatter, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use backstop_core::text::{Escaping, visible};

/// Formats events with another format, which writes JSON. JSON has escapes for the control characters of ASCII only: the others, and those that do not show, are escaped here.
#[derive(Debug, Clone, Copy, Default)]
pub struct EscapedJson<F>(pub F);

impl<S, N, F> FormatEvent<S, N> for EscapedJson<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        writer.write_str(&visible(&line))
    }
}

/// Formats the fields of an event or a span as text. Line breaks and characters that do not show are escaped, and values with spaces are quoted, so that text from messages, policies and workers can forge neither a log line nor a field of one.
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
        match field.name() {
            "message" => self.0.record_debug(field, &Escaped(value)),
            _ => self.0.record_debug(field, &Value(value)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.0.record_debug(field, &Escaped(&value)),
        }
    }
}

/// Whether the text is in quotes from its start to its end, as a text's `Debug` writes it.
fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let Some(inner) = inner else {
        return false;
    };
    let mut is_escaped = false;
    for c in inner.chars() {
        match (is_escaped, c) {
            (false, '"') => return false,
            (false, '\\') => is_escaped = true,
            (true | false, _) => is_escaped = false,
        }
    }
    !is_escaped
}

/// One word is shown as it is, anything else in quotes.
struct Value<'a>(&'a dyn Debug);

impl Debug for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        let is_part_of_a_word = |c: char| !c.is_whitespace() && !matches!(c, '"' | '=' | '{' | '}');
        let is_word = !text.is_empty() && text.chars().all(is_part_of_a_word);
        if is_word || is_quoted(&text) {
            return write!(Escaping(f), "{text}");
        }
        write!(Escaping(f), "{text:?}")
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
            line.contains(&format!(": {shown} error=\"{shown}\" class=\"{shown}\"")),
            "{line}"
        );
        assert!(line.contains(" count=3"), "{line}");
    }

    #[test]
    fn a_value_can_t_forge_another_field() {
        let lines = Lines::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields)
            .with_ansi(false)
            .without_time()
            .with_writer(move || written.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let forged = "x queue=\"payments\"";
            let _span = tracing::info_span!("message", id = %"a} INFO b{").entered();
            let word = "s3://bucket/key";
            tracing::warn!(error = %forged, empty = %"", word = %word, debugged = ?"a b", "failed");
            tracing::warn!(error = %"\"x\" queue=\"y\"", odd = %"\"x\\\"", "failed");
        });
        let line = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let start =
            " WARN message{id=\"a} INFO b{\"}: backstop_logging::escaped_fields::tests: failed";
        let expected = [
            r#" error="x queue=\"payments\"" empty="" word=s3://bucket/key debugged="a b""#,
            r#" error="\"x\" queue=\"y\"" odd="\"x\\\"""#,
        ];
        let expected = expected.map(|fields| format!("{start}{fields}\n")).concat();
        assert_eq!(line, expected);
    }

    #[test]
    fn a_text_line_begins_with_what_happened_and_ends_with_the_message_it_is_about() {
        let lines = Lines::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields)
            .with_ansi(false)
            .event_format(crate::EventFirst)
            .with_writer(move || written.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("message", queue = "orders", id = %"a} x{").entered();
            let _bare = tracing::info_span!("bare").entered();
            tracing::warn!(error = "exit 1", delay = %"1s", "retry");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let (time, line) = text.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
        let expected =
            " WARN retry error=\"exit 1\" delay=1s bare message{queue=\"orders\" id=\"a} x{\"}\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_json_line_has_no_character_that_does_not_show_and_means_the_same() {
        let lines = Lines::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .map_event_format(EscapedJson)
            .with_writer(move || written.clone())
            .finish();
        let hostile = "E\r\n{\u{7f}\u{85}\u{9b}0m\u{202e}\u{2028}\u{200b}\u{feff}é\"}";
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("message", id = hostile).entered();
            tracing::warn!(error = %hostile, "{hostile}");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let line = text.strip_suffix('\n').unwrap();
        assert_eq!(line, backstop_core::text::one_line(line));
        let read: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(read["error"], hostile);
        assert_eq!(read["message"], hostile);
        assert_eq!(read["span"]["id"], hostile);
    }
}
