//! A table of `[queues]`: one queue to serve.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use super::policies::signed_for;
use super::policy::policy;
use super::url::queue_url;
use super::{
    ConfigError, DeciderConfig, HandlerConfig, Options, Places, QueueConfig, longest_linger, raw,
    shadow, value,
};
use crate::decision::{Bounds, LONGEST_DELAY};
use crate::failure::Milliseconds;
use crate::function_name::is_function;
use crate::handler::ContentType;
use crate::hold::HoldMode;
use crate::queue::{BATCH_BYTES, VisibilityTimeout};

impl raw::Queue {
    pub(super) fn convert(
        self,
        name: String,
        folder: &Path,
        places: &Places,
    ) -> Result<QueueConfig, ConfigError> {
        if name.trim().is_empty() {
            return Err(value(
                "queues",
                format!("a queue has no name (\"{name}\"): expected one, as in [queues.orders]"),
            ));
        }
        let at = |key: &str| places.of(&format!("queues.{name}.{key}"));
        let url = queue_url(&at("url"), self.url)?;
        let dead_letter_queues = self
            .dead_letter_queue
            .map(|queues| queues.convert(&at, queue_url))
            .transpose()?
            .unwrap_or_default();
        let live = shadow::settings_of(self.policy.as_ref(), self.settings.as_ref());
        let decider = DeciderConfig {
            shadow: shadow::shadow(self.shadow, self.shadow_settings, live, folder, &at)?,
            policy: policy(self.policy, self.settings, folder, &at)?,
            scenarios: self.scenarios.map(|path| folder.join(path)),
            signed_for: signed_for(&at("signed-for"), self.signed_for)?,
            bounds: Bounds {
                max_attempts: self
                    .max_attempts
                    .map(|most| attempts(&at("max-attempts"), most))
                    .transpose()?,
                max_age: self
                    .max_age
                    .map(|span| max_age(&at("max-age"), span.0))
                    .transpose()?,
                retention: None,
                allow_discard: self.allow_discard.unwrap_or(true),
            },
        };
        let defaults = Options::default();
        let max_in_flight = max_in_flight(
            &at("max-in-flight"),
            self.max_in_flight.unwrap_or(defaults.max_in_flight),
        )?;
        let max_polls = max_polls(
            &at("max-polls"),
            self.max_polls.unwrap_or(defaults.max_polls),
        )?;
        let visibility_timeout = self
            .visibility_timeout
            .map(|span| visibility(&at("visibility-timeout"), span.0))
            .transpose()?;
        let envelope_key_file = self.envelope_key_file.map(|path| folder.join(path));
        let idempotency = self.idempotency.map(|it| it.convert(&at)).transpose()?;
        let hold = self.hold.unwrap_or_default();
        let needs_ids = idempotency.as_ref().is_some_and(|it| it.key.is_none());
        let options = Options {
            max_in_flight,
            max_polls,
            max_bytes_in_flight: self
                .max_bytes_in_flight
                .map_or(defaults.max_bytes_in_flight, |bytes| bytes.0),
            hold: if needs_ids && envelope_key_file.is_none() {
                hold_with_lasting_ids(&at("idempotency"), hold)?
            } else {
                hold
            },
            envelope_key_file,
            visibility_timeout,
            attempt_timeout: self
                .attempt_timeout
                .map_or(defaults.attempt_timeout, |span| span.0),
            linger: self.linger.map_or(defaults.linger, |span| span.0),
            grace: self.grace.map_or(defaults.grace, |span| span.0),
        };
        if options.max_bytes_in_flight < BATCH_BYTES {
            return Err(value(
                at("max-bytes-in-flight"),
                "expected at least 1MiB, the size of the largest message",
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
        Ok(QueueConfig {
            idempotency,
            handler: self.handler.unwrap_or_default().convert(&at, folder)?,
            url,
            dead_letter_queues,
            decider,
            options,
            name,
        })
    }
}

impl raw::Handler {
    fn convert(
        self,
        at: &dyn Fn(&str) -> String,
        folder: &Path,
    ) -> Result<HandlerConfig, ConfigError> {
        if self.proxy.is_some() && self.http.is_none() {
            return Err(value(
                at("handler.proxy"),
                "expected together with `http` only: no other handler has a proxy",
            ));
        }
        if self.content_type.is_some() && self.http.is_none() {
            return Err(value(
                at("handler.content-type"),
                "expected together with `http` only: no other handler has a content type",
            ));
        }
        let content_type = self.content_type.map_or(Ok(ContentType::default()), |text| {
            ContentType::parse(&text).ok_or_else(|| {
                value(
                    at("handler.content-type"),
                    format!("`{text}` is not a content type: expected one such as application/json or text/plain; charset=utf-8"),
                )
            })
        })?;
        let proxy = self.proxy;
        match (self.function, self.http, self.exec, self.lambda) {
            (Some(function), None, None, None) => Ok(HandlerConfig::Function(function)),
            (None, Some(url), None, None) => Ok(HandlerConfig::Http {
                url,
                proxy,
                content_type,
            }),
            (None, None, Some(command), None) => {
                let mut words = command.0.into_iter();
                let program = words.next().filter(|program| !program.is_empty());
                let program = program.ok_or_else(|| {
                    value(
                        at("handler.exec"),
                        "expected a program, such as [\"./work.sh\", \"--fast\"]",
                    )
                })?;
                // A bare name is searched for on the PATH; a path is relative to the file's directory.
                let program = if program.contains('/') {
                    folder.join(program).to_string_lossy().into_owned()
                } else {
                    program
                };
                Ok(HandlerConfig::Exec(program, words.collect()))
            }
            (None, None, None, Some(name)) => {
                function(&at("handler.lambda"), name).map(HandlerConfig::Lambda)
            }
            _ => Err(value(
                at("handler"),
                "expected exactly one of `http`, `exec` and `lambda`, such as { http = \"http://127.0.0.1:8080/\" }; in a program, a function is one more choice",
            )),
        }
    }
}

/// Checks the name or ARN of a function, with a version or an alias or without. No request is made.
pub(super) fn function(place: &str, name: String) -> Result<String, ConfigError> {
    if is_function(&name) {
        return Ok(name);
    }
    Err(value(
        place,
        format!(
            "`{name}` is not a function: expected a name or an ARN, with a version or an alias or without, such as orders or orders:live"
        ),
    ))
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

/// Checks a number of attempts: from 1.
pub(super) fn attempts(place: &str, most: u32) -> Result<NonZeroU32, ConfigError> {
    NonZeroU32::new(most).ok_or_else(|| value(place, "expected a whole number from 1"))
}

/// Checks a number of messages in flight: SQS allows 120 000.
fn max_in_flight(place: &str, most: usize) -> Result<usize, ConfigError> {
    match most {
        1..=100_000 => Ok(most),
        _ => Err(value(
            place,
            "expected a whole number from 1 to 100000: SQS allows 120000 messages in flight",
        )),
    }
}

/// Checks a number of polls at the same time.
fn max_polls(place: &str, most: usize) -> Result<usize, ConfigError> {
    match most {
        1..=100 => Ok(most),
        _ => Err(value(place, "expected a whole number from 1 to 100")),
    }
}

/// Checks an age: at most the longest retention of SQS.
pub(super) fn max_age(place: &str, age: Duration) -> Result<Milliseconds, ConfigError> {
    let age = Milliseconds::from_duration(age);
    if age == Milliseconds(0) || age > LONGEST_DELAY {
        return Err(value(
            place,
            "expected more than 0s and at most 14d, for which SQS keeps a message",
        ));
    }
    Ok(age)
}

fn visibility(place: &str, timeout: Duration) -> Result<VisibilityTimeout, ConfigError> {
    if timeout.is_zero() || timeout > VisibilityTimeout::MAX.as_duration() {
        return Err(value(place, "expected 1s to 12h"));
    }
    Ok(VisibilityTimeout::rounded_up(timeout))
}
