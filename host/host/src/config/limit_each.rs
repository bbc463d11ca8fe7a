//! Limits for each key of a queue's messages.

use backstop_core::rate::Rate;

use super::raw::Table;
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

impl raw::LimitEach {
    /// Checks and converts the limits for each key of a queue.
    pub(super) fn convert(&self, at: &dyn Fn(&str) -> String) -> Result<EachOptions, ConfigError> {
        let place = |key: &str| at(&format!("limit-each.{key}"));
        let by = InCommon::parse(&self.by, || place("by"))?;
        if by == InCommon::Queue {
            let expected = "expected a JSON pointer such as /tenant, or an attribute such as attribute:tenant: `rate` and `max-in-flight` of the queue limit the whole queue";
            return Err(value(place("by"), expected));
        }
        let rate = self.rate.as_deref().map(str::parse).transpose();
        let rate = rate.map_err(|error| value(place("rate"), format!("{error}")))?;
        let mut keys = Self::KEYS.iter();
        let key = keys.find(|key| key.field == "max_in_flight" && self.max_in_flight.is_some());
        let checked = key.map_or(Ok(()), |key| key.check_range(self.max_in_flight));
        checked.map_err(|expected| value(place("max-in-flight"), expected))?;
        if rate.is_none() && self.max_in_flight.is_none() {
            let expected =
                "expected `rate`, `max-in-flight` or both: without one, nothing is limited";
            return Err(value(at("limit-each"), expected));
        }
        Ok(EachOptions {
            by,
            rate,
            max_in_flight: self.max_in_flight,
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
