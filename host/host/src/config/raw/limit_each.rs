//! The table `limit-each` of a queue: limits for the messages of each key.

use super::*;

table! {
    /// Limits for the messages of each key.
    LimitEach at "queues.NAME.limit-each", "a table with `by`, such as { by = \"/tenant\", rate = \"20/s\" }";

    /// What the messages of a key have in common: the text at a JSON pointer or in an attribute.
    by: String {
        row: "what the messages of a key have in common: the text at a JSON pointer such as `/tenant`, or in an attribute, such as `attribute:tenant`",
        shown: "required",
        method: "limit_each",
    }

    /// The most attempts of each key that begin in a time: `20/s`, `50/m` or `10/h`.
    rate: Option<String> => limit_each_rate(String) {
        at_once: Some(AtOnce::EachRate),
        row: "the most attempts of each key that begin in a second (`20/s`), minute (`/m`) or hour (`/h`), at each host",
        shown: "no limit",
    }

    /// The most attempts of each key at once.
    max_in_flight: Option<usize> => limit_each_max_in_flight(usize) {
        at_once: Some(AtOnce::EachMaxInFlight),
        row: "the most attempts of each key at once, {bounds}, at each host",
        shown: "no limit",
        bounds: "1 to 100000",
    }
}
