//! What idempotent work does by default, and what an operator chooses: the words of `backstop-idempotency` and of a queue's `idempotency`, which a program without that crate reads too.

use std::time::Duration;

use serde::Deserialize;

/// The lease of work without a deadline. It is renewed at each third of it: a store that does not answer for ten seconds ends none.
pub const LEASE: Duration = Duration::from_secs(20);

/// How long completed work is remembered: SQS keeps a message for 14 days at most, a policy delays it for 14 days at most, and two days are left.
pub const EXPIRES_AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Whose records a table holds. Powertools for Python and for TypeScript cannot read each other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordFormat {
    /// Powertools for AWS Lambda (Python): hexadecimal hashes of Python's JSON, results as JSON text.
    #[default]
    Python,
    /// Powertools for AWS Lambda (TypeScript): base64 hashes of JavaScript's JSON, results as values of DynamoDB.
    TypeScript,
}

/// What happens to work that may or may not have been done: its owner crashed, or was cut off from the store until its lease was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnknown {
    /// It is done again, as in Powertools. For work that may rather happen twice than never.
    #[default]
    Retry,
    /// It is refused with `IdempotencyOutcomeUnknown`, which is permanent, until somebody deletes its record, which never expires. For work that may rather not happen than twice.
    DeadLetter,
}

/// What happens to an event without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissingKey {
    /// It is refused with `IdempotencyKeyMissing`, which is permanent.
    #[default]
    Error,
    /// Its work is done without a record, each time.
    NotIdempotent,
}
