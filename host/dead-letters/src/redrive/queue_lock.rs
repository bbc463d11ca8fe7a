//! The lock of a queue: one run at a time moves its letters, whoever has started it and on whichever machine.
//!
//! Another tag of the queue asks a run to stop, whoever has started it: it looks for that every few seconds.
//!
//! The lock is a tag of the queue with the run, its end and its owner. SQS has no tag that only one of two writers gets, so a run writes the tag, waits until every other run that saw the queue unlocked has written too, and reads it again: the last one that wrote has the lock. It is renewed while the run works, and removed at its end. A run that leaves letters behind that it has sent, or may have sent, leaves the tag, too: another run would send them again.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::chain;
use backstop_queue::{Queue, QueueError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::tags::{Holder, STOP_TAG, TAG, held_by};
use super::{RedriveError, or_somebody};
use crate::requests::read;

/// How long a lock counts that is not renewed: its run was killed.
const LASTS: Duration = Duration::from_secs(300);

/// How often it is renewed.
const RENEWED: Duration = Duration::from_secs(20);

/// How often it is looked at.
const LOOKED_AT: Duration = Duration::from_secs(5);

/// A run writes its tag within this time after it saw the queue unlocked: two requests.
const QUICK: Duration = Duration::from_secs(1);

/// When a run has waited for so long, every other one that saw the queue unlocked has written.
const SETTLES: Duration = Duration::from_millis(1_500);

/// How long a run waits that was slower, and may have overwritten the tag of another one: that has renewed it by then.
const AFTER_SLOW: Duration = Duration::from_secs(30);

/// How often a run tries. Then it goes on without a lock: nobody knows whether SQS shows a tag at once, always.
const TRIES: u32 = 4;

/// This process, in the tag of a queue.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    let id = uuid::Uuid::new_v4().simple().to_string();
    id.chars().take(12).collect()
});

/// A run that wants the lock of its queue.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The dead-letter queue.
    pub queue: Arc<dyn Queue>,
    /// The run.
    pub run: String,
    /// Who works on it.
    pub who: String,
    /// A run that no longer counts, although it has left its tag.
    pub despite: Option<String>,
    /// Whether another machine may work on the same run.
    pub is_shared: bool,
}

/// A tag that keeps the run from nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    /// None, or one that does not count.
    None,
    Own,
}

/// What the tags of a queue say.
#[derive(Debug)]
struct Looked {
    tag: Tag,
    /// Who wants the run to stop.
    stopped_by: Option<String>,
}

/// The lock of one run. Without permission for tags, there is none.
#[derive(Debug)]
pub struct QueueLock {
    wanted: Wanted,
    /// Renews it until it has `ended`.
    renewal: Option<JoinHandle<()>>,
    ended: CancellationToken,
    stopped_by: Arc<OnceLock<String>>,
}

impl Wanted {
    /// Whether the lock could be had now: what a dry run looks at.
    pub async fn check(&self) -> Result<(), RedriveError> {
        match self.look().await {
            Err(RedriveError::Queue(error)) if !error.is_retryable() => Ok(()),
            looked => looked.map(|_| ()),
        }
    }

    async fn look(&self) -> Result<Tag, RedriveError> {
        Ok(self.look_closely().await?.tag)
    }

    async fn look_closely(&self) -> Result<Looked, RedriveError> {
        let tags = read(|| self.queue.tags()).await?;
        let asked = tags.get(STOP_TAG).and_then(|text| text.split_once(' '));
        let asked = asked.filter(|(run, _)| *run == self.run);
        let tag = match held_by(&tags) {
            Some(holder) => self.tag(holder)?,
            None => Tag::None,
        };
        Ok(Looked {
            tag,
            stopped_by: asked.map(|(_, who)| who.to_owned()),
        })
    }

    /// What the tag of a holder means for this run.
    fn tag(&self, holder: Holder) -> Result<Tag, RedriveError> {
        // On one machine, a file has kept other processes away from the run.
        if holder.run == self.run && (!self.is_shared || holder.process == *PROCESS) {
            return Ok(Tag::Own);
        }
        if holder.until > self.queue.now() {
            return Err(RedriveError::Locked { holder });
        }
        if holder.run == self.run || Some(&holder.run) == self.despite.as_ref() {
            return Ok(Tag::None);
        }
        Err(RedriveError::LeftBehind { holder })
    }

    async fn write(&self, lasts: Duration) -> Result<(), QueueError> {
        let now = self.queue.now().0;
        let holder = Holder {
            run: self.run.clone(),
            until: Timestamp(now.saturating_add(Milliseconds::from_duration(lasts).0.into())),
            process: PROCESS.clone(),
            who: self.who.clone(),
        };
        let text = holder.text();
        read(|| self.queue.set_tag(TAG, Some(&text))).await
    }

