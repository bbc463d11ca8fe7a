//! The table `breaker` of a queue: when nothing is attempted because what is behind the worker is down.

use super::*;

table! {
    /// When nothing is attempted because what is behind the worker is down.
    Breaker at "queues.NAME.breaker", "a table with `by`, such as { by = \"queue\" } or { by = \"/tenant\" }";

    /// What is down together: the whole queue, or the messages with the same value at a JSON pointer or in an attribute.
    by: String {
        row: "what is down together: the whole `queue`, or the messages with the same text at a JSON pointer such as `/tenant`, or in an attribute, such as `attribute:tenant`",
        shown: "required",
        method: "breaker",
    }

    /// The fewest failures without a success between them that open it.
    minimum: Option<u32> = "20" => breaker_minimum(u32) {
        at_once: Some(AtOnce::Breaker),
        row: "the fewest transient or throttled failures, without a success between them, that open it",
        bounds: "1 to 4294967295",
    }

    /// How long nothing may have succeeded before it opens.
    after: Option<Span> = "5s" => breaker_after(Duration) {
        at_once: Some(AtOnce::Breaker),
        row: "how long nothing may have succeeded before it opens; {bounds}",
        bounds: "at most 1h",
    }

    /// The longest pause between two probes.
    longest_pause: Option<Span> = "1m" => breaker_longest_pause(Duration) {
        at_once: Some(AtOnce::Breaker),
        row: "the longest pause between two probes: the first are 2s to 4s, and each next one is twice as long; {bounds}",
        bounds: "1s to 1h",
    }
}
