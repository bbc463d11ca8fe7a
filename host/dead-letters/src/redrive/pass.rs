//! One step: letters of the set are received, sent to their targets and deleted, several batches at the same time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::{lock, unpoisoned};
use backstop_queue::{BATCH_ENTRIES, Message, QueueError, rounds};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::RedriveError;
use super::activity::Phase;
use super::batch::{Mover, delete, move_letters};
use super::entry::Entry;
use super::ledger::Ledger;
use super::others::Next;
use super::work::{Class, Work};
use crate::letter::Letter;
use crate::requests::PATIENT;

/// Batches under way at the same time.
const WORKERS: usize = 16;

/// How long one receive waits for letters.
const POLL: Duration = Duration::from_secs(1);

/// From this many receives without a letter of the set, there are no more: each one without any letter counts as many with letters that arrived later.
const EMPTY: u32 = 50;

/// As many as one receive without any letter counts.
const NOTHING: u32 = 25;

/// The time between two receives while others hold what is left.
const PAUSE: Duration = Duration::from_secs(1);

/// The most letters that are held and not moved: SQS allows 120,000 in flight.
const MOST_HELD: usize = 100_000;

/// How a step has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassEnd {
    /// It has moved as many letters as it may.
    Quota,
    /// There are no more letters.
    Empty,
    /// There are no more letters but some that others hold, and did not give back in time.
    Held,
    /// It was stopped.
    Stopped,
    /// So many other letters are in the queue that no more can be received.
    Full,
    /// Its time is over, and it has not moved everything yet.
    Paused,
}

/// Which letters of the set a step moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    /// Those that an earlier process has sent, or was sending, and has not deleted; no others.
    Unsettled,
    /// This many further ones.
    Further(u64),
}

/// One step.
pub(super) struct Pass {
    work: Arc<Work>,
    mover: Mover,
    letters: Letters,
    /// Letters that it may still take.
    quota: AtomicU64,
    /// Receives without a letter of the set, one after the other.
    empty: AtomicU32,
    /// Until when it goes on although nothing comes.
    until: Instant,
    /// When it ends, even if there is more to do.
    pause: Option<Instant>,
    /// Letters that it has seen.
    seen: Mutex<HashSet<String>>,
    failure: Mutex<Option<RedriveError>>,
}

/// Moves letters. If letters are missing, it receives until `until` at least, and until `pause` at most.
pub(super) async fn run(
    work: &Arc<Work>,
    letters: Letters,
    until: Instant,
    pause: Option<Instant>,
) -> Result<PassEnd, RedriveError> {
    let is_serial = work.description.fifo || work.setup.editor.is_some();
    let workers = if is_serial {
        1
    } else {
        work.pace.workers(WORKERS)
    };
    work.others.begin();
    let pass = Arc::new(Pass {
        mover: Mover::new(work),
        work: Arc::clone(work),
        letters,
        quota: AtomicU64::new(match letters {
            Letters::Unsettled => u64::MAX,
            Letters::Further(quota) => quota,
        }),
        empty: AtomicU32::new(0),
        until,
        pause,
        seen: Mutex::default(),
        failure: Mutex::default(),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let pass = Arc::clone(&pass);
        tasks.spawn(async move { pass.work_on().await });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            pass.fail(RedriveError::Io(std::io::Error::other(error)));
        }
    }
    let Ok(pass) = Arc::try_unwrap(pass).map_err(drop) else {
        return Err(RedriveError::Io(std::io::Error::other("a task goes on")));
    };
    let end = pass.end().unwrap_or(PassEnd::Quota);
    let failure = unpoisoned(pass.failure.into_inner());
    pass.mover.hold.release().await;
    match failure {
        Some(error) => Err(error),
        None => Ok(end),
    }
}

impl Pass {
    /// Keeps the first error. All workers end.
    fn fail(&self, error: RedriveError) {
        lock(&self.failure).get_or_insert(error);
    }

    /// Why it has ended, if it has.
    fn end(&self) -> Option<PassEnd> {
        if self.work.setup.stop.is_cancelled() || lock(&self.failure).is_some() {
            return Some(PassEnd::Stopped);
        }
        if self.work.left() == Some(0) {
            return Some(PassEnd::Empty);
        }
        if self.letters == Letters::Unsettled && self.work.ledger(Ledger::unsettled) == 0 {
            return Some(PassEnd::Quota);
        }
        if self.mover.hold.len() >= MOST_HELD {
            return Some(PassEnd::Full);
        }
        let now = Instant::now();
        if self.is_empty() && now >= self.until {
            match self.work.next(now) {
                Next::Gone => return Some(PassEnd::Empty),
                Next::Held => return Some(PassEnd::Held),
                Next::Receive | Next::Wait => {}
            }
        }
        let is_paused = self.pause.is_some_and(|pause| now >= pause);
        is_paused.then_some(PassEnd::Paused)
    }

    /// Whether nothing more of the set comes.
    fn is_empty(&self) -> bool {
        self.empty.load(Ordering::Relaxed) >= EMPTY
    }

