//! When a breaker opens, and for what.

use backstop_core::backoff::Backoff;
use backstop_core::breaker::BreakerSettings;

use super::keys::{Spot, Typed};
use super::{ConfigError, InCommon, raw};

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

impl Typed<raw::Breaker> for BreakerOptions {
    fn of(raw: &raw::Breaker, spot: &Spot<'_>) -> Result<Self, ConfigError> {
        let by = InCommon::parse(&raw.by, || spot.of("by"))?;
        let defaults = BreakerSettings::default();
        let pauses = raw.longest_pause.map_or(defaults.pauses, |span| {
            let longest = u32::try_from(span.0.as_millis()).unwrap_or(u32::MAX);
            Backoff::milliseconds(FIRST_PAUSE.min(longest), longest)
        });
        let settings = defaults
            .minimum(raw.minimum.unwrap_or(defaults.minimum))
            .shortest_outage(raw.after.map_or(defaults.shortest_outage, |span| span.0))
            .pauses(pauses);
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
                "breaker.minimum: expected a whole number from 1",
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
