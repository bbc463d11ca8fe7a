//! Records whose answers can't be compared.

use serde::Serialize;

/// Why the answers to a record can't be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotComparable {
    /// A policy read parts of the payload that the record does not contain.
    NotRecorded,
    /// A policy exceeded its time limit, which is not deterministic.
    OutOfTime,
    /// The host decided without a policy, since none was active.
    NoPolicy,
    /// The new policy breaks, and a queue limit decided when the record was made, so the record does not show whether the recorded policy broke too.
    Bound,
}