    /// Takes the lock, if the queue is unlocked. It is renewed from then on; if another run has it all the same, `stop` is cancelled.
    pub async fn take(self, stop: &CancellationToken) -> Result<QueueLock, RedriveError> {
        let ended = CancellationToken::new();
        let stopped_by = Arc::<OnceLock<String>>::default();
        let is_locked = match self.locked(stop).await {
            Ok(()) => true,
            Err(RedriveError::Queue(error)) if !error.is_retryable() => {
                let error = chain(&error);
                tracing::warn!(
                    queue = self.queue.url(),
                    error,
                    "the queue can't be locked: see to it that nobody else redrives it"
                );
                false
            }
            Err(error) => {
                // A tag that was written already would keep others away for nothing.
                let _ = self.remove().await;
                return Err(error);
            }
        };
        let renewal = is_locked.then(|| {
            let (wanted, ended, stop) = (self.clone(), ended.clone(), stop.clone());
            let stopped_by = Arc::clone(&stopped_by);
            tokio::spawn(async move {
                let asked = |who: String| {
                    if !stop.is_cancelled() {
                        let _ = stopped_by.set(who);
                        stop.cancel();
                    }
                };
                if let Err(error) = renew(&wanted, asked, &ended).await {
                    let error = chain(&error);
                    tracing::warn!(
                        queue = wanted.queue.url(),
                        error,
                        "the lock of the queue is lost: the run stops"
                    );
                    stop.cancel();
                }
            })
        });
        Ok(QueueLock {
            wanted: self,
            renewal,
            ended,
            stopped_by,
        })
    }

    async fn locked(&self, stop: &CancellationToken) -> Result<(), RedriveError> {
        for _ in 0..TRIES {
            let began = Instant::now();
            self.look().await?;
            self.write(LASTS).await?;
            let is_quick = began.elapsed() <= QUICK;
            if is_quick {
                sleep(SETTLES).await;
                // Without a tag, another run has had the lock and has ended.
                if self.look().await? == Tag::Own {
                    return self.forget_stop().await;
                }
            } else {
                self.remove().await?;
                let _ = stop.run_until_cancelled(sleep(AFTER_SLOW)).await;
            }
        }
        self.remove().await?;
        let unseen = format!("the tag {TAG} was not set and read within {QUICK:?}");
        Err(QueueError::new("TagQueue", "UnsupportedOperation", unseen).into())
    }

    /// Removes the tag that asks this run to stop: it has stopped before.
    async fn forget_stop(&self) -> Result<(), RedriveError> {
        if self.look_closely().await?.stopped_by.is_some() {
            read(|| self.queue.set_tag(STOP_TAG, None)).await?;
        }
        Ok(())
    }

    /// Removes the run's own tag.
    async fn remove(&self) -> Result<(), RedriveError> {
        if self.look().await? == Tag::Own {
            read(|| self.queue.set_tag(TAG, None)).await?;
        }
        Ok(())
    }
}

impl QueueLock {
    /// Why the run was stopped, if somebody has asked for it.
    pub fn stopped(&self) -> Option<String> {
        let who = self.stopped_by.get()?;
        Some(format!("{} has stopped it", or_somebody(who)))
    }

    /// The run has ended. If it leaves letters that it has sent, or may have sent, other runs are refused until it is resumed.
    pub async fn release(self, leaves_letters: bool) {
        self.ended.cancel();
        let Some(renewal) = self.renewal else { return };
        // A renewal that is under way would write the tag again.
        let _ = renewal.await;
        if let Err(error) = self.wanted.forget_stop().await {
            tracing::debug!(
                error = chain(&error),
                "the tag that asked the run to stop stays"
            );
        }
        let released = if leaves_letters {
            match self.wanted.look().await {
                Ok(_) => self.wanted.write(Duration::ZERO).await.map_err(Into::into),
                Err(error) => Err(error),
            }
        } else {
            self.wanted.remove().await
        };
        match released {
            // Another run has the lock: that was said when it was lost.
            Ok(()) | Err(RedriveError::Locked { .. } | RedriveError::LeftBehind { .. }) => {}
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(
                    queue = self.wanted.queue.url(),
                    error,
                    "the lock of the queue can't be removed: other runs are refused until `--despite` names this one"
                );
            }
        }
    }
}

/// Renews the lock until it `ended`, and says who has `asked` the run to stop. A request that fails is repeated for as long as the lock counts.
async fn renew(
    wanted: &Wanted,
    asked: impl Fn(String),
    ended: &CancellationToken,
) -> Result<(), RedriveError> {
    let (mut renewed, mut tried) = (Instant::now(), Instant::now());
    loop {
        tokio::select! {
            biased;
            () = sleep(LOOKED_AT) => {}
            () = ended.cancelled() => return Ok(()),
        }
        let again = async {
            if let Some(who) = wanted.look_closely().await?.stopped_by {
                asked(who);
            }
            if tried.elapsed() >= RENEWED {
                tried = Instant::now();
                wanted.write(LASTS).await?;
                renewed = Instant::now();
            }
            Ok(())
        };
        match again.await {
            Ok(()) => {}
            Err(RedriveError::Queue(_)) if renewed.elapsed() + RENEWED < LASTS => {}
            Err(error) => return Err(error),
        }
    }
}
