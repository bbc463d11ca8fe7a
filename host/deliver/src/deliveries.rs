//! A delivery at work: its start, and the stream of outcomes.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use backstop_core::clock;
use backstop_core::failure::{Error, Timestamp};
use backstop_core::policy::SettingsError;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::delivery::{AfterFailure, Delivery};
use crate::held::{Held, Meta};
use crate::outcome::{Counts, Outcome, Report, Status, Undelivered};
use crate::schedule::{Accepted, Schedule};
use crate::target::{EntryResult, RequestError, Target};

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
    pub(crate) settings: Delivery<T>,
    input: Option<Pin<Box<S>>>,
    pub(crate) schedule: Schedule<T::Entry>,
    requests: JoinSet<Finished<T>>,
    pub(crate) outcomes: VecDeque<Outcome<T::Entry, T::Receipt>>,
    pub(crate) counts: Counts,
    pub(crate) stopped: bool,
    pub(crate) stopped_by: Option<Error>,
    abandoned: CancellationToken,
    timer: Pin<Box<Sleep>>,
    /// The same moment on both clocks.
    pub(crate) began: (Instant, Timestamp),
}

impl<T: Target> Delivery<T> {
    /// Starts to deliver these entries. Nothing happens until the outcomes are read, in a tokio runtime.
    ///
    /// Fails if the policy rejects its settings.
    pub fn start<S>(self, entries: S) -> Result<Deliveries<T, S>, SettingsError>
    where
        S: Stream<Item = T::Entry>,
    {
        self.policy.validate()?;
        Ok(Deliveries::new(self, entries))
    }

    /// Delivers these entries, and returns when each has its outcome. The report holds all undelivered entries in memory: use [`start`](Self::start) if they can be many.
    ///
    /// It costs least in a task of its own. In `main`, each request that ends wakes another thread:
    ///
    /// ```
    /// # use backstop_deliver::{Delivery, Target};
    /// # use futures_util::Stream;
    /// # async fn deliver<T: Target>(delivery: Delivery<T>, entries: impl Stream<Item = T::Entry> + Send + 'static) -> Result<(), Box<dyn std::error::Error>> {
    /// let report = tokio::spawn(delivery.send(entries)).await??;
    /// # Ok(()) }
    /// ```
    pub async fn send<S>(self, entries: S) -> Result<Report<T::Entry, T::Receipt>, SettingsError>
    where
        S: Stream<Item = T::Entry>,
    {
        let mut outcomes = self.start(entries)?;
        let mut undelivered = Vec::new();
        while let Some(outcome) = outcomes.next().await {
            if matches!(outcome.status, Status::Undelivered(_)) {
                undelivered.push(outcome);
            }
        }
        Ok(Report {
            counts: outcomes.counts(),
            undelivered,
            stopped_by: outcomes.stopped_by().cloned(),
        })
    }

    /// As [`send`](Self::send), for entries that are there already: a `Vec`, an array, any iterator. Its next entry is taken when there is room for it.
    ///
    /// ```
    /// # use backstop_deliver::{Delivery, Target};
    /// # async fn deliver<T: Target>(delivery: Delivery<T>, entries: Vec<T::Entry>) -> Result<(), Box<dyn std::error::Error>> {
    /// let report = delivery.send_iter(entries).await?;
    /// println!("{} delivered", report.counts.delivered);
    /// # Ok(()) }
    /// ```
    pub async fn send_iter<I>(
        self,
        entries: I,
    ) -> Result<Report<T::Entry, T::Receipt>, SettingsError>
    where
        I: IntoIterator<Item = T::Entry>,
    {
        self.send(stream::iter(entries)).await
    }
}

/// A request that has ended, with its entries.
pub(crate) struct Finished<T: Target> {
    pub(crate) entries: Vec<T::Entry>,
    pub(crate) metas: Vec<Meta>,
    pub(crate) result: Result<Vec<EntryResult<T::Receipt>>, RequestError>,
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
            unfit: (bytes > most).then(|| Box::new(Undelivered::TooLarge { bytes, most })),
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
        let attempted = batch.into_iter().map(|Held { entry, mut meta }| {
            self.counts.retries += u64::from(meta.attempts > 0);
            meta.attempts += 1;
            (entry, meta)
        });
        let (entries, metas): (Vec<_>, Vec<_>) = attempted.unzip();
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
                return if self.is_finished() {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                };
            }
        }
    }
}

#[cfg(test)]
#[path = "deliveries_tests.rs"]
mod tests;
