//! What is known of a message or a host at some time of the history.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::breaker::Behind;
use super::each::Share;
use super::held::Held;
use super::versions::Versions;

/// What is known of a message.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) succeeded: bool,
    /// The letters that were written, and those that operators have deleted.
    pub(super) letters: u32,
    pub(super) letters_deleted: u32,
    pub(super) letter_unsure: bool,
    /// Letters that operators have sent back.
    pub(super) sent_back: u32,
    /// Until when requests about it may be late.
    pub(super) doubt: Duration,
    pub(super) copies: u32,
    /// It and its copies, as far as they were not deleted.
    pub(super) in_queue: u32,
    /// Who has sent it again last.
    pub(super) copied_by: Option<u64>,
    pub(super) copied: Duration,
    /// A request was in doubt when it was there twice: nobody but who has sent it again knows which one is left over.
    pub(super) is_left: bool,
    pub(super) receives: u32,
    pub(super) attempts: u32,
    /// Attempts under way, by host.
    pub(super) under_way: Vec<u64>,
    /// The host that has received it, until it is attempted.
    pub(super) pending: Option<u64>,
    /// The hosts whose receives were no attempts.
    pub(super) idle: BTreeSet<u64>,
    /// The hosts that have attempted it.
    pub(super) attempted_by: BTreeSet<u64>,
    /// An attempt was broken off, and counts for nothing.
    pub(super) interrupted: bool,
    /// A receive of which no host knows, or an envelope whose count has others that were no attempts.
    pub(super) uncounted: bool,
    /// The code of the last attempt that ended.
    pub(super) code: Option<&'static str>,
    /// A decided retry.
    pub(super) due: Option<Due>,
    /// Who has received it last: an older receipt handle changes nothing.
    pub(super) holder: u64,
    /// The receive count of the last receive.
    pub(super) count: u32,
    /// From when on anybody may receive it.
    pub(super) visible: Duration,
    /// When its queue drops it, or its last copy.
    pub(super) dropped: Duration,
    /// Why the message died, as was decided.
    pub(super) reasons: BTreeSet<String>,
    /// Until when a wake has brought it.
    pub(super) wake: Option<Duration>,
    /// If it is held back.
    pub(super) held: Option<Held>,
    /// Something happened that may bring it early, or twice.
    pub(super) excused: bool,
    /// It was delivered twice: from then on there may be two of everything.
    pub(super) duplicated: bool,
    pub(super) gone: bool,
    /// Who has deleted it.
    pub(super) deleted_by: Option<u64>,
    /// A receive brought it although it was in flight, or deleted.
    pub(super) redelivered: bool,
}

/// A retry that a host has decided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) by: u64,
    pub(super) at: Duration,
    /// When its queue kept the message until then: it is no host's matter any more.
    pub(super) kept: Option<Duration>,
}

impl Known {
    /// Whether something may have happened to it that no host is to blame for.
    pub(super) fn may(&self, at: Duration) -> bool {
        self.excused || self.duplicated || at < self.doubt || at >= self.dropped
    }

    pub(super) fn has_ended(&self) -> bool {
        self.succeeded || self.letters > self.letters_deleted
    }
}

/// What is known of a host.
#[derive(Debug, Default)]
pub(super) struct KnownHost {
    pub(super) folder: Option<usize>,
    pub(super) versions: Versions,
    /// What is known of its breakers and limits, by what messages have in common.
    pub(super) behind: BTreeMap<u32, Behind>,
    pub(super) each: BTreeMap<u32, Share>,
    /// Whether its attempts may have begun earlier than its worker saw them, so that nobody knows what its breakers have seen.
    pub(super) unsure: bool,
    pub(super) slot: usize,
    pub(super) started: Duration,
    /// When it was killed, or has ended.
    pub(super) killed: Option<Duration>,
    pub(super) ended: Option<Duration>,
    pub(super) stopping: bool,
    pub(super) paused: Option<Duration>,
    /// When its rate was set, with the receives since.
    pub(super) rate: Option<(Duration, u32, u32)>,
    /// How many messages may be in flight, and since when.
    pub(super) most: Option<(Duration, usize)>,
    pub(super) under_way: usize,
    /// The most messages in flight that its queue has told it.
    pub(super) in_flight: usize,
}

/// The hosts by number.
pub(super) type Hosts = BTreeMap<u64, KnownHost>;
