//! Memory does not grow with the input.

use std::sync::atomic::{AtomicUsize, Ordering};

use backstop_core::failure::Error;
use futures_util::{StreamExt, stream};

use crate::{Delivery, EntryResult, Limits, RequestError, Target};

/// The resident memory of this process, in bytes. Known only on Linux.
fn memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = status.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}

#[tokio::test(start_paused = true)]
async fn a_million_entries_need_no_more_memory_than_a_thousand() {
    /// Remembers nothing but how many entries it has. Each tenth fails once.
    struct Counting(AtomicUsize);
    impl Target for Counting {
        type Entry = (u64, Vec<u8>);
        type Receipt = ();
        fn source(&self) -> &str {
            "local:test"
        }
        fn limits(&self) -> Limits {
            Limits {
                entries: 10,
                bytes: 1 << 20,
                entry_bytes: 1 << 20,
            }
        }
        fn size(&self, entry: &Self::Entry) -> usize {
            entry.1.len()
        }
        async fn send(
            &self,
            entries: &[Self::Entry],
        ) -> Result<Vec<EntryResult<()>>, RequestError> {
            tokio::task::yield_now().await;
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            let result = |index| match (number + index) % 10 {
                0 => EntryResult::Failed(Error::new("InternalError", "by the test")),
                _ => EntryResult::Delivered(()),
            };
            Ok((0..entries.len()).map(result).collect())
        }
    }
    let entries = stream::iter((0..1_000_000).map(|id| (id, vec![0; 200])));
    let delivery = Delivery::new(Counting(AtomicUsize::new(0)));
    let mut deliveries = delivery.start(entries).unwrap();
    let (mut before, mut most) = (None, 0);
    while let Some(outcome) = deliveries.next().await {
        assert!(outcome.undelivered().is_none());
        let count = deliveries.counts().delivered;
        if count == 50_000 {
            before = memory();
        }
        if count.is_multiple_of(50_000) {
            most = most.max(memory().unwrap_or_default());
        }
    }
    let counts = deliveries.counts();
    assert_eq!(counts.delivered, 1_000_000);
    assert!(counts.retries > 90_000, "{counts:?}");
    if let Some(before) = before {
        // The other tests of this process run at the same time.
        assert!(most < before + (64 << 20), "{before} grew to {most}");
    }
}
