//! How a consumer receives messages and ends: what the keys of a queue say together.

use std::path::Path;
use std::time::Duration;

use super::{ConfigError, Options, raw, value};
use crate::hold::HoldMode;
use crate::queue::VisibilityTimeout;

/// The longest `linger` for a visibility timeout: a third. An outcome that waited longer than a heartbeat could arrive when the message is visible again.
pub(crate) fn longest_linger(visibility: VisibilityTimeout) -> Duration {
    visibility.as_duration() / 3
}

impl Options {
    /// Converts the options of a queue, and checks those that depend on others.
    pub(super) fn of(
        queue: &raw::Queue,
        folder: &Path,
        at: &dyn Fn(&str) -> String,
    ) -> Result<Self, ConfigError> {
        let mut options = Self::typed(queue, folder, at)?;
        if let Some(breaker) = &mut options.breaker {
            breaker.settings.most = u32::try_from(options.max_in_flight).unwrap_or(u32::MAX);
        }
        let idempotency = queue.idempotency.as_ref();
        let needs_ids = idempotency.is_some_and(|it| it.key.is_none());
        if needs_ids && options.envelope_key_file.is_none() {
            options.hold = hold_with_lasting_ids(&at("idempotency"), options.hold)?;
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
