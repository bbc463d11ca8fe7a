//! Formats log events: one line per event, whatever its fields contain.

use std::fmt::{self, Debug, Formatter, Write};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use backstop_core::failure::Milliseconds;
use backstop_core::text::{Escaping, visible};

use crate::line::left_out;
use crate::storm::Storm;

/// Formats events with another format, which writes a JSON object on a line. JSON has escapes for the control characters of ASCII only: the others, and those that do not show, are escaped here.
#[derive(Debug, Clone, Default)]
pub struct EscapedJson<F> {
    /// The other format.
    pub format: F,
    /// The name of this host, which each line gets. It has no character that JSON escapes.
    pub host: Option<String>,
    /// Bounds the lines of a storm, if anything does.
    pub storm: Option<Arc<Storm>>,
}

impl<F> EscapedJson<F> {
    /// With this format, and nothing else.
    pub fn of(format: F) -> Self {
        Self {
            format,
            host: None,
            storm: None,
        }
    }
}

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
        let Some(left_out) = left_out(self.storm.as_deref(), context, event) else {
            return Ok(());
        };
        let mut line = String::new();
        self.format
            .format_event(context, Writer::new(&mut line), event)?;
        let Some(fields) = line.trim_end().strip_suffix('}') else {
            return writer.write_str(&visible(&line));
        };
        writer.write_str(&visible(fields))?;
        if left_out > 0 {
            write!(writer, ",\"left-out\":{left_out}")?;
        }
        if let Some(host) = &self.host {
            write!(writer, ",\"host\":\"{host}\"")?;
        }
        writer.write_str("}\n")
    }
}

/// Formats the fields of an event or a span as text. Line breaks and characters that do not show are escaped, and values with spaces are quoted, so that text from messages, policies and workers can forge neither a log line nor a field of one.
///
/// A number whose name ends with `-ms` is shown as a time: `delay-ms` 1500 as `delay=1s500ms`. The text of an error is left out: it is in JSON, and in decision records.
#[derive(Debug, Clone, Copy, Default)]
pub struct EscapedFields;

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = EscapingVisitor {
            writer,
            is_empty: true,
            result: Ok(()),
        };
        fields.record(&mut visitor);
        visitor.result
    }
}

/// The field with the text of an error.
const ERROR_TEXT: &str = "error-text";

/// Escapes every value.
struct EscapingVisitor<'writer> {
    writer: Writer<'writer>,
    is_empty: bool,
    result: fmt::Result,
}

impl EscapingVisitor<'_> {
    fn write(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_empty) {
            self.writer.write_char(' ')?;
        }
        let name = name.strip_prefix("r#").unwrap_or(name);
        match (name, self.writer.has_ansi_escapes()) {
            ("message", _) => {}
            (_, true) => write!(self.writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?,
            (_, false) => write!(self.writer, "{name}=")?,
        }
        write!(self.writer, "{value:?}")
    }

    fn add(&mut self, name: &str, value: &dyn Debug) {
        if self.result.is_ok() && name != ERROR_TEXT {
            self.result = self.write(name, value);
        }
    }
}

impl Visit for EscapingVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.add("message", &Escaped(value)),
            name => self.add(name, &Value(value)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            name => self.add(name, &Escaped(&value)),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let time = field.name().strip_suffix("-ms");
        match time.zip(u32::try_from(value).ok()) {
            Some((name, time)) => {
                let time = Milliseconds(time);
                self.add(name, &format_args!("{time}"));
            }
            None => self.record_debug(field, &value),
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
    use std::sync::Mutex;

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
            .event_format(crate::EventFirst::default())
            .with_writer(move || written.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("message", queue = "orders", id = %"a} x{").entered();
            let _bare = tracing::info_span!("bare").entered();
            tracing::warn!(
                error = "exit 1",
                "delay-ms" = 1_500_u32,
                "error-text" = "why",
                "retry"
            );
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let (time, line) = text.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
        let expected = " WARN retry error=\"exit 1\" delay=1s500ms bare message{queue=\"orders\" id=\"a} x{\"}\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_json_line_has_no_character_that_does_not_show_and_means_the_same() {
        let lines = Lines::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .map_event_format(EscapedJson::of)
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

    #[test]
    fn a_storm_has_ten_lines_in_json_and_the_number_of_the_others() {
        let lines = Lines::default();
        let written = lines.clone();
        let (storm, _begun) = Storm::new();
        let counting = Arc::clone(&storm);
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .map_event_format(|format| EscapedJson {
                format,
                host: Some("host-1".to_owned()),
                storm: Some(storm),
            })
            .with_writer(move || written.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..25 {
                let _span = tracing::info_span!("message", queue = "orders", id = number).entered();
                tracing::info!(error = %"HTTP 503", "delay-ms" = 1_500_u32, "retry");
            }
            // A start is no storm.
            for number in 0..25 {
                tracing::info!(number, "serving");
            }
            counting.finish();
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let read: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read.len(), 10 + 25 + 1);
        assert!(read.iter().all(|it| it["host"] == "host-1"), "{text}");
        assert!(read.iter().all(|it| it["spans"].is_null()), "{text}");
        assert_eq!(
            (&read[0]["delay-ms"], &read[0]["span"]["id"]),
            (&1_500.into(), &0.into())
        );
        let last = read.last().unwrap();
        let [message, queue, error] = ["message", "queue", "error"].map(|name| &last[name]);
        assert_eq!([message, queue, error], ["retry", "orders", "HTTP 503"]);
        assert_eq!(
            (&last["left-out"], &last["level"]),
            (&15.into(), &"INFO".into())
        );
    }
}
