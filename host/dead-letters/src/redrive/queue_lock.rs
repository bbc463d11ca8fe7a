//! The lock of a queue: one run at a time moves its letters, whoever has started it and on whichever machine.
//!
//! It is a tag of the queue with the run, its end and its owner. SQS has no tag that only one of two writers gets, so a run writes the tag, waits until every other run that saw the queue unlocked has written too, and reads it again: the last one that wrote has the lock. It is renewed while the run works, and removed at its end. A run that leaves letters behind that it has sent, or may have sent, leaves the tag, too: another run would send them again.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::{chain, cut};
use backstop_queue::{Queue, QueueError};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::RedriveError;
use crate::requests::read;

/// The key of the tag.
pub const TAG: &str = "backstop-redrive";

/// How long a lock counts that is not renewed: its run was killed.
const LASTS: Duration = Duration::from_secs(300);

/// How often it is renewed.
const RENEWED: Duration = Duration::from_secs(60);

/// A run writes its tag within this time after it saw the queue unlocked, or looks again.
const QUICK: Duration = Duration::from_millis(500);

/// When a run has waited for so long, every other one that saw the queue unlocked has written.
const SETTLES: Duration = Duration::from_secs(1);

/// How often a run tries. Then it goes on without a lock: nobody knows whether SQS shows a tag at once, always.
const LOOKS: u32 = 5;

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
    is_locked: bool,
    renewing: CancellationToken,
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
        let Some(text) = tags.get(TAG) else {
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
        if Some(&holder.run) == self.despite.as_ref() {
            return Ok(Tag::None);
        }
        if holder.until > self.queue.now() {
            return Err(RedriveError::Locked { holder });
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
        let renewing = CancellationToken::new();
        let is_locked = match self.locked().await {
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
            Err(error) => return Err(error),
        };
        if is_locked {
            let (wanted, ended, stop) = (self.clone(), renewing.clone(), stop.clone());
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
            });
        }
        Ok(QueueLock {
            wanted: self,
            is_locked,
            renewing,
        })
    }

    async fn locked(&self) -> Result<(), RedriveError> {
        for _ in 0..LOOKS {
            let began = Instant::now();
            self.look().await?;
            self.write(LASTS).await?;
            let is_quick = began.elapsed() <= QUICK;
            sleep(SETTLES).await;
            // Without a tag, another run has had the lock and has ended.
            if self.look().await? == Tag::Own && is_quick {
                return Ok(());
            }
        }
        let unseen = format!("the tag {TAG} was not set and read within {QUICK:?}");
        Err(QueueError::new("TagQueue", "UnsupportedOperation", unseen).into())
    }
}

impl QueueLock {
    /// The run has ended. If it leaves letters that it has sent, or may have sent, other runs are refused until it is resumed.
    pub async fn release(self, leaves_letters: bool) {
        self.renewing.cancel();
        if !self.is_locked {
            return;
        }
        let released = async {
            self.wanted.look().await?;
            if leaves_letters {
                self.wanted.write(Duration::ZERO).await?;
            } else {
                read(|| self.wanted.queue.set_tag(TAG, None)).await?;
            }
            Ok::<_, RedriveError>(())
        };
        if let Err(error) = released.await {
            let error = chain(&error);
            tracing::warn!(
                queue = self.wanted.queue.url(),
                error,
                "the lock of the queue can't be removed: it ends after five minutes"
            );
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
