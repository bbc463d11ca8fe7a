//! Lines of the text log in the order in which people read: when, how severe, what happened with its fields, and last the message or queue that it is about.

use std::fmt;
use std::sync::Arc;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::line::left_out;
use crate::storm::Storm;

/// Formats an event as `TIME LEVEL what happened field=value message{id=…}`. In a terminal of 80 columns, the first line has the event and its first fields; the ids, which are long, come after them.
#[derive(Debug, Clone, Default)]
pub struct EventFirst {
    /// Bounds the lines of a storm, if anything does.
    pub storm: Option<Arc<Storm>>,
    /// Whether time and level are left out, for a log that has them already.
    pub is_bare: bool,
}

impl<S, N> FormatEvent<S, N> for EventFirst
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
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
        if !self.is_bare {
            begin(&mut writer, *event.metadata().level())?;
        }
        context.format_fields(writer.by_ref(), event)?;
        if left_out > 0 {
            write!(writer, " left-out={left_out}")?;
        }
        for span in context.event_scope().into_iter().flatten() {
            write!(writer, " {}", span.name())?;
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>();
            if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
                write!(writer, "{{{fields}}}")?;
            }
        }
        writer.write_char('\n')
    }
}

/// Writes when it happened, and how severe it is.
fn begin(writer: &mut Writer<'_>, level: Level) -> fmt::Result {
    let is_coloured = writer.has_ansi_escapes();
    if is_coloured {
        writer.write_str("\u{1b}[2m")?;
    }
    SystemTime.format_time(writer)?;
    if is_coloured {
        writer.write_str("\u{1b}[0m")?;
        write!(writer, " \u{1b}[{}m{level:>5}\u{1b}[0m ", colour(level))
    } else {
        write!(writer, " {level:>5} ")
    }
}

/// The colour of a level.
fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}
