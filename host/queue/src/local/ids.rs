//! The ids of a queue's messages.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// Gives each message an id: a random one, or the same in each run with the same seed.
#[derive(Debug)]
pub(super) struct Ids {
    /// Of the seed and the queue's name.
    seed: Option<[u8; 32]>,
    next: AtomicU64,
}

impl Ids {
    pub(super) fn of(queue: &str, seed: Option<u64>) -> Self {
        let digest = |seed: u64| {
            let mut digest = Sha256::new();
            digest.update(seed.to_le_bytes());
            digest.update(queue);
            digest.finalize().into()
        };
        Self {
            seed: seed.map(digest),
            next: AtomicU64::new(0),
        }
    }

    pub(super) fn next(&self) -> String {
        let id = match self.seed {
            None => Uuid::new_v4(),
            Some(seed) => {
                let mut digest = Sha256::new();
                digest.update(seed);
                digest.update(self.next.fetch_add(1, Relaxed).to_le_bytes());
                let digest: [u8; 32] = digest.finalize().into();
                let (bytes, _) = digest.split_first_chunk().unwrap_or((&[0; 16], &[]));
                Builder::from_random_bytes(*bytes).into_uuid()
            }
        };
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(queue: &str, seed: Option<u64>) -> Vec<String> {
        let ids = Ids::of(queue, seed);
        (0..3).map(|_| ids.next()).collect()
    }

    #[test]
    fn ids_are_the_same_for_a_seed_and_random_without_one() {
        let ids = three("orders", Some(1));
        assert_eq!(three("orders", Some(1)), ids);
        for other in [
            three("orders", Some(2)),
            three("invoices", Some(1)),
            three("orders", None),
        ] {
            assert!(ids.iter().all(|id| !other.contains(id)));
        }
        assert_ne!(three("orders", None), three("orders", None));
        assert!(ids.iter().all(|id| Uuid::parse_str(id).is_ok()));
        assert_ne!(ids[0], ids[1]);
    }
}
