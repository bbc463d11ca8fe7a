//! Limits for each key of a queue's messages.

use backstop_core::rate::Rate;

use super::keys::{Spot, Typed};
use super::{ConfigError, InCommon, raw, value};

/// Limits for the messages of each key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EachOptions {
    /// What the messages of a key have in common.
    pub by: InCommon,
    /// The most attempts of a key that begin in a time.
    pub rate: Option<Rate>,
    /// The most attempts of a key at once.
    pub max_in_flight: Option<usize>,
}

impl Typed<raw::LimitEach> for EachOptions {
    fn of(raw: &raw::LimitEach, spot: &Spot<'_>) -> Result<Self, ConfigError> {
        let by = InCommon::parse(&raw.by, || spot.of("by"))?;
        if by == InCommon::Queue {
            let expected = "expected a JSON pointer such as /tenant, or an attribute such as attribute:tenant: `rate` and `max-in-flight` of the queue limit the whole queue";
            return Err(value(spot.of("by"), expected));
        }
        let rate = raw.rate.as_deref().map(str::parse).transpose();
        let rate = rate.map_err(|error| value(spot.of("rate"), format!("{error}")))?;
        if rate.is_none() && raw.max_in_flight.is_none() {
            let expected =
                "expected `rate`, `max-in-flight` or both: without one, nothing is limited";
            return Err(value(spot.place(), expected));
        }
        Ok(EachOptions {
            by,
            rate,
            max_in_flight: raw.max_in_flight,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use backstop_core::text::chain;
    use std::path::Path;

    #[test]
    fn what_limits_nothing_is_rejected_with_its_place() {
        for (table, expected) in [
            ("{}", "queues.q.limit-each: the key `by` is missing"),
            (
                "{ by = \"/tenant\" }",
                "queues.q.limit-each: expected `rate`, `max-in-flight` or both",
            ),
            (
                "{ by = \"queue\", rate = \"5/s\" }",
                "limit-each.by: expected a JSON pointer",
            ),
            (
                "{ by = \"tenant\", rate = \"5/s\" }",
                "limit-each.by: `tenant` says nothing that messages have in common",
            ),
            (
                "{ by = \"/tenant\", rate = \"0/s\" }",
                "limit-each.rate: expected a whole number of messages",
            ),
            (
                "{ by = \"/tenant\", max-in-flight = 0 }",
                "limit-each.max-in-flight: expected",
            ),
            ("{ by = \"/tenant\", burst = 5 }", "burst"),
        ] {
            let text = format!(
                "[queues.q]\nurl = \"local:q\"\nhandler = {{ exec = \"true\" }}\nlimit-each = {table}\n"
            );
            let error = chain(&Config::parse(&text, Path::new("x")).unwrap_err());
            assert!(error.contains(expected), "{table}: {error}");
        }
    }
}
