//! Reads letters for a command: limits, a progress line on a terminal, and what is said about the reading.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::text::one_line;
use backstop_dead_letters::{End, Letter, ReadError, ReadOptions, Seen, read};
use backstop_files::values::{parse_number, parse_span};
use backstop_queue::{Queue, QueueError, VisibilityTimeout};
use clap::Parser;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::error::{CommandError, Context, Exit, Result};
use crate::terminal::{Progress, count, counted, joined};
use crate::time::whole_seconds;

/// What a command logs after the first signal.
pub(crate) const STOPPING: &str =
    "stopping: letters are made visible again; a second signal stops at once";

/// How letters are read.
#[derive(Debug, Clone, Parser)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadingArgs {
    /// The most letters to hold at the same time, and so to see
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = parse_number::<NonZeroUsize>)]
    limit: NonZeroUsize,

    /// How long letters are invisible to others if this command is killed, and so the longest time that it reads [default: 1m and a second for every 50 letters; 1h at most]
    #[arg(long, value_name = "DURATION", value_parser = visibility)]
    visibility_timeout: Option<VisibilityTimeout>,
}

fn visibility(text: &str) -> Result<VisibilityTimeout, String> {
    let span = parse_span(text).map_err(|error| error.to_string())?;
    let range = Duration::from_secs(5)..=VisibilityTimeout::MAX.as_duration();
    if range.contains(&span) {
        Ok(VisibilityTimeout::rounded_up(span))
    } else {
        Err("expected 5s to 12h".to_owned())
    }
}

impl ReadingArgs {
    /// The options of a reader.
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            most: self.limit.get(),
            visibility: self.visibility_timeout,
        }
    }

    /// Reads a queue, with a progress line, until its end or until `stop` is cancelled.
    pub(crate) async fn read(
        &self,
        queue: &Arc<dyn Queue>,
        stop: &CancellationToken,
        mut each: impl FnMut(Letter),
    ) -> Result<Seen> {
        let progress = Progress::counting("letters read");
        let each = async |letter| {
            progress.add(1);
            each(letter);
        };
        let seen = read(Arc::clone(queue), self.options(), stop, each);
        seen.await.with_context(|| one_line(queue.url()))
    }
}

impl From<ReadError> for CommandError {
    fn from(error: ReadError) -> Self {
        Exit::Queue.because(error.to_string())
    }
}

/// A request to a queue failed.
pub(crate) fn unusable(error: &QueueError) -> CommandError {
    Exit::Queue.because(error.to_string())
}

/// `1 letter`, `2,000 letters`.
pub(crate) fn letters(number: impl TryInto<u64>) -> String {
    counted(number, "letter")
}

/// Fails if a signal ended the reading of a queue. `what` says what is incomplete.
pub(crate) fn whole<'a>(seen: impl IntoIterator<Item = &'a Seen>, what: &str) -> Result<()> {
    if seen.into_iter().any(|it| it.end == End::Stopped) {
        Err(Exit::Interrupted.because(format!("interrupted: {what}")))
    } else {
        Ok(())
    }
}

/// What was seen, for people: `240 letters seen of about 250`, and in which queue, if that is not clear.
pub(crate) fn summary(seen: &Seen, queue: Option<&str>) -> String {
    let mut text = format!("{} seen", letters(seen.letters));
    // SQS counts approximately: fewer than were seen say nothing.
    if let Some(about) = seen.about.filter(|about| *about >= seen.letters) {
        text.push_str(&format!(" of about {}", count(about)));
    }
    if let Some(queue) = queue {
        text.push_str(&format!(" in {}", one_line(queue)));
    }
    if seen.held_by_others > 0 {
        text.push_str(&format!(
            "; others held about {}, which nobody else can see meanwhile",
            count(seen.held_by_others)
        ));
    }
    if seen.later > 0 {
        text.push_str(&format!(
            "; {} more arrived after the start and are left out",
            count(seen.later)
        ));
    }
    let is_behind = seen.fifo && seen.about.is_some_and(|about| about > seen.letters);
    text.push_str(match seen.end {
        End::Empty if is_behind => "; SQS shows the others when those before them in their groups have left the queue",
        End::Empty => "",
        End::Later => "; there may be more: so many letters arrive that no more of those before them came",
        End::Most => "; there may be more: --limit allows no more",
        End::Time => "; there may be more, but those seen first become visible again: --visibility-timeout gives more time",
        End::Stopped => "; there may be more: it was stopped",
        End::Receives => "; there may be more, but another receive could move letters away, by the queue's own redrive policy",
    });
    if seen.hidden > 0 {
        text.push_str(&format!(
            "; {} could not be made visible and are invisible for another {} at most",
            count(seen.hidden),
            whole_seconds(seen.hidden_for)
        ));
    }
    text
}

/// What was seen, for programs, and what else is known of the queue.
pub(crate) fn as_json(seen: &Seen, more: Value) -> Value {
    let seen = json!({
        "seen": seen.letters,
        "about": seen.about,
        "held-by-others": seen.held_by_others,
        "later": seen.later,
        "ended": match seen.end {
            End::Empty if seen.lacks_letters_of_others() => "held-by-others",
            End::Empty => "empty",
            End::Later => "later",
            End::Most => "limit",
            End::Time => "time",
            End::Stopped => "stopped",
            End::Receives => "receives",
        },
        "not-made-visible": seen.hidden,
    });
    joined(seen, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_below_what_was_seen_is_left_out_and_an_interrupted_reading_is_not_whole() {
        let seen = |about: usize, end: End| Seen {
            letters: 208,
            about: Some(about),
            held_by_others: 0,
            later: 0,
            fifo: false,
            end,
            hidden: 0,
            hidden_for: Duration::ZERO,
        };
        for (about, expected) in [
            (200, "208 letters seen"),
            (208, "208 letters seen of about 208"),
            (1_250, "208 letters seen of about 1,250"),
        ] {
            assert_eq!(summary(&seen(about, End::Empty), None), expected);
        }
        assert!(whole([&seen(9, End::Empty), &seen(9, End::Most)], "more").is_ok());
        assert!(whole([&seen(9, End::Empty), &seen(9, End::Stopped)], "more").is_err());
    }
}
