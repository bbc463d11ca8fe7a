//! A delivery at work: a stream of outcomes.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use backstop_core::clock;
use backstop_core::decision::{
    Action, Bounds, FallbackCause, FallbackKind, LONGEST_DELAY, Reach, decide,
};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp, random};
use futures_util::{FutureExt, Stream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::delivery::{AfterFailure, Delivery};
use crate::held::{Held, Meta};
use crate::outcome::{Counts, Outcome, Status, Undelivered};
use crate::schedule::{Accepted, Schedule};
use crate::target::{EntryResult, RequestError, Target};

/// The code of an entry that the response does not mention.
const UNANSWERED: &str = "Unanswered";

/// The code of a request whose code panicked.
const PANICKED: &str = "Panicked";

/// The code of a request that was abandoned.
const ABANDONED: &str = "Abandoned";

/// The outcomes of a delivery that was [started](Delivery::start), in the order in which they are known.
///
/// It works while it is polled. If outcomes are not taken, no more entries are taken from the input. Requests in flight go on by themselves.
///
/// Each entry that was taken from the input has one outcome, also after a [stop](Self::stop). If this is dropped early, requests in flight are cut, and the entries without an outcome are lost with it: stop it and read it to its end instead, or [`abandon`](Self::abandon) it first.
///
/// ```
/// use futures_util::{Stream, StreamExt};
/// # use backstop_deliver::{Delivery, Status, Target};
/// # async fn deliver<T: Target>(delivery: Delivery<T>, entries: impl Stream<Item = T::Entry>) -> Result<(), Box<dyn std::error::Error>> {
/// let mut outcomes = delivery.start(entries)?;
/// while let Some(outcome) = outcomes.next().await {
///     if let Status::Undelivered(why) = &outcome.status {
///         eprintln!("entry {}: {why}", outcome.index);
///         if outcomes.counts().undelivered > 1_000 {
///             outcomes.stop();
///         }
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Deliveries<T: Target, S> {
    settings: Delivery<T>,
    input: Option<Pin<Box<S>>>,
    schedule: Schedule<T::Entry>,
    requests: JoinSet<Finished<T>>,
    outcomes: VecDeque<Outcome<T::Entry, T::Receipt>>,
    counts: Counts,
    stopped: bool,
    stopped_by: Option<Error>,
    abandoned: CancellationToken,
    timer: Pin<Box<Sleep>>,
    /// The same moment on both clocks.
    began: (Instant, Timestamp),
}

/// A request that has ended, with its entries.
struct Finished<T: Target> {
    entries: Vec<T::Entry>,
    metas: Vec<Meta>,
    result: Result<Vec<EntryResult<T::Receipt>>, RequestError>,
}

/// Nothing in it is pinned except for what is boxed.
impl<T: Target, S> Unpin for Deliveries<T, S> {}

impl<T: Target, S: Stream<Item = T::Entry>> Deliveries<T, S> {
    pub(crate) fn new(settings: Delivery<T>, input: S) -> Self {
        let began = Instant::now();
        let stop_groups = settings.after_failure == AfterFailure::StopGroup;
        let target = &settings.target;
        Self {
            schedule: Schedule::new(target.limits(), target.duplicates(), stop_groups),
            settings,
            input: Some(Box::pin(input)),
            requests: JoinSet::new(),
            outcomes: VecDeque::new(),
            counts: Counts::default(),
            stopped: false,
            stopped_by: None,
            abandoned: CancellationToken::new(),
            timer: Box::pin(sleep_until(began)),
            began: (began, clock::now()),
        }
    }

    /// What it has done so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The entries in requests, waiting for their due time, or waiting for another entry.
    pub fn held(&self) -> usize {
        self.schedule.count()
    }

    /// The requests in flight.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// The error that no request can succeed with, and that stopped the delivery.
    pub const fn stopped_by(&self) -> Option<&Error> {
        self.stopped_by.as_ref()
    }

    /// Stops: no more entries are taken from the input or sent. Requests in flight are finished; all other entries have the outcome [`Stopped`](Undelivered::Stopped).
    pub fn stop(&mut self) {
        self.stop_because(None);
    }

    /// [Stops](Self::stop), and cuts the requests in flight. Their entries have an unknown result and the outcome [`Stopped`](Undelivered::Stopped).
    pub fn abandon(&mut self) {
        self.stop();
        self.abandoned.cancel();
    }

    /// The rest of the input, after a stop.
    pub fn into_input(self) -> Option<Pin<Box<S>>> {
        self.input
    }

    fn stop_because(&mut self, error: Option<Error>) {
        if self.stopped {
            return;
        }
        (self.stopped, self.stopped_by) = (true, error);
        for held in self.schedule.drain() {
            self.end_stopped(held);
        }
    }

    fn end_stopped(&mut self, held: Held<T::Entry>) {
        let error = held
            .meta
            .last_error
            .clone()
            .or_else(|| self.stopped_by.clone());
        let why = held
            .meta
            .unfit
            .clone()
            .unwrap_or(Undelivered::Stopped(error));
        self.end(held, Status::Undelivered(why));
    }

    fn end(&mut self, held: Held<T::Entry>, status: Status<T::Receipt>) {
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
        let mut rest = Vec::new();
        if self.stopped {
            self.schedule.forget(&held);
            let group = held.meta.group.as_ref();
            rest.extend(
                group
                    .into_iter()
                    .flat_map(|group| self.schedule.drain_group(group)),
            );
            self.end(held, status);
            for held in rest {
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

    fn finish(&mut self, finished: Finished<T>, now: Instant) {
        let Finished {
            entries,
            metas,
            result,
        } = finished;
        let batch = entries.into_iter().zip(metas);
        let batch = batch.map(|(entry, meta)| Held { entry, meta });
        match result {
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
                        let why = Undelivered::Stopped(Some(error.clone()));
                        self.settle(held, Status::Undelivered(why), now);
                    }
                } else if let Some(held) = batch.pop() {
                    let why = Undelivered::Rejected(error);
                    self.settle(held, Status::Undelivered(why), now);
                }
            }
            Err(RequestError::Failed(error)) => {
                batch.for_each(|held| self.retry(held, error.clone(), now));
            }
            Err(RequestError::Unknown(error)) => {
                for mut held in batch {
                    held.meta.unknown += 1;
                    self.retry(held, error.clone(), now);
                }
            }
            Err(RequestError::Fatal(error)) => {
                self.stop_because(Some(error.clone()));
                for held in batch {
                    let why = Undelivered::Stopped(Some(error.clone()));
                    self.settle(held, Status::Undelivered(why), now);
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
                let why = Undelivered::Rejected(error);
                self.settle(held, Status::Undelivered(why), now);
            }
            EntryResult::Failed(error) => self.retry(held, error, now),
            EntryResult::Unanswered => {
                held.meta.unknown += 1;
                let text = "the response does not mention the entry";
                self.retry(held, Error::new(UNANSWERED, text), now);
            }
        }
    }

    /// An attempt failed, and the policy decides.
    fn retry(&mut self, mut held: Held<T::Entry>, error: Error, now: Instant) {
        if self.stopped {
            let why = Undelivered::Stopped(Some(error));
            return self.settle(held, Status::Undelivered(why), now);
        }
        match self.decide(&held.meta, error.clone(), now) {
            Action::Retry { delay } => {
                held.meta.previous_delay = Some(delay);
                held.meta.last_error = Some(error);
                self.schedule.delay(held, now + delay.as_duration());
            }
            Action::DeadLetter { reason } | Action::Discard { reason } => {
                let why = Undelivered::GivenUp { error, reason };
                self.settle(held, Status::Undelivered(why), now);
            }
        }
    }

    fn decide(&self, meta: &Meta, error: Error, now: Instant) -> Action {
        let message_id = format!("{:016x}-{}", self.settings.seed, meta.index);
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

    /// Takes entries from the input while there is room. Returns whether more may come soon.
    fn read(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let limits = self.settings.target.limits();
        let enough = 2 * self.settings.requests * limits.entries;
        while self.schedule.count() < self.settings.max_entries
            && self.schedule.bytes() < self.settings.max_bytes
            && self.schedule.ready() < enough
        {
            let Some(input) = self.input.as_mut().filter(|_| !self.stopped) else {
                return false;
            };
            if !self.outcomes.is_empty() {
                return true;
            }
            match input.as_mut().poll_next(context) {
                Poll::Pending => return true,
                Poll::Ready(None) => self.input = None,
                Poll::Ready(Some(entry)) => self.accept(entry, now),
            }
        }
        false
    }

    fn accept(&mut self, entry: T::Entry, now: Instant) {
        let target = &self.settings.target;
        let entry = target.prepare(entry);
        let (bytes, most) = (target.size(&entry), target.limits().entry_bytes);
        let meta = Meta {
            index: self.counts.entries,
            group: target.group(&entry),
            bytes,
            accepted: now,
            attempts: 0,
            unknown: 0,
            previous_delay: None,
            last_error: None,
            unfit: (bytes > most).then_some(Undelivered::TooLarge { bytes, most }),
        };
        self.counts.entries += 1;
        match self.schedule.accept(Held { entry, meta }, now) {
            Accepted::Held => {}
            Accepted::InPlaceOf(held) => self.end(held, Status::Superseded),
            Accepted::Refused(held, why) => self.end(held, Status::Undelivered(why)),
        }
    }

    /// Sends requests while there are entries for them. Returns whether it sent one.
    fn dispatch(&mut self, more_soon: bool, now: Instant) -> bool {
        let mut sent = false;
        while !self.stopped && self.requests.len() < self.settings.requests {
            let partial = self.send_partial_at(more_soon).is_some_and(|at| at <= now);
            let Some(batch) = self.schedule.take(partial) else {
                break;
            };
            self.spawn(batch);
            sent = true;
        }
        sent
    }

    /// When a request is sent although more entries would fit: as soon as no more are expected, or after the linger.
    fn send_partial_at(&self, more_soon: bool) -> Option<Instant> {
        let since = self.schedule.ready_since()?;
        let latest = since + self.settings.linger;
        let due_before = self.schedule.next_due().is_some_and(|due| due <= latest);
        Some(if more_soon || due_before {
            latest
        } else {
            since
        })
    }

    fn spawn(&mut self, batch: Vec<Held<T::Entry>>) {
        let (mut entries, mut metas) = (
            Vec::with_capacity(batch.len()),
            Vec::with_capacity(batch.len()),
        );
        for Held { entry, mut meta } in batch {
            self.counts.retries += u64::from(meta.attempts > 0);
            meta.attempts += 1;
            entries.push(entry);
            metas.push(meta);
        }
        self.counts.requests += 1;
        let target = Arc::clone(&self.settings.target);
        let abandoned = self.abandoned.clone();
        self.requests.spawn(async move {
            let unknown = |code, text| Err(RequestError::Unknown(Error::new(code, text)));
            let sending = AssertUnwindSafe(async { target.send(&entries).await }).catch_unwind();
            let result = match abandoned.run_until_cancelled(sending).await {
                Some(Ok(result)) => result,
                Some(Err(_)) => unknown(PANICKED, "the code that sends the request panicked"),
                None => unknown(ABANDONED, "the request was abandoned"),
            };
            Finished {
                entries,
                metas,
                result,
            }
        });
    }

    /// One turn. Returns whether another may do something at once.
    fn turn(&mut self, context: &mut Context<'_>) -> bool {
        let stop = self.settings.stop.as_mut();
        if stop.is_some_and(|stop| stop.as_mut().poll(context).is_ready()) {
            self.settings.stop = None;
            self.stop();
        }
        let now = Instant::now();
        while let Poll::Ready(Some(finished)) = self.requests.poll_join_next(context) {
            // A task is only cancelled with its runtime.
            if let Ok(finished) = finished {
                self.finish(finished, now);
            }
        }
        self.schedule.wake(now);
        let more_soon = self.read(context, now);
        if self.dispatch(more_soon, now) || !self.outcomes.is_empty() {
            return true;
        }
        let has_slot = self.requests.len() < self.settings.requests;
        let partial = self.send_partial_at(more_soon).filter(|_| has_slot);
        let due = self.schedule.next_due();
        let Some(wake) = partial.into_iter().chain(due).min() else {
            return false;
        };
        if self.timer.deadline() != wake {
            self.timer.as_mut().reset(wake);
        }
        self.timer.as_mut().poll(context).is_ready()
    }

    fn is_finished(&self) -> bool {
        let reading = self.input.is_some() && !self.stopped;
        !reading && self.requests.is_empty() && self.schedule.count() == 0
    }
}

impl<T: Target, S: Stream<Item = T::Entry>> Stream for Deliveries<T, S> {
    type Item = Outcome<T::Entry, T::Receipt>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(outcome) = self.outcomes.pop_front() {
                return Poll::Ready(Some(outcome));
            }
            if self.is_finished() {
                return Poll::Ready(None);
            }
            if !self.turn(context) {
                return match self.is_finished() {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                };
            }
        }
    }
}

#[cfg(test)]
#[path = "deliveries_tests.rs"]
mod tests;
