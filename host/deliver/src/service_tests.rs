//! A service in memory for tests: it fails as its plan says, and checks every request.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::failure::Error;
use tokio::time::sleep;

use crate::{Duplicates, EntryResult, Group, Limits, RequestError, Target};

/// An entry of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: u64,
    pub(crate) group: Option<u8>,
    pub(crate) bytes: usize,
}

/// How often things fail, in a hundred.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    pub(crate) unanswered: u64,
    pub(crate) request_failed: u64,
    pub(crate) request_unknown: u64,
    /// The service refuses a request with one of these entries.
    pub(crate) poisonous: u64,
    pub(crate) seed: u64,
}

/// What the service has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The entries that it has, in the order in which it got them.
    pub(crate) stored: Vec<Item>,
    /// The ids of each request.
    pub(crate) requests: Vec<Vec<u64>>,
    pub(crate) most_in_flight: usize,
    /// Requests beyond the limits. A panic would be taken for an error of the request.
    pub(crate) violations: Vec<String>,
    attempts: BTreeMap<u64, u64>,
}

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) limits: Limits,
    pub(crate) duplicates: Duplicates,
    pub(crate) faults: Faults,
    pub(crate) latency: Duration,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) in_flight: Arc<AtomicUsize>,
}

impl Service {
    pub(crate) fn new(faults: Faults) -> Self {
        Self {
            limits: Limits {
                entries: 10,
                bytes: 1_000,
                entry_bytes: 500,
            },
            duplicates: Duplicates::Separate,
            faults,
            latency: Duration::from_millis(10),
            seen: Arc::default(),
            in_flight: Arc::default(),
        }
    }

    fn check(&self, entries: &[Item]) {
        let bytes: usize = entries.iter().map(|item| item.bytes).sum();
        let groups: Vec<_> = entries.iter().filter_map(|item| item.group).collect();
        let different: HashSet<_> = groups.iter().collect();
        let is_valid = (1..=self.limits.entries).contains(&entries.len())
            && bytes <= self.limits.bytes
            && entries
                .iter()
                .all(|item| item.bytes <= self.limits.entry_bytes)
            && groups.len() == different.len();
        if !is_valid {
            let mut seen = self.seen.lock().unwrap();
            seen.violations
                .push(format!("{bytes} bytes in {entries:?}"));
        }
    }

    /// Whether something with this frequency happens.
    fn happens(&self, what: &str, id: u64, attempt: u64, percent: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.faults.seed, what, id, attempt).hash(&mut hasher);
        hasher.finish() % 100 < percent
    }

    pub(crate) fn is_poisonous(&self, id: u64) -> bool {
        self.happens("poisonous", id, 0, self.faults.poisonous)
    }

    pub(crate) fn is_rejected(&self, id: u64) -> bool {
        self.happens("rejected", id, 0, self.faults.rejected)
    }

    fn carry_out(
        &self,
        entries: &[Item],
        number: u64,
    ) -> Result<Vec<EntryResult<u64>>, RequestError> {
        let mut seen = self.seen.lock().unwrap();
        let error = |code: &str| Error::new(code, "by the test");
        if entries.iter().any(|item| self.is_poisonous(item.id)) {
            return Err(RequestError::Rejected(error("BatchRequestTooLong")));
        }
        if self.happens("request", number, 0, self.faults.request_failed) {
            return Err(RequestError::Failed(error("ThrottlingException")));
        }
        let mut results = Vec::new();
        for item in entries {
            let attempt = seen.attempts.entry(item.id).or_default();
            *attempt += 1;
            let attempt = *attempt;
            results.push(if self.is_rejected(item.id) {
                EntryResult::Rejected(error("InvalidMessageContents"))
            } else if self.happens("failed", item.id, attempt, self.faults.failed) {
                EntryResult::Failed(error("InternalError"))
            } else {
                seen.stored.push(item.clone());
                if self.happens("unanswered", item.id, attempt, self.faults.unanswered) {
                    EntryResult::Unanswered
                } else {
                    EntryResult::Delivered(item.id)
                }
            });
        }
        if self.happens("unknown", number, 0, self.faults.request_unknown) {
            Err(RequestError::Unknown(error("ECONNRESET")))
        } else {
            Ok(results)
        }
    }
}

impl Target for Service {
    type Entry = Item;
    type Receipt = u64;

    fn source(&self) -> &str {
        "local:test"
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn size(&self, entry: &Item) -> usize {
        entry.bytes
    }

    fn group(&self, entry: &Item) -> Option<Group> {
        entry.group.map(|group| Group::new([group]))
    }

    fn duplicates(&self) -> Duplicates {
        self.duplicates
    }

    async fn send(&self, entries: &[Item]) -> Result<Vec<EntryResult<u64>>, RequestError> {
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        let number = {
            let mut seen = self.seen.lock().unwrap();
            seen.most_in_flight = seen.most_in_flight.max(in_flight);
            seen.requests
                .push(entries.iter().map(|item| item.id).collect());
            u64::try_from(seen.requests.len()).unwrap()
        };
        self.check(entries);
        sleep(self.latency / 2).await;
        let result = self.carry_out(entries, number);
        sleep(self.latency / 2 + Duration::from_millis(number % 7)).await;
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

/// Ungrouped entries of 10 bytes.
pub(crate) fn items(count: u64) -> impl Iterator<Item = Item> {
    (0..count).map(|id| Item {
        id,
        group: None,
        bytes: 10,
    })
}
