//! Where a delivery sends its entries: the trait that each service implements, its limits, and its answers.

use std::fmt;
use std::sync::Arc;

use backstop_core::failure::Error;

/// What one request to a target may contain.
///
/// ```
/// use backstop_deliver::Limits;
///
/// // A service that accepts 100 entries and 1 MiB in one request.
/// let limits = Limits { entries: 100, bytes: 1 << 20, entry_bytes: 1 << 20 };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most entries of one request.
    pub entries: usize,
    /// The most bytes of all entries of one request together.
    pub bytes: usize,
    /// The most bytes of one entry. A larger one is never sent.
    pub entry_bytes: usize,
}

/// What happens to an entry whose [group](Target::group) has another entry that is not yet settled.
///
/// ```
/// use backstop_deliver::Duplicates;
///
/// assert_eq!(Duplicates::default(), Duplicates::Separate);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// Both are sent, the second one after the first is settled.
    #[default]
    Separate,
    /// The second replaces the first unless the first is in flight, and ends as [`Superseded`](crate::Status::Superseded).
    LastWins,
    /// The second is refused, as [`Duplicate`](crate::Undelivered::Duplicate).
    Refuse,
}

/// What must stay in order: a message group of a FIFO queue, or the key of an item. Two groups are the same if their bytes are.
///
/// ```
/// use backstop_deliver::Group;
///
/// assert_eq!(Group::new("customer 3"), Group::new(b"customer 3"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Group(Arc<[u8]>);

impl Group {
    /// The group with these bytes as its name.
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self(name.as_ref().into())
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.0.escape_ascii())
    }
}

/// What became of one entry of a request that was carried out.
///
/// ```
/// use backstop_deliver::{EntryResult, Error};
///
/// /// What a service says about one entry.
/// fn result(status: u16, id: u64) -> EntryResult<u64> {
///     let error = || Error::new(format!("HTTP {status}"), "").status(status);
///     match status {
///         200 => EntryResult::Delivered(id),
///         400..=428 => EntryResult::Rejected(error()),
///         _ => EntryResult::Failed(error()),
///     }
/// }
/// assert_eq!(result(200, 7), EntryResult::Delivered(7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryResult<R> {
    /// The service has the entry.
    Delivered(R),
    /// The service refuses the entry, and every repetition would be refused too. It is not sent again.
    Rejected(Error),
    /// The service does not have the entry and may accept it later. The policy decides.
    Failed(Error),
    /// The response does not mention the entry, so nobody knows whether the service has it. The policy decides.
    Unanswered,
}

/// A request failed as a whole.
///
/// ```
/// use backstop_deliver::{Error, RequestError};
///
/// /// What the status of a whole request means.
/// fn error(status: u16) -> RequestError {
///     let error = Error::new(format!("HTTP {status}"), "").status(status);
///     match status {
///         401 | 403 => RequestError::Fatal(error),
///         429 => RequestError::Failed(error),
///         400..=499 => RequestError::Rejected(error),
///         // The service may have carried it out.
///         _ => RequestError::Unknown(error),
///     }
/// }
/// assert!(matches!(error(503), RequestError::Unknown(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request was refused, perhaps because of one entry or because of its size. Its two halves are sent instead, until the entry is found.
    #[error("the request is refused: {0}")]
    Rejected(Error),
    /// The request was not carried out and may succeed later, as with throttling. The policy decides about each entry.
    #[error("the request failed: {0}")]
    Failed(Error),
    /// Nobody knows whether the request was carried out: it timed out, or the connection was cut. The policy decides about each entry.
    #[error("the result of the request is unknown: {0}")]
    Unknown(Error),
    /// No request can succeed, as without a permission. The delivery stops.
    #[error("no request can succeed: {0}")]
    Fatal(Error),
}

/// A service that accepts batches of entries.
///
/// The delivery does the rest: it forms batches within the limits, keeps several requests in flight, and sends failed entries again. Implement this trait for a service of your own:
///
/// ```
/// use backstop_deliver::{EntryResult, Limits, RequestError, Target};
///
/// struct Printer;
///
/// impl Target for Printer {
///     type Entry = String;
///     type Receipt = ();
///
///     fn source(&self) -> &str {
///         "printer"
///     }
///
///     fn limits(&self) -> Limits {
///         Limits { entries: 10, bytes: 1 << 20, entry_bytes: 1 << 20 }
///     }
///
///     fn size(&self, entry: &String) -> usize {
///         entry.len()
///     }
///
///     async fn send(&self, entries: &[String]) -> Result<Vec<EntryResult<()>>, RequestError> {
///         let print = |entry: &String| {
///             println!("{entry}");
///             EntryResult::Delivered(())
///         };
///         Ok(entries.iter().map(print).collect())
///     }
/// }
/// ```
pub trait Target: Send + Sync + 'static {
    /// What is delivered. A delivery owns it until its outcome.
    type Entry: Send + Sync + 'static;
    /// What the service answers for a delivered entry, such as the id of a message.
    type Receipt: Send + 'static;

    /// The target's name in the failures that the policy receives, such as the ARN of the queue.
    fn source(&self) -> &str;

    /// What one request may contain.
    fn limits(&self) -> Limits;

    /// The bytes of an entry, as the service counts them.
    fn size(&self, entry: &Self::Entry) -> usize;

    /// The group of an entry. The entries of a group are sent in their order, one after the other is settled, and never two in one request. `None` if the order does not matter.
    fn group(&self, entry: &Self::Entry) -> Option<Group> {
        let _ = entry;
        None
    }

    /// Completes an entry that was just taken from the input, before anything else. What it sets, such as an id, is the same in every attempt and in the outcome.
    fn prepare(&self, entry: Self::Entry) -> Self::Entry {
        entry
    }

    /// Whether the service recognises an entry that it has already, or whether the entry changes nothing the second time. After a request whose result is unknown, any other entry is sent again after longer pauses, since each time there may be another copy.
    fn is_repeatable(&self, entry: &Self::Entry) -> bool {
        let _ = entry;
        false
    }

    /// What happens to an entry whose group has another entry that is not yet settled.
    fn duplicates(&self) -> Duplicates {
        Duplicates::Separate
    }

    /// Sends one request with these entries, without retries. The results are in the order of the entries; an entry without one is [`Unanswered`](EntryResult::Unanswered).
    fn send(
        &self,
        entries: &[Self::Entry],
    ) -> impl Future<Output = Result<Vec<EntryResult<Self::Receipt>>, RequestError>> + Send;
}
