//! How a consumer receives messages and ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::raw::Table;
use super::{BreakerOptions, ConfigError, EachOptions, pause, raw, value};
use crate::hold::HoldMode;
use crate::maintenance::Window;
use crate::queue::{BATCH_BYTES, VisibilityTimeout};
use backstop_core::rate::Rate;

/// How a consumer receives messages and ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How many messages are in flight at once, from the receive to the end of their handling.
    pub max_in_flight: usize,
    /// The most polls at the same time. Fewer are made if the queue has less work.
    pub max_polls: usize,
    /// How long the poll of an idle queue waits for a message.
    pub idle_poll: Duration,
    /// How often the depth of the queue and of its dead-letter queues is read while metrics are served. Never without it.
    pub depth_poll: Option<Duration>,
    /// The most messages that are received in a time.
    pub rate: Option<Rate>,
    /// Maintenance windows, in which the queue is not polled.
    pub pause: Vec<Window>,
    /// When nothing is attempted because what is behind the worker is down. Without it, everything is attempted.
    pub breaker: Option<BreakerOptions>,
    /// Limits for the messages of each key.
    pub limit_each: Option<EachOptions>,
    /// The bytes of the messages in flight, bodies and attributes together, at which the consumer stops to receive. Receives under way may exceed it.
    pub max_bytes_in_flight: usize,
    /// How failed messages are held until their next attempt.
    pub hold: HoldMode,
    /// The file with the keys by which the hosts of a fleet know the envelopes of messages that were sent again. Without one, each host knows its own only.
    pub envelope_key_file: Option<PathBuf>,
    /// How long a message stays invisible; a heartbeat renews it at each third of that. The queue's own by default.
    pub visibility_timeout: Option<VisibilityTimeout>,
    /// The longest duration of one attempt.
    pub attempt_timeout: Duration,
    /// How long a request waits at most for others to be batched with it: a third of the visibility timeout or less.
    pub linger: Duration,
    /// How long attempts may go on, and the last poll may take, after the consumer was stopped. No poll is longer, unless it is less than a second, so a short grace time costs more requests.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_in_flight: 100,
            max_polls: 10,
            idle_poll: Duration::from_secs(2),
            depth_poll: Some(Duration::from_secs(30)),
            rate: None,
            pause: Vec::new(),
            breaker: None,
            limit_each: None,
            max_bytes_in_flight: 256 << 20,
            hold: HoldMode::Auto,
            envelope_key_file: None,
            visibility_timeout: None,
            attempt_timeout: Duration::from_secs(15 * 60),
            linger: Duration::from_millis(100),
            grace: Duration::from_secs(25),
        }
    }
}

/// The longest `linger` for a visibility timeout: a third. An outcome that waited longer than a heartbeat could arrive when the message is visible again.
pub(crate) fn longest_linger(visibility: VisibilityTimeout) -> Duration {
    visibility.as_duration() / 3
}

