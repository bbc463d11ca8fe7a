//! A value that is looked up over the network and cached. Concurrent callers share one lookup.

use std::future::Future;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The cached value, and when it was looked up.
#[derive(Debug)]
pub struct Lookup<T>(Mutex<Option<(T, Instant)>>);

impl<T> Default for Lookup<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Lookup<T> {
    /// The cached value, if it is younger than `lifetime` returns for it (`None`: it never expires); else the result of `lookup`, for which concurrent callers wait too.
    pub async fn get(
        &self,
        lifetime: impl FnOnce(&T) -> Option<Duration>,
        lookup: impl Future<Output = T>,
    ) -> T {
        let mut last = self.0.lock().await;
        if let Some((value, since)) = last.as_ref()
            && lifetime(value).is_none_or(|lifetime| since.elapsed() < lifetime)
        {
            return value.clone();
        }
        let value = lookup.await;
        *last = Some((value.clone(), Instant::now()));
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_lookup() {
        let (lookup, lookups) = (Lookup::default(), AtomicU32::new(0));
        let get = || {
            lookup.get(|_| Some(SECOND), async {
                sleep(SECOND * 5).await;
                lookups.fetch_add(1, Ordering::Relaxed)
            })
        };
        assert_eq!(join_all((0..10).map(|_| get())).await, [0; 10]);
        sleep(SECOND).await;
        assert_eq!(join_all((0..10).map(|_| get())).await, [1; 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_lookup_blocks_no_other() {
        let lookup = Lookup::default();
        let hanging = lookup.get(|_: &u32| None, std::future::pending());
        assert!(timeout(SECOND, hanging).await.is_err());
        assert_eq!(lookup.get(|_| None, async { 7 }).await, 7);
        assert_eq!(lookup.get(|_| None, async { 8 }).await, 7);
    }
}
