//! What became of the entries: one outcome for each, and the counts of a delivery.

use backstop_core::failure::Error;

/// What became of one entry. Each entry that was taken from the input has exactly one outcome.
///
/// ```
/// use backstop_deliver::{Outcome, Status};
///
/// // The first request had no answer, the second delivered it.
/// let status = Status::Delivered("id 9");
/// let outcome = Outcome { entry: "order 7", index: 6, attempts: 2, unknown: 1, status };
/// assert!(outcome.is_possibly_twice());
/// assert_eq!(outcome.undelivered(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<E, R> {
    /// The entry.
    pub entry: E,
    /// The entry's place in the input, from 0.
    pub index: u64,
    /// The requests that contained it.
    pub attempts: u32,
    /// The requests that contained it and whose result is unknown.
    pub unknown: u32,
    /// Whether it was delivered.
    pub status: Status<R>,
}

impl<E, R> Outcome<E, R> {
    /// Whether the service may have the entry twice: it was delivered, and an earlier request that contained it has an unknown result.
    pub const fn is_possibly_twice(&self) -> bool {
        self.unknown > 0 && matches!(self.status, Status::Delivered(_))
    }

    /// Why the entry was not delivered. `None` if it was delivered or superseded.
    pub const fn undelivered(&self) -> Option<&Undelivered> {
        match &self.status {
            Status::Undelivered(why) => Some(why),
            Status::Delivered(_) | Status::Superseded => None,
        }
    }
}

/// Whether an entry was delivered.
///
/// ```
/// use backstop_deliver::Status;
///
/// fn shown<R: std::fmt::Debug>(status: &Status<R>) -> String {
///     match status {
///         Status::Delivered(receipt) => format!("delivered: {receipt:?}"),
///         Status::Superseded => "a later entry has its place".to_owned(),
///         Status::Undelivered(why) => format!("{}: {why}", why.as_str()),
///     }
/// }
/// assert_eq!(shown(&Status::Delivered(9)), "delivered: 9");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status<R> {
    /// The service has it, and answered this.
    Delivered(R),
    /// A later entry with the same key replaced it before it was sent.
    Superseded,
    /// The service does not have it, or nobody knows: [`Outcome::unknown`] is then not 0.
    Undelivered(Undelivered),
}

/// Why an entry was not delivered.
///
/// ```
/// use backstop_deliver::Undelivered;
///
/// let why = Undelivered::TooLarge { bytes: 300, most: 256 };
/// assert_eq!(why.to_string(), "it has 300 bytes, and the limit is 256");
/// // The same delivery would fail again.
/// assert!(why.is_entry_fault());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undelivered {
    /// It is larger than the service accepts.
    #[error("it has {bytes} bytes, and the limit is {most}")]
    TooLarge {
        /// Its bytes, as the service counts them.
        bytes: usize,
        /// The most that the service accepts.
        most: usize,
    },
    /// The service refuses it, and would refuse it again.
    #[error("the service refuses it: {0}")]
    Rejected(Error),
    /// The policy gave up after this error.
    #[error("{reason}")]
    GivenUp {
        /// The error of the last attempt.
        error: Error,
        /// Why the policy gave up.
        reason: String,
    },
    /// An earlier entry of its group was not delivered, and the order must be kept.
    #[error("an earlier entry of its group is undelivered")]
    HeldBack,
    /// An earlier entry with the same key was not yet settled, and [`Duplicates::Refuse`](crate::Duplicates::Refuse) is set.
    #[error("an earlier entry has the same key")]
    Duplicate,
    /// The delivery was stopped first. The error is that of the entry's last attempt, or the one that stopped the delivery.
    #[error("the delivery was stopped{}", .0.as_ref().map_or(String::new(), |error| format!(": {error}")))]
    Stopped(Option<Error>),
}

impl Undelivered {
    /// `too-large`, `rejected`, `given-up`, `held-back`, `duplicate` or `stopped`, for programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too-large",
            Self::Rejected(_) => "rejected",
            Self::GivenUp { .. } => "given-up",
            Self::HeldBack => "held-back",
            Self::Duplicate => "duplicate",
            Self::Stopped(_) => "stopped",
        }
    }

    /// The error of the service, if it is one that the entry is undelivered for.
    pub const fn error(&self) -> Option<&Error> {
        match self {
            Self::Rejected(error) | Self::GivenUp { error, .. } | Self::Stopped(Some(error)) => {
                Some(error)
            }
            Self::TooLarge { .. } | Self::HeldBack | Self::Duplicate | Self::Stopped(None) => None,
        }
    }

    /// Whether the entry alone is the reason: the same delivery would fail again.
    pub const fn is_entry_fault(&self) -> bool {
        match self {
            Self::TooLarge { .. } | Self::Rejected(_) | Self::Duplicate => true,
            Self::GivenUp { .. } | Self::HeldBack | Self::Stopped(_) => false,
        }
    }
}

/// What a delivery has done so far.
///
/// ```
/// use backstop_deliver::Counts;
///
/// let mut counts = Counts::default();
/// (counts.entries, counts.delivered, counts.undelivered) = (10, 7, 1);
/// assert_eq!(counts.pending(), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Entries taken from the input.
    pub entries: u64,
    /// Entries that the service has.
    pub delivered: u64,
    /// Entries that a later one replaced.
    pub superseded: u64,
    /// Entries that were not delivered.
    pub undelivered: u64,
    /// Delivered entries that the service may have twice.
    pub possibly_twice: u64,
    /// Requests sent.
    pub requests: u64,
    /// Entries in requests beyond their first.
    pub retries: u64,
    /// Bytes of the delivered entries, as the service counts them.
    pub bytes: u64,
}

impl Counts {
    /// Entries without an outcome yet.
    pub const fn pending(&self) -> u64 {
        self.entries - self.delivered - self.superseded - self.undelivered
    }
}

/// The result of a whole delivery.
///
/// ```
/// use backstop_deliver::Report;
///
/// fn lines<E: std::fmt::Display, R>(report: Report<E, R>) -> Vec<String> {
///     let entries = report.undelivered.into_iter().map(|outcome| outcome.entry.to_string());
///     entries.collect()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report<E, R> {
    /// How many entries, requests and retries there were.
    pub counts: Counts,
    /// The outcomes of the entries that were not delivered; those of one group in their order.
    pub undelivered: Vec<Outcome<E, R>>,
    /// The error that stopped the delivery before the end of its input.
    pub stopped_by: Option<Error>,
}
