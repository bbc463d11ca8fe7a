//! The lock of a queue: one run at a time moves its letters, whoever has started it and on whichever machine.
//!
//! It is a tag of the queue with the run, its end and its owner. SQS has no tag that only one of two writers gets, so a run writes the tag, waits until every other run that saw the queue unlocked has written too, and reads it again: the last one that wrote has the lock. It is renewed while the run works, and removed at its end. A run that leaves letters behind that it has sent, or may have sent, leaves the tag, too: another run would send them again.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::{chain, cut};
use backstop_queue::{Queue, QueueError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::RedriveError;
use crate::requests::read;

/// The key of the tag.
pub const TAG: &str = "backstop-redrive";

/// How long a lock counts that is not renewed: its run was killed.
const LASTS: Duration = Duration::from_secs(300);

/// How often it is looked at and renewed.
const RENEWED: Duration = Duration::from_secs(20);

/// A run writes its tag within this time after it saw the queue unlocked: two requests.
const QUICK: Duration = Duration::from_secs(1);

/// When a run has waited for so long, every other one that saw the queue unlocked has written.
const SETTLES: Duration = Duration::from_millis(1_500);

/// How long a run waits that was slower, and may have overwritten the tag of another one: that has renewed it by then.
const AFTER_SLOW: Duration = Duration::from_secs(30);

/// How often a run tries. Then it goes on without a lock: nobody knows whether SQS shows a tag at once, always.
const TRIES: u32 = 4;

/// The most bytes of an owner in a tag. A value has 256 characters at most.
const WHO_BYTES: usize = 100;

/// Who has the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run.
    pub run: String,
    /// When the lock ends if it is not renewed.
    pub until: Timestamp,
    /// Who has started the run.
    pub who: String,
}

impl Holder {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        Some(Self {
            run: parts.next()?.to_owned(),
            until: Timestamp(parts.next()?.parse().ok()?),
            who: parts.next().unwrap_or_default().to_owned(),
        })
    }

    /// The value of the tag: SQS allows letters, digits, spaces and some signs.
    fn text(&self) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.:/=+-@ ".contains(c);
        let mut who = self.who.replace(|c| !is_allowed(c), "_");
        cut(&mut who, WHO_BYTES);
        format!("{} {} {}", self.run, self.until.0, who.trim())
            .trim()
            .to_owned()
    }
}

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
}

/// A tag that keeps the run from nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    /// None, or one that does not count.
    None,
    Own,
}

/// The lock of one run. Without permission for tags, there is none.
#[derive(Debug)]
pub struct QueueLock {
    wanted: Wanted,
    /// Renews it until it has `ended`.
    renewal: Option<JoinHandle<()>>,
    ended: CancellationToken,
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
        let tags = read(|| self.queue.tags()).await?;
        let Some(text) = tags.get(TAG).filter(|text| !text.is_empty()) else {
            return Ok(Tag::None);
        };
        let holder = Holder::parse(text).unwrap_or_else(|| Holder {
            run: text.clone(),
            until: Timestamp(0),
            who: String::new(),
        });
        if holder.run == self.run {
            return Ok(Tag::Own);
        }
        if holder.until > self.queue.now() {
            return Err(RedriveError::Locked { holder });
        }
        if Some(&holder.run) == self.despite.as_ref() {
            return Ok(Tag::None);
        }
        Err(RedriveError::LeftBehind { holder })
    }

    async fn write(&self, lasts: Duration) -> Result<(), QueueError> {
        let now = self.queue.now().0;
        let holder = Holder {
            run: self.run.clone(),
            until: Timestamp(now.saturating_add(Milliseconds::from_duration(lasts).0.into())),
            who: self.who.clone(),
        };
        let text = holder.text();
        read(|| self.queue.set_tag(TAG, Some(&text))).await
    }

    /// Takes the lock, if the queue is unlocked. It is renewed from then on; if another run has it all the same, `stop` is cancelled.
    pub async fn take(self, stop: &CancellationToken) -> Result<QueueLock, RedriveError> {
        let ended = CancellationToken::new();
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
            tokio::spawn(async move {
                if let Err(error) = renew(&wanted, &ended).await {
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
                    return Ok(());
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

    /// Removes the run's own tag.
    async fn remove(&self) -> Result<(), RedriveError> {
        if self.look().await? == Tag::Own {
            read(|| self.queue.set_tag(TAG, None)).await?;
        }
        Ok(())
    }
}

impl QueueLock {
    /// The run has ended. If it leaves letters that it has sent, or may have sent, other runs are refused until it is resumed.
    pub async fn release(self, leaves_letters: bool) {
        self.ended.cancel();
        let Some(renewal) = self.renewal else { return };
        // A renewal that is under way would write the tag again.
        let _ = renewal.await;
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

/// Renews the lock until it `ended`. A request that fails is repeated for as long as the lock counts.
async fn renew(wanted: &Wanted, ended: &CancellationToken) -> Result<(), RedriveError> {
    let mut renewed = Instant::now();
    loop {
        tokio::select! {
            () = sleep(RENEWED) => {}
            () = ended.cancelled() => return Ok(()),
        }
        let again = async {
            wanted.look().await?;
            Ok(wanted.write(LASTS).await?)
        };
        match again.await {
            Ok(()) => renewed = Instant::now(),
            Err(RedriveError::Queue(_)) if renewed.elapsed() + RENEWED < LASTS => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_what_its_tag_says() {
        let holder = Holder {
            run: "20261125-230000-7f3a".to_owned(),
            until: Timestamp(1_795_000_000_000),
            who: "ana@box (night shift) ✓".to_owned(),
        };
        let text = holder.text();
        assert_eq!(
            text,
            "20261125-230000-7f3a 1795000000000 ana@box _night shift_ _"
        );
        assert_eq!(Holder::parse(&text).unwrap().run, holder.run);
        let long = Holder {
            who: "x".repeat(1_000),
            ..holder
        };
        assert!(long.text().len() < 256);
        for odd in ["", "run", "run soon ana"] {
            assert!(Holder::parse(odd).is_none(), "{odd}");
        }
    }
}