impl Options {
    /// Checks and converts the options of a queue.
    pub(super) fn of(
        queue: &raw::Queue,
        folder: &Path,
        at: &dyn Fn(&str) -> String,
    ) -> Result<Self, ConfigError> {
        let defaults = Options::default();
        let max_in_flight = queue.max_in_flight.unwrap_or(defaults.max_in_flight);
        let why = ": SQS allows 120000 messages in flight";
        within("max_in_flight", max_in_flight, &at("max-in-flight"), why)?;
        let max_polls = queue.max_polls.unwrap_or(defaults.max_polls);
        within("max_polls", max_polls, &at("max-polls"), "")?;
        let rate = queue.rate.as_deref().map(str::parse).transpose();
        let rate = rate.map_err(|error| value(at("rate"), format!("{error}")))?;
        let visibility_timeout = queue
            .visibility_timeout
            .map(|span| visibility(&at("visibility-timeout"), span.0))
            .transpose()?;
        let envelope_key_file = queue.envelope_key_file.as_ref();
        let envelope_key_file = envelope_key_file.map(|path| folder.join(path));
        let hold = queue.hold.unwrap_or_default();
        let idempotency = queue.idempotency.as_ref();
        let needs_ids = idempotency.is_some_and(|it| it.key.is_none());
        let options = Options {
            max_in_flight,
            max_polls,
            idle_poll: queue.idle_poll.map_or(defaults.idle_poll, |span| span.0),
            depth_poll: match queue.depth_poll {
                Some(span) => depth_poll(&at("depth-poll"), span.0)?,
                None => defaults.depth_poll,
            },
            rate,
            pause: pause::convert(queue.pause.as_deref().unwrap_or_default(), &at("pause"))?,
            breaker: queue
                .breaker
                .as_ref()
                .map(|breaker| breaker.convert(at, max_in_flight))
                .transpose()?,
            limit_each: queue
                .limit_each
                .as_ref()
                .map(|each| each.convert(at))
                .transpose()?,
            max_bytes_in_flight: queue
                .max_bytes_in_flight
                .map_or(defaults.max_bytes_in_flight, |bytes| bytes.0),
            hold: if needs_ids && envelope_key_file.is_none() {
                hold_with_lasting_ids(&at("idempotency"), hold)?
            } else {
                hold
            },
            envelope_key_file,
            visibility_timeout,
            attempt_timeout: queue
                .attempt_timeout
                .map_or(defaults.attempt_timeout, |span| span.0),
            linger: queue.linger.map_or(defaults.linger, |span| span.0),
            grace: queue.grace.map_or(defaults.grace, |span| span.0),
        };
        if options.max_bytes_in_flight < BATCH_BYTES {
            return Err(value(
                at("max-bytes-in-flight"),
                "expected at least 1MiB, the size of the largest message",
            ));
        }
        let polls = Duration::from_secs(1)..=Duration::from_secs(20);
        if !polls.contains(&options.idle_poll) {
            return Err(value(
                at("idle-poll"),
                "expected 1s to 20s, the longest poll of SQS",
            ));
        }
        let longest = VisibilityTimeout::MAX.as_duration();
        if !(Duration::from_secs(1)..=longest).contains(&options.attempt_timeout) {
            return Err(value(
                at("attempt-timeout"),
                "expected 1s to 12h, for which SQS keeps a message invisible",
            ));
        }
        if options.linger > Duration::from_secs(5) {
            return Err(value(
                at("linger"),
                "expected at most 5s: messages stay in flight for that long",
            ));
        }
        if let Some(visibility) = options.visibility_timeout
            && options.linger > longest_linger(visibility)
        {
            return Err(value(
                at("linger"),
                "expected at most a third of visibility-timeout: an outcome that waits longer may arrive when the message is visible again",
            ));
        }
        Ok(options)
    }
}

/// Checks a number against the range of its key.
fn within(field: &str, number: usize, place: &str, why: &str) -> Result<(), ConfigError> {
    let key = raw::Queue::KEYS.iter().find(|key| key.field == field);
    let checked = key.map_or(Ok(()), |key| key.check_range(Some(number)));
    checked.map_err(|expected| value(place, expected + why))
}

/// How the messages of a queue are held whose ids are idempotency keys, and whose envelopes have no code: a message that is sent again has a new id at another host.
fn hold_with_lasting_ids(place: &str, hold: HoldMode) -> Result<HoldMode, ConfigError> {
    match hold {
        HoldMode::Visibility | HoldMode::Auto => Ok(HoldMode::Visibility),
        HoldMode::Resend => Err(value(
            place,
            "without `key`, the key is the message's id, which other hosts can't know when the message is sent again (hold = \"resend\"): expected `key`, or `envelope-key-file`, or another `hold`",
        )),
    }
}

fn depth_poll(place: &str, pace: Duration) -> Result<Option<Duration>, ConfigError> {
    let paces = Duration::from_secs(5)..=Duration::from_secs(3_600);
    match pace {
        Duration::ZERO => Ok(None),
        pace if paces.contains(&pace) => Ok(Some(pace)),
        _ => Err(value(place, "expected 5s to 1h, or 0s for never")),
    }
}

fn visibility(place: &str, timeout: Duration) -> Result<VisibilityTimeout, ConfigError> {
    if timeout.is_zero() || timeout > VisibilityTimeout::MAX.as_duration() {
        return Err(value(place, "expected 1s to 12h"));
    }
    Ok(VisibilityTimeout::rounded_up(timeout))
}