    /// Takes a part of the quota: at most as many letters as one batch has.
    fn reserve(&self) -> Option<usize> {
        if self.end().is_some() {
            return None;
        }
        let most = if self.work.setup.editor.is_some() {
            1
        } else {
            self.work.pace.portion(BATCH_ENTRIES)
        };
        let mut taken = 0;
        let _ = self
            .quota
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                taken = usize::try_from(left).unwrap_or(most).min(most);
                left.checked_sub(u64::try_from(taken).unwrap_or(0))
            });
        (taken > 0).then_some(taken)
    }

    async fn work_on(&self) {
        while let Some(reserved) = self.reserve() {
            let stopped = self.work.setup.stop.cancelled();
            tokio::select! {
                biased;
                () = stopped => return,
                () = self.work.pace.wait(reserved) => {}
            }
            match self.round(reserved).await {
                Ok(taken) => {
                    let unused = u64::try_from(reserved.saturating_sub(taken)).unwrap_or(0);
                    self.quota.fetch_add(unused, Ordering::Relaxed);
                }
                Err(error) => return self.fail(error),
            }
            if self.is_empty()
                && let Err(error) = self.wait_for_others().await
            {
                return self.fail(error);
            }
        }
    }

    /// Asks if others hold what is left. If so, it waits for a moment.
    async fn wait_for_others(&self) -> Result<(), RedriveError> {
        let setup = &self.work.setup;
        let held = self.work.others.ask(&setup.queue, &self.mover.hold).await?;
        if self.work.next(Instant::now()) == Next::Wait {
            if let Some(held) = held {
                let phase = Phase::WaitingForOthers(held);
                setup.activity.change(|it| it.phase = phase);
            }
            let _ = setup.stop.run_until_cancelled(sleep(PAUSE)).await;
        }
        Ok(())
    }

    /// Receives letters and moves those of the set. Returns how many of the quota it has used.
    async fn round(&self, most: usize) -> Result<usize, RedriveError> {
        let received = self.receive(most).await?;
        let (mut to_move, mut to_delete, mut came_back) = (Vec::new(), Vec::new(), Vec::new());
        let count = received.len();
        let (mut taken, mut is_new) = (0, false);
        for message in received {
            let id = message.id.clone();
            // It came again although it is held: the latest handle counts.
            if self.mover.hold.add(&id, message.receipt_handle.clone()) {
                continue;
            }
            let is_unseen = lock(&self.seen).insert(id.clone());
            let letter = Letter::of(message);
            let class = self.work.classify(&letter);
            // A queue that grows has new letters without end.
            is_new |= is_unseen && class.was_there();
            match class {
                Class::Move | Class::Repeat if self.mover.is_blocked(&letter) => {}
                Class::Move if self.letters == Letters::Unsettled => self.mover.block(&letter),
                Class::Move => {
                    taken += 1;
                    to_move.push(letter);
                }
                // The steps have counted it already.
                Class::Repeat => to_move.push(letter),
                Class::Delete => to_delete.push(id),
                Class::CameBack(moved) => {
                    self.mover.block(&letter);
                    came_back.push((id, moved));
                }
                Class::Leave | Class::Later => self.mover.block(&letter),
            }
        }
        if is_new {
            self.empty.store(0, Ordering::Relaxed);
        } else {
            let counts = if count == 0 { NOTHING } else { 1 };
            self.empty.fetch_add(counts, Ordering::Relaxed);
        }
        if to_move.is_empty() && to_delete.is_empty() {
            self.work.others.passed(count);
        } else {
            self.work.others.forget();
        }
        let came_back = self.work.unknown(came_back);
        if !came_back.is_empty() {
            let at = self.work.setup.queue.now();
            let letters = came_back;
            self.work.record(&[Entry::CameBack { at, letters }]).await?;
        }
        delete(&self.mover, &to_delete).await?;
        for round in self.rounds(to_move) {
            let round: Vec<_> = round
                .into_iter()
                .filter(|it| !self.mover.is_blocked(it))
                .collect();
            move_letters(&self.mover, round).await?;
        }
        Ok(taken)
    }

    async fn receive(&self, most: usize) -> Result<Vec<Message>, RedriveError> {
        let (queue, visibility) = (&self.work.setup.queue, self.mover.hold.visibility());
        let may_repeat = |error: &QueueError| error.is_retryable() && self.end().is_none();
        let request = || queue.receive(most, POLL, visibility);
        match PATIENT.request(request, may_repeat).await {
            // Nothing more is needed, so this is no reason to fail.
            Err(error) if error.is_retryable() && self.end().is_some() => Ok(Vec::new()),
            received => Ok(received?),
        }
    }

    /// Parts of a batch, each with at most one letter of a group: the order of a group is kept even if a letter is refused.
    fn rounds(&self, letters: Vec<Letter>) -> Vec<Vec<Letter>> {
        if !self.work.description.fifo {
            return vec![letters];
        }
        rounds(letters, |it| it.message.group.clone())
    }
}
