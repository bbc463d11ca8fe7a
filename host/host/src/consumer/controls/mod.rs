//! What changes while a queue is served: an operator's pause, the maintenance windows of the configuration, a rate, and the most messages in flight.
//!
//! A paused queue is not polled, and messages that were received already are returned without an attempt; attempts under way end as usual. After a pause, the messages in flight may grow over a time. A rate limits how many messages are received.

mod each;
mod kept_pause;
mod limits;
mod maintenance;
mod pace;
mod serving;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use backstop_core::lock::lock;
use metrics::Gauge;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::budget::Budget;
use crate::config::Options;
use crate::failure::Milliseconds;
use crate::maintenance::{Open, Windows};
use crate::record::LifeEvent;
use crate::telemetry;
use backstop_core::clock;
use backstop_decider::Events;
use each::Each;
use pace::Pace;

pub(super) use each::{Entry, Turn};
pub(crate) use kept_pause::KeptPause;
pub(crate) use limits::NewLimits;
pub use serving::{EachServing, LimitedKey, Pause, Serving};

/// How often the messages in flight are counted again while they grow: nobody tells of the end of one.
const CHECK: Duration = Duration::from_millis(50);

/// The controls of one queue.
pub(crate) struct Controls {
    queue: String,
    pub(super) budget: Arc<Budget>,
    /// The limits for each key.
    pub(super) each: Arc<Each>,
    state: Mutex<State>,
    /// The state has changed.
    changed: watch::Sender<()>,
    /// Whether nothing is limited here but the messages in flight.
    is_free: AtomicBool,
    kept: OnceLock<KeptPause>,
    events: OnceLock<Events>,
    gauge: Gauge,
}

struct State {
    /// That of an operator.
    pause: Option<Paused>,
    windows: Windows,
    /// The maintenance window that is open.
    window: Option<Open>,
    /// The messages in flight grow after a pause.
    ramp: Option<Ramp>,
    pace: Option<Pace>,
    /// How long the poll of an idle queue waits for a message.
    idle_poll: Duration,
    /// How long attempts may go on after a stop.
    grace: Duration,
}

struct Paused {
    pause: Pause,
    /// When it ends, whatever the clock says.
    ends: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Ramp {
    from: Instant,
    over: Duration,
}

/// Whether messages may be received.
enum Allowed {
    Messages(usize),
    /// Not yet.
    In(Duration),
    /// Not before something changes.
    Never,
}

backstop_core::shown!(Controls, controls => queue = controls.queue);

impl Controls {
    /// The controls of the queue with this name.
    pub(crate) fn new(queue: &str, budget: Arc<Budget>, options: &Options) -> Arc<Self> {
        let gauge = telemetry::Queue::named(queue).paused();
        gauge.set(0);
        let state = State {
            pause: None,
            windows: Windows::new(options.pause.clone()),
            window: None,
            ramp: None,
            pace: options.rate.map(|rate| Pace::new(rate, Instant::now())),
            idle_poll: options.idle_poll,
            grace: options.grace,
        };
        Arc::new(Self {
            queue: queue.to_owned(),
            each: Each::new(queue, &budget, options.limit_each.as_ref()),
            budget,
            is_free: AtomicBool::new(state.is_free()),
            state: Mutex::new(state),
            changed: watch::Sender::default(),
            kept: OnceLock::new(),
            events: OnceLock::new(),
            gauge,
        })
    }

    /// With who hears of pauses.
    pub(super) fn heard_by(&self, events: &Events) {
        let _ = self.events.set(events.clone());
    }

    /// Passes an event of the queue to those who record it.
    fn happened(&self, event: LifeEvent) {
        if let Some(events) = self.events.get() {
            events.of_queue(event);
        }
    }

    /// With a place that outlives the process: a pause that is kept there goes on.
    pub(super) fn kept_in(&self, kept: KeptPause) {
        let pause = kept.read();
        let _ = self.kept.set(kept);
        if let Some(pause) = pause {
            tracing::warn!(
                queue = self.queue,
                by = pause.by,
                why = pause.why,
                "the queue is still paused since before this start: `backstop resume` ends the pause"
            );
            self.begin(pause);
        }
    }

    /// Pauses the queue, for a time or until it is resumed. A pause replaces the one before.
    pub(crate) fn pause(&self, over: Option<Duration>, why: Option<String>, by: String) -> Pause {
        let since = clock::now();
        let pause = Pause {
            since,
            until: over.map(|over| since.plus(over)),
            why,
            by,
        };
        if let Some(kept) = self.kept.get() {
            kept.write(&pause);
        }
        tracing::warn!(
            queue = self.queue,
            by = pause.by,
            why = pause.why,
            "over-ms" = over.map(|over| Milliseconds::from_duration(over).0),
            "the queue is paused: it is not polled, and attempts under way end"
        );
        self.happened(LifeEvent::Paused {
            by: pause.by.clone(),
            why: pause.why.clone(),
            until: pause.until,
        });
        self.begin(pause.clone());
        pause
    }

    fn begin(&self, pause: Pause) {
        let ends = pause
            .until
            .map(|until| Instant::now() + until.since(clock::now()));
        self.change(|state| {
            state.pause = Some(Paused { pause, ends });
            state.ramp = None;
        });
    }

