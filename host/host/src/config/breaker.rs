//! When a breaker opens, and for what.

use std::time::Duration;

use backstop_core::backoff::Backoff;
use backstop_core::breaker::BreakerSettings;

use super::{ConfigError, InCommon, raw, value};

/// The longest first pause, in milliseconds.
const FIRST_PAUSE: u32 = 4_000;

/// The breaker of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerOptions {
    /// What is down together.
    pub by: InCommon,
    /// The numbers.
    pub settings: BreakerSettings,
}

impl raw::Breaker {
    /// Checks and converts the breaker of a queue whose attempts in flight grow to `most`.
    pub(super) fn convert(
        &self,
        at: &dyn Fn(&str) -> String,
        most: usize,
    ) -> Result<BreakerOptions, ConfigError> {
        let place = |key: &str| at(&format!("breaker.{key}"));
        let by = InCommon::parse(&self.by, || place("by"))?;
        let defaults = BreakerSettings::default();
        let minimum = self.minimum.unwrap_or(defaults.minimum);
        if minimum == 0 {
            return Err(value(place("minimum"), "expected at least 1"));
        }
        let after = self.after.map_or(defaults.shortest_outage, |span| span.0);
        let hour = Duration::from_secs(3_600);
        if after > hour {
            return Err(value(place("after"), "expected at most 1h"));
        }
        let pauses = match self.longest_pause {
            Some(span) if (Duration::from_secs(1)..=hour).contains(&span.0) => {
                let longest = u32::try_from(span.0.as_millis()).unwrap_or(u32::MAX);
                Backoff::milliseconds(FIRST_PAUSE.min(longest), longest)
            }
            Some(_) => return Err(value(place("longest-pause"), "expected 1s to 1h")),
            None => defaults.pauses,
        };
        let settings = BreakerSettings {
            minimum,
            shortest_outage: after,
            pauses,
            most: u32::try_from(most).unwrap_or(u32::MAX),
            ..defaults
        };
        Ok(BreakerOptions { by, settings })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_no_breaker_is_rejected_with_its_place() {
        for (table, expected) in [
            ("{}", "queues.q.breaker: the key `by` is missing"),
            (
                "{ by = \"tenant\" }",
                "breaker.by: `tenant` says nothing that messages have in common",
            ),
            (
                "{ by = \"queue\", minimum = 0 }",
                "breaker.minimum: expected at least 1",
            ),
            (
                "{ by = \"queue\", after = \"2h\" }",
                "breaker.after: expected at most 1h",
            ),
            (
                "{ by = \"queue\", longest-pause = \"500ms\" }",
                "breaker.longest-pause: expected 1s to 1h",
            ),
            ("{ by = \"queue\", share = 0.5 }", "share"),
        ] {
            let text = format!(
                "[queues.q]\nurl = \"local:q\"\nhandler = {{ exec = \"true\" }}\nbreaker = {table}\n"
            );
            let config = crate::config::Config::parse(&text, std::path::Path::new("x"));
            let error = backstop_core::text::chain(&config.unwrap_err());
            assert!(error.contains(expected), "{table}: {error}");
        }
    }
}
