//! What calls found, for metrics.

use std::fmt;
use std::sync::Arc;

backstop_core::names! {
    /// What a call found, or how it ended otherwise than with the end of its work. For metrics.
    ///
    /// A call for work that needs no key is none of these.
    ///
    /// ```
    /// use backstop_idempotency::Observed;
    ///
    /// /// Whether the work of this call ran.
    /// fn ran(observed: Observed) -> bool {
    ///     matches!(observed, Observed::Fresh | Observed::TakenOver)
    /// }
    /// assert!(!ran(Observed::Repeated));
    /// assert_eq!(Observed::TakenOver.as_str(), "taken-over");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Observed {
        /// The key was new: the work runs.
        Fresh = "fresh",
        /// The lease of the owner before was over: the work runs again.
        TakenOver = "taken-over",
        /// The work was done before: its stored result was returned.
        Repeated = "repeated",
        /// Another owner does the work now.
        InProgress = "in-progress",
        /// Another payload, an unknown outcome, a missing key or a result that cannot be read: the work did not run.
        Refused = "refused",
        /// The store did not answer: the work did not run.
        StoreFailed = "store-failed",
        /// Besides [`Fresh`](Self::Fresh) or [`TakenOver`](Self::TakenOver): the work was stopped, or its result ignored, without its lease.
        LeaseEnded = "lease-ended",
        /// Besides [`Fresh`](Self::Fresh) or [`TakenOver`](Self::TakenOver): the work is done, and the store did not answer for so long that it may be done again.
        NotRecorded = "not-recorded",
    }
}

/// Receives what each call found.
#[derive(Clone)]
pub(crate) struct Observer(pub(crate) Arc<dyn Fn(Observed) + Send + Sync>);

impl Default for Observer {
    fn default() -> Self {
        Self(Arc::new(|_| {}))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::test_world::{SECOND, World};
    use crate::{Event, OnUnknown};

    #[tokio::test(start_paused = true)]
    async fn each_call_is_observed_as_what_it_found() {
        let world = World::new();
        let seen: Arc<Mutex<Vec<Observed>>> = Arc::default();
        let owner = |on_unknown| {
            let seen = Arc::clone(&seen);
            let builder = world.builder().lease(30 * SECOND).key("/id");
            let builder = builder.on_unknown(on_unknown).record_timeout(SECOND);
            let builder = builder.observe(move |it| seen.lock().unwrap().push(it));
            builder.build().unwrap()
        };
        let (retry, dead_letter) = (owner(OnUnknown::Retry), owner(OnUnknown::DeadLetter));
        let work = || world.work(10 * SECOND);
        let observed = || std::mem::take(&mut *seen.lock().unwrap());

        retry.once("a", work).await.unwrap();
        retry.once("a", work).await.unwrap();
        assert_eq!(observed(), [Observed::Fresh, Observed::Repeated]);

        let crashed = timeout(SECOND, retry.once("b", work).into_future()).await;
        assert!(crashed.is_err());
        retry.once("b", work).await.unwrap_err();
        sleep(31 * SECOND).await;
        dead_letter.once("b", work).await.unwrap_err();
        retry.once("b", work).await.unwrap();
        let expected = [
            Observed::Fresh,
            Observed::InProgress,
            Observed::Refused,
            Observed::TakenOver,
        ];
        assert_eq!(observed(), expected);

        let event = Event::parse("{}").unwrap();
        retry.once_for(&event, work).await.unwrap_err();
        world.store.away_for(SECOND);
        retry.once("c", work).await.unwrap_err();
        sleep(2 * SECOND).await;
        let cut_off = async || {
            world.store.away_for(60 * SECOND);
            world.work(SECOND).await
        };
        assert!(!retry.once("c", cut_off).await.unwrap().recorded);
        sleep(60 * SECOND).await;
        let stopped = async || {
            world.store.away_for(60 * SECOND);
            world.work(60 * SECOND).await
        };
        retry.once("d", stopped).await.unwrap_err();
        let expected = [
            Observed::Refused,
            Observed::StoreFailed,
            Observed::Fresh,
            Observed::NotRecorded,
            Observed::Fresh,
            Observed::LeaseEnded,
        ];
        assert_eq!(observed(), expected);
        assert_eq!(Observed::ALL.map(Observed::as_str).len(), 8);
    }
}
