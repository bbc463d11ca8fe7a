//! What the results of requests mean: outcomes, and entries that are sent again.

use std::num::NonZeroU32;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use backstop_core::decision::{
    Action, Bounds, FallbackCause, FallbackKind, LONGEST_DELAY, Reach, decide,
};
use backstop_core::failure::{Error, Failure, Milliseconds, random};
use tokio::time::Instant;

use crate::deliveries::{Deliveries, Finished};
use crate::held::{Held, Meta};
use crate::outcome::{Status, Undelivered};
use crate::target::{EntryResult, RequestError, Target};

/// The shortest pauses before an entry is sent again that the service may have.
const AFTER_UNKNOWN: Backoff = Backoff::milliseconds(2_000, 20_000);

/// The code of an entry that the response does not mention.
const UNANSWERED: &str = "Unanswered";

impl<T: Target, S> Deliveries<T, S> {
    /// Stops, and ends everything that is not in flight.
    pub(crate) fn stop_because(&mut self, error: Option<Error>) {
        if self.stopped {
            return;
        }
        (self.stopped, self.stopped_by) = (true, error);
        for held in self.schedule.drain() {
            self.end_stopped(held);
        }
    }

    fn end_stopped(&mut self, held: Held<T::Entry>) {
        let why = held.meta.unfit.as_deref().cloned().unwrap_or_else(|| {
            let error = held.meta.last_error.as_deref().cloned();
            Undelivered::Stopped(error.or_else(|| self.stopped_by.clone()))
        });
        self.end(held, Status::Undelivered(why));
    }

    /// An entry has its outcome.
    pub(crate) fn end(&mut self, held: Held<T::Entry>, status: Status<T::Receipt>) {
        let counts = &mut self.counts;
        match &status {
            Status::Delivered(_) => {
                counts.delivered += 1;
                counts.bytes += u64::try_from(held.meta.bytes).unwrap_or(u64::MAX);
                counts.possibly_twice += u64::from(held.meta.unknown > 0);
            }
            Status::Superseded => counts.superseded += 1,
            Status::Undelivered(_) => counts.undelivered += 1,
        }
        self.outcomes.push_back(held.end(status));
    }

    /// An entry that was in flight has its outcome.
    fn settle(&mut self, held: Held<T::Entry>, status: Status<T::Receipt>, now: Instant) {
        let delivered = !matches!(status, Status::Undelivered(_));
        if self.stopped {
            self.schedule.remove(&held);
            let group = held.meta.group.clone();
            self.end(held, status);
            for held in group.map_or_else(Vec::new, |it| self.schedule.drain_group(&it)) {
                self.end_stopped(held);
            }
        } else {
            let ended = self.schedule.settle(&held, delivered, now);
            self.end(held, status);
            for (held, why) in ended {
                self.end(held, Status::Undelivered(why));
            }
        }
    }

    fn fail(&mut self, held: Held<T::Entry>, why: Undelivered, now: Instant) {
        self.settle(held, Status::Undelivered(why), now);
    }

    /// A request has ended.
    pub(crate) fn finish(&mut self, finished: Finished<T>, now: Instant) {
        let batch = finished.entries.into_iter().zip(finished.metas);
        let batch = batch.map(|(entry, meta)| Held { entry, meta });
        match finished.result {
            Ok(results) => {
                let unanswered = std::iter::repeat_with(|| EntryResult::Unanswered);
                for (held, result) in batch.zip(results.into_iter().chain(unanswered)) {
                    self.finish_entry(held, result, now);
                }
            }
            Err(RequestError::Rejected(error)) => {
                let mut batch: Vec<_> = batch.collect();
                if batch.len() > 1 && !self.stopped {
                    self.schedule.halve(batch);
                } else if batch.len() > 1 {
                    // The entries have no fault that is known.
                    for held in batch {
                        self.fail(held, Undelivered::Stopped(Some(error.clone())), now);
                    }
                } else if let Some(held) = batch.pop() {
                    self.fail(held, Undelivered::Rejected(error), now);
                }
            }
            Err(RequestError::Failed(error)) => {
                batch.for_each(|held| self.retry(held, error.clone(), Duration::ZERO, now));
            }
            Err(RequestError::Unknown(error)) => {
                for mut held in batch {
                    let pause = self.pause(&mut held);
                    self.retry(held, error.clone(), pause, now);
                }
            }
            Err(RequestError::Fatal(error)) => {
                self.stop_because(Some(error.clone()));
                for held in batch {
                    self.fail(held, Undelivered::Stopped(Some(error.clone())), now);
                }
            }
        }
    }

    fn finish_entry(
        &mut self,
        mut held: Held<T::Entry>,
        result: EntryResult<T::Receipt>,
        now: Instant,
    ) {
        match result {
            EntryResult::Delivered(receipt) => self.settle(held, Status::Delivered(receipt), now),
            EntryResult::Rejected(error) => {
                self.fail(held, Undelivered::Rejected(error), now);
            }
            EntryResult::Failed(error) => self.retry(held, error, Duration::ZERO, now),
            EntryResult::Unanswered => {
                let pause = self.pause(&mut held);
                let text = "the response does not mention the entry";
                self.retry(held, Error::new(UNANSWERED, text), pause, now);
            }
        }
    }

    /// Nobody knows whether the service has an entry. Returns the shortest pause before it is sent again.
    fn pause(&self, held: &mut Held<T::Entry>) -> Duration {
        held.meta.unknown += 1;
        if self.settings.target.is_repeatable(&held.entry) {
            return Duration::ZERO;
        }
        let attempt = NonZeroU32::new(held.meta.attempts).unwrap_or(NonZeroU32::MIN);
        let random = random(&self.message_id(&held.meta), attempt);
        AFTER_UNKNOWN.wait(held.meta.unknown, random)
    }

    /// An attempt failed, and the policy decides. The next one comes after this pause at the earliest.
    fn retry(&mut self, mut held: Held<T::Entry>, error: Error, pause: Duration, now: Instant) {
        if self.stopped {
            return self.fail(held, Undelivered::Stopped(Some(error)), now);
        }
        match self.decide(&held.meta, error.clone(), now) {
            Action::Retry { delay } => {
                held.meta.previous_delay = Some(delay);
                held.meta.last_error = Some(Box::new(error));
                let delay = delay.as_duration().max(pause);
                self.schedule.delay(held, now + delay);
            }
            Action::DeadLetter { reason } | Action::Discard { reason } => {
                self.fail(held, Undelivered::GivenUp { error, reason }, now);
            }
        }
    }

    fn message_id(&self, meta: &Meta) -> String {
        format!("{:016x}-{}", self.settings.seed, meta.index)
    }

    fn decide(&self, meta: &Meta, error: Error, now: Instant) -> Action {
        let message_id = self.message_id(meta);
        let attempt = NonZeroU32::new(meta.attempts).unwrap_or(NonZeroU32::MIN);
        let failure = Failure {
            random: random(&message_id, attempt),
            message_id,
            source: self.settings.target.source().to_owned(),
            attempt,
            age: Milliseconds::from_duration(now - meta.accepted),
            failed_at: self.began.1.plus(now - self.began.0),
            previous_delay: meta.previous_delay,
            error: error.within_bounds(),
            attributes: Vec::new(),
        };
        let answer = self.settings.policy.answer(&failure).validate();
        let answer = answer.map_err(|invalid| {
            let text = format!("the policy answered {invalid}");
            FallbackCause::new(FallbackKind::InvalidAnswer, text)
        });
        let reach = Reach::visibility(LONGEST_DELAY, failure.age);
        decide(&failure, answer, &Bounds::default(), reach).action
    }
}
