//! What a line is about, as far as [`Storm`] asks: its queue and its error.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::{FmtContext, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::storm::{COUNTS, Cause, Storm};

/// The most characters of an error that tell causes apart.
const ERROR_CHARACTERS: usize = 100;

/// The span of a message.
const MESSAGE: &str = "message";

#[derive(Default)]
struct About {
    message: String,
    queue: Option<String>,
    error: Option<String>,
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
            about.queue = queue_of(fields).map(str::to_owned);
        }
    }
    if !is_in_message && !about.names_message && about.error.is_none() {
        return Some(0);
    }
    let error = about.error.unwrap_or_default();
    let cause = Cause {
        place: metadata.callsite(),
        queue: about.queue.unwrap_or_default(),
        error: error.chars().take(ERROR_CHARACTERS).collect(),
    };
    storm.admit(cause, *metadata.level(), || about.message)
}

/// The queue in the fields of a span: `queue="orders" id="…"`, or the same in JSON.
fn queue_of(fields: &str) -> Option<&str> {
    let places = [r#""queue":""#, r#"queue=""#];
    let (_, rest) = places.iter().find_map(|it| fields.split_once(it))?;
    Some(rest.split_once('"')?.0)
}
