//! What a line is about, as far as [`Storm`] asks: its queue and its error.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::{FmtContext, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::storm::{COUNTS, Cause, Storm};

/// The most characters of an error that tell causes apart.
const ERROR_CHARACTERS: usize = 100;

/// The most characters of what a line says and of its reason.
const WHAT_CHARACTERS: usize = 300;

/// The span of a message.
const MESSAGE: &str = "message";

#[derive(Default)]
struct About {
    message: String,
    queue: Option<String>,
    error: Option<String>,
    /// The class, the reason, and who decided.
    reasons: String,
    names_message: bool,
}

impl Visit for About {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => {
                let _ = write!(self.message, "{value:?}");
            }
            "queue" => self.queue = Some(format!("{value:?}")),
            "error" => self.error = Some(format!("{value:?}")),
            "class" | "reason" | "by" => {
                let _ = write!(self.reasons, " {value:?}");
            }
            "message-id" => self.names_message = true,
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "queue" => self.queue = Some(value.to_owned()),
            _ => self.record_debug(field, &format_args!("{value}")),
        }
    }
}

/// How many lines of its cause were left out before this line. `None` if it is left out, too.
///
/// Lines about messages and errors have causes. The others, such as those of a start, are always written, and so are those that are only logged because somebody asked for them.
pub(crate) fn left_out<S, N>(
    storm: Option<&Storm>,
    context: &FmtContext<'_, S, N>,
    event: &Event<'_>,
) -> Option<u64>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    let metadata = event.metadata();
    let Some(storm) = storm.filter(|_| *metadata.level() <= Level::INFO) else {
        return Some(0);
    };
    if metadata.target() == COUNTS {
        return Some(0);
    }
    let mut about = About::default();
    event.record(&mut about);
    let mut is_in_message = false;
    for span in context.event_scope().into_iter().flatten() {
        is_in_message |= span.name() == MESSAGE;
        let extensions = span.extensions();
        if let Some(fields) = extensions.get::<FormattedFields<N>>()
            && about.queue.is_none()
        {
            about.queue = queue_of(fields);
        }
    }
    if !is_in_message && !about.names_message && about.error.is_none() {
        return Some(0);
    }
    let error = about.error.unwrap_or_default();
    let what = about.message.chars().chain(about.reasons.chars());
    let what = what.filter(|character| !character.is_ascii_digit());
    let cause = Cause {
        what: what.take(WHAT_CHARACTERS).collect(),
        place: metadata.callsite(),
        queue: about.queue.unwrap_or_default(),
        error: error.chars().take(ERROR_CHARACTERS).collect(),
    };
    storm.admit(cause, *metadata.level(), || about.message)
}

/// The queue in the fields of a span: `queue="orders" id="…"`, the same in colour, or in JSON.
fn queue_of(fields: &str) -> Option<String> {
    let plain = without_colour(fields);
    let places = [r#""queue":""#, r#"queue=""#];
    let (_, rest) = places.iter().find_map(|it| plain.split_once(it))?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn without_colour(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest));
    Cow::Owned(rest.fold(first, |plain, part| plain + part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_reason_is_another_cause_and_another_number_is_none() {
        let (storm, _begun) = Storm::new();
        let written = tempfile::NamedTempFile::new().unwrap();
        let file = written.reopen().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(std::sync::Mutex::new(file))
            .event_format(crate::EventFirst {
                storm: Some(storm),
                ..crate::EventFirst::default()
            });
        tracing::subscriber::with_default(subscriber.finish(), || {
            let dead = |reason: &str| tracing::warn!(error = "HTTP 503", reason, "dead-letter");
            for number in 0..50 {
                dead(&format!("attempt {number} of 50 reached"));
            }
            dead("the age of 3d is reached");
        });
        let text = std::fs::read_to_string(written.path()).unwrap();
        assert_eq!(text.lines().count(), 11, "{text}");
        assert!(text.contains("the age of 3d is reached"), "{text}");
    }

    #[test]
    fn the_queue_of_a_span_is_found_in_every_format() {
        for fields in [
            r#"queue="orders" id="m-1""#,
            r#"{"queue":"orders","id":"m-1"}"#,
            "\u{1b}[3mqueue\u{1b}[0m\u{1b}[2m=\u{1b}[0m\"orders\" \u{1b}[3mid\u{1b}[0m",
        ] {
            assert_eq!(queue_of(fields).as_deref(), Some("orders"), "{fields:?}");
        }
        assert_eq!(queue_of("id=\"m-1\""), None);
    }
}