    /// Ends a pause, and the maintenance window that is open; the messages in flight then grow over this time. Returns the pause, if there was one.
    pub(crate) fn resume(&self, ramp: Duration, by: &str) -> Option<Pause> {
        let now = clock::now();
        let paused = self.change(|state| {
            let paused = state.pause();
            state.pause = None;
            state.end_windows(now);
            if paused.is_some() && ramp > Duration::ZERO {
                state.ramp = Some(Ramp {
                    from: Instant::now(),
                    over: ramp,
                });
            }
            paused
        })?;
        self.ended(by);
        Some(paused)
    }

    fn ended(&self, by: &str) {
        if let Some(kept) = self.kept.get() {
            kept.remove();
        }
        let queue = &self.queue;
        if self.is_paused() {
            tracing::info!(
                queue,
                by,
                "the pause is over, and a maintenance window goes on"
            );
        } else {
            tracing::info!(queue, by, "the pause is over: the queue is polled again");
            self.happened(LifeEvent::Resumed { by: by.to_owned() });
        }
    }

    /// The messages in hand, and the most of them.
    pub(crate) fn in_flight(&self) -> (usize, usize) {
        (self.budget.in_hand(), self.budget.most())
    }

    /// Whether nothing is limited here but the messages in flight.
    pub(super) fn is_free(&self) -> bool {
        self.is_free.load(SeqCst)
    }

    /// Whether no attempt may begin.
    pub(super) fn is_paused(&self) -> bool {
        !self.is_free() && self.state().is_paused()
    }

    /// Waits until messages may be received. Returns how many.
    pub(super) async fn passed(&self) -> usize {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            match self.allowed(Instant::now()) {
                Allowed::Messages(messages) => return messages,
                Allowed::In(wait) => {
                    tokio::select! {
                        biased;
                        _ = changed.changed() => {}
                        () = sleep(wait) => {}
                    }
                }
                Allowed::Never => drop(changed.changed().await),
            }
        }
    }

    fn allowed(&self, now: Instant) -> Allowed {
        self.end_if_over();
        let mut state = self.state();
        if state.is_paused() {
            let ends = state.pause.as_ref().and_then(|paused| paused.ends);
            return ends.map_or(Allowed::Never, |ends| {
                Allowed::In(ends.saturating_duration_since(now))
            });
        }
        let mut most = usize::MAX;
        if let Some(ramp) = state.ramp {
            let limit = ramp.limit(self.budget.most(), now);
            most = limit.saturating_sub(self.budget.in_flight());
            if most == 0 {
                return Allowed::In(CHECK);
            }
        }
        match &mut state.pace {
            Some(pace) => match pace.ready(now) {
                Ok(messages) => Allowed::Messages(most.min(messages)),
                Err(wait) => Allowed::In(wait),
            },
            None => Allowed::Messages(most),
        }
    }

    /// Ends what ends by itself.
    fn end_if_over(&self) {
        if self.is_free() {
            return;
        }
        let now = Instant::now();
        if self.state().is_over(now) {
            let paused = self.change(|state| {
                state.ramp = state.ramp.filter(|ramp| !ramp.is_over(now));
                state.pause.take_if(|paused| paused.is_over(now))
            });
            if paused.is_some() {
                self.ended("its own end");
            }
        }
    }

    /// This many messages are received, at most.
    pub(super) fn took(&self, messages: usize) {
        if let Some(pace) = &mut self.state().pace {
            pace.took(messages);
        }
    }

    /// So many messages fewer were received.
    pub(super) fn gave_back(&self, messages: usize) {
        if messages > 0
            && !self.is_free()
            && let Some(pace) = &mut self.state().pace
        {
            pace.gave_back(messages);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state);
        self.changed_to(&state);
        drop(state);
        result
    }

    /// Tells the pollers and the metrics of a change.
    fn changed_to(&self, state: &State) {
        self.is_free.store(state.is_free(), SeqCst);
        self.gauge.set(u8::from(state.is_paused()));
        self.changed.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    const fn is_free(&self) -> bool {
        !self.is_paused() && self.ramp.is_none() && self.pace.is_none()
    }

    const fn is_paused(&self) -> bool {
        self.pause.is_some() || self.window.is_some()
    }

    /// Whether something ends by itself, and has.
    fn is_over(&self, now: Instant) -> bool {
        self.ramp.is_some_and(|it| it.is_over(now))
            || self.pause.as_ref().is_some_and(|it| it.is_over(now))
    }
}

impl Paused {
    fn is_over(&self, now: Instant) -> bool {
        self.ends.is_some_and(|ends| now >= ends)
    }
}

impl Ramp {
    fn is_over(self, now: Instant) -> bool {
        now >= self.from + self.over
    }

    /// How many messages may be in flight, of this many at its end.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a number of messages"
    )]
    fn limit(self, most: usize, now: Instant) -> usize {
        let since = now.saturating_duration_since(self.from);
        let share = since.as_secs_f64() / self.over.as_secs_f64();
        ((most as f64 * share) as usize).clamp(1, most.max(1))
    }
}

#[cfg(test)]
mod tests;
