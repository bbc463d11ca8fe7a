//! What a checker knows of calls and keys.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::Row;

/// A call, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) key: u32,
    pub(crate) host: usize,
    pub(crate) began: Duration,
    /// How far its host's clock was ahead when it began, in milliseconds.
    pub(crate) offset: i64,
    pub(crate) deadline: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) other_payload: bool,
    /// A request of it went wrong.
    pub(crate) faulty: bool,
    pub(crate) frozen: bool,
    /// The clock of its host was wrong by an hour when it began.
    pub(crate) wrong_clock: bool,
    /// So it was, or it was set meanwhile.
    pub(crate) clock: bool,
    /// Somebody with a wrong clock took its lease.
    pub(crate) robbed: bool,
    pub(crate) killed: bool,
    pub(crate) returned: bool,
    pub(crate) started: Option<Duration>,
    /// How its work ended.
    pub(crate) worked: Option<Option<String>>,
    /// When it ended.
    pub(crate) ended: Duration,
    /// Until when its lease in the table is, in true time, in milliseconds since 1970.
    pub(crate) lease: u64,
    /// Its result is in the table.
    pub(crate) recorded: bool,
    /// Its record has expired since.
    pub(crate) expired: bool,
    pub(crate) requests: u32,
}

impl Call {
    pub(crate) fn is_disturbed(&self) -> bool {
        self.faulty || self.frozen || self.clock || self.robbed
    }

    /// Whether something happened to it that can cost it its lease.
    pub(crate) fn is_excused(&self) -> bool {
        self.is_disturbed() || self.killed || self.deadline.is_some()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Key {
    pub(crate) row: Option<Row>,
    /// The call that has written it.
    pub(crate) writer: u32,
    /// When a record of work in progress was last there.
    pub(crate) in_progress: Option<Duration>,
    /// The results that records had, and when they were last there.
    pub(crate) results: BTreeMap<String, Duration>,
    pub(crate) has_large: bool,
    pub(crate) payloads: [bool; 2],
}
