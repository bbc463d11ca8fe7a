//! Virtual time, and a store in memory that fails when a test tells it to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::{Error, Timestamp};
use backstop_time::{Clock, Sleep, TokioClock};
use tokio::time::{Instant, sleep};

use crate::store::{Claim, Claimed, Completion, Record, Renewal, Store, StoreError};
use crate::{Completed, Idempotency, IdempotencyBuilder, MemoryStore, RecordFormat};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const START: Timestamp = Timestamp(1_767_225_600_000);

/// Tokio's paused time, as a time of day that one owner can see late.
#[derive(Debug, Clone)]
pub(crate) struct VirtualClock {
    pub(crate) start: Instant,
    pub(crate) ahead: Arc<AtomicU64>,
}

impl VirtualClock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            ahead: Arc::default(),
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> std::time::Instant {
        TokioClock.now()
    }

    fn time(&self) -> Timestamp {
        let ahead = Duration::from_millis(self.ahead.load(Relaxed));
        START.plus(self.start.elapsed() + ahead)
    }

    fn sleep_until(&self, until: std::time::Instant) -> Sleep {
        TokioClock.sleep_until(until)
    }
}

/// A store that can be away, lose its answers, and refuse results.
#[derive(Debug, Default)]
pub(crate) struct Shaky {
    pub(crate) records: MemoryStore,
    pub(crate) is_away: AtomicBool,
    pub(crate) hangs: AtomicBool,
    pub(crate) loses_answers: AtomicBool,
    pub(crate) refuses_results: AtomicBool,
    pub(crate) requests: AtomicU32,
}

impl Shaky {
    pub(crate) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.requests.fetch_add(1, Relaxed);
        let error = |may_have_happened| StoreError {
            error: Error::new("ECONNRESET", ""),
            may_have_happened,
            refused_result: false,
        };
        sleep(Duration::from_millis(1)).await;
        if self.hangs.load(Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.is_away.load(Relaxed) {
            return Err(error(false));
        }
        let answer = call.await;
        if self.loses_answers.load(Relaxed) {
            return Err(error(true));
        }
        answer
    }

    pub(crate) fn only(&self) -> Option<Record> {
        let keys = self.records.keys();
        assert!(keys.len() <= 1, "{keys:?}");
        self.records.get(keys.first()?)
    }

    /// Away from now on, for this long.
    pub(crate) fn away_for(self: &Arc<Self>, duration: Duration) {
        self.is_away.store(true, Relaxed);
        let store = Arc::clone(self);
        tokio::spawn(async move {
            sleep(duration).await;
            store.is_away.store(false, Relaxed);
        });
    }
}

#[async_trait]
impl Store for Shaky {
    fn format(&self) -> RecordFormat {
        RecordFormat::Python
    }

    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.answer(self.records.claim(claim)).await
    }

    async fn renew(&self, renewal: &Renewal<'_>) -> Result<bool, StoreError> {
        self.answer(self.records.renew(renewal)).await
    }

    async fn complete(&self, completion: &Completion<'_>) -> Result<bool, StoreError> {
        if self.refuses_results.load(Relaxed) && completion.result.is_ok() {
            return Err(StoreError {
                error: Error::new("ValidationException", "Item size has exceeded the maximum"),
                may_have_happened: false,
                refused_result: true,
            });
        }
        self.answer(self.records.complete(completion)).await
    }

    async fn release(&self, key: &str, owner: &str) -> Result<(), StoreError> {
        self.answer(self.records.release(key, owner)).await
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<Shaky>,
    pub(crate) clock: VirtualClock,
    pub(crate) effects: Arc<AtomicU32>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            store: Arc::default(),
            clock: VirtualClock::new(),
            effects: Arc::default(),
        }
    }

    pub(crate) fn builder(&self) -> IdempotencyBuilder {
        Idempotency::builder(Arc::clone(&self.store), "orders").clock(self.clock.clone())
    }

    pub(crate) fn owner(&self) -> Idempotency {
        self.builder().lease(30 * SECOND).build().unwrap()
    }

    /// Work that takes this long and then has its effect.
    pub(crate) async fn work(&self, duration: Duration) -> Result<u32, Error> {
        sleep(duration).await;
        Ok(self.effects.fetch_add(1, Relaxed) + 1)
    }

    pub(crate) fn effects(&self) -> u32 {
        self.effects.load(Relaxed)
    }
}

pub(crate) fn fresh(result: u32) -> Completed<u32> {
    Completed {
        result,
        repeated: false,
        recorded: true,
    }
}

pub(crate) fn repeated(result: u32) -> Completed<u32> {
    Completed {
        repeated: true,
        ..fresh(result)
    }
}
