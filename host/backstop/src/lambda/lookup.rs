//! Something that is looked up over the network: once for all who ask meanwhile, and again only when its answer no longer holds.

use std::future::Future;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The last answer, and when it was given.
#[derive(Debug)]
pub(super) struct Lookup<T>(Mutex<Option<(T, Instant)>>);

impl<T> Default for Lookup<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Lookup<T> {
    /// The last answer, if it still holds by `holds` (none: for ever); else that of `look`, for which whoever asks meanwhile waits too.
    pub(super) async fn get(
        &self,
        holds: impl FnOnce(&T) -> Option<Duration>,
        look: impl Future<Output = T>,
    ) -> T {
        let mut last = self.0.lock().await;
        if let Some((answer, given)) = last.as_ref()
            && holds(answer).is_none_or(|span| given.elapsed() < span)
        {
            return answer.clone();
        }
        let answer = look.await;
        *last = Some((answer.clone(), Instant::now()));
        answer
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
    async fn who_asks_meanwhile_shares_the_answer() {
        let (lookup, looked) = (Lookup::default(), AtomicU32::new(0));
        let ask = || {
            lookup.get(|_| Some(SECOND), async {
                sleep(SECOND * 5).await;
                looked.fetch_add(1, Ordering::Relaxed)
            })
        };
        assert_eq!(join_all((0..10).map(|_| ask())).await, [0; 10]);
        sleep(SECOND).await;
        assert_eq!(join_all((0..10).map(|_| ask())).await, [1; 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_given_up_leaves_the_way_free() {
        let lookup = Lookup::default();
        let hanging = lookup.get(|_: &u32| None, std::future::pending());
        assert!(timeout(SECOND, hanging).await.is_err());
        assert_eq!(lookup.get(|_| None, async { 7 }).await, 7);
        assert_eq!(lookup.get(|_| None, async { 8 }).await, 7);
    }
}
