//! The model: messages come evenly to a queue, one host receives the one that became visible first, and its worker takes the same time for each. During the outage, every attempt that begins fails.
//!
//! A failed message is invisible for the delay of its decision, in whole seconds as on SQS. A breaker of the whole queue lets attempts begin or not. Requests to the queue take no time, and nothing else fails.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::{Duration, Instant};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use super::{LONGEST, MOST_REQUESTS};
use backstop_core::breaker::{Breaker, BreakerSettings, Outcome, Permit, Refused};
use backstop_core::clock;
use backstop_core::decision::{Action, Decision};
use backstop_core::failure::Milliseconds;

/// What comes, and what the host can do. Times are milliseconds from the start.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// The time from one message to the next; not zero.
    pub(super) interval: Duration,
    /// The most attempts in flight.
    pub(super) most: u32,
    /// The duration of an attempt; not zero.
    pub(super) takes: u64,
    /// When attempts fail.
    pub(super) outage: Range<u64>,
    /// How long the worker asks to wait then.
    pub(super) retry_after: Option<Duration>,
}

impl Load {
    /// When this message comes, counted from 0.
    fn arrival(&self, number: u64) -> u64 {
        let nanoseconds = self.interval.as_nanos() * u128::from(number);
        u64::try_from(nanoseconds / 1_000_000).unwrap_or(u64::MAX)
    }

    /// How many messages come before the outage ends.
    pub(super) fn messages(&self) -> u64 {
        let time = u128::from(self.outage.end) * 1_000_000;
        u64::try_from(time.div_ceil(self.interval.as_nanos())).unwrap_or(u64::MAX)
    }
}

/// An attempt that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failed {
    /// The number of the message, from 0.
    pub(super) number: u64,
    /// The number of its attempts so far.
    pub(super) attempt: NonZeroU32,
    /// When it came.
    pub(super) sent: u64,
    /// When it failed.
    pub(super) at: u64,
    /// The delay before the attempt.
    pub(super) previous_delay: Option<Milliseconds>,
}

/// What the model counts. Without the requests during the outage and the peaks, only messages count that came before the outage ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// The messages that came before the outage ended.
    pub messages: u64,
    /// The requests to the worker that began during the outage.
    pub requests_in_outage: u64,
    /// The requests to the worker for these messages.
    pub requests: u64,
    /// The most messages that were invisible at once: in flight, or delayed.
    pub peak_hidden: u64,
    /// The most messages that were visible in the queue at once.
    pub peak_visible: u64,
    /// The messages that succeeded.
    pub succeeded: u64,
    /// The messages that were dead-lettered.
    pub dead_letters: u64,
    /// The messages that were discarded.
    pub discarded: u64,
    /// How often the policy said that something is down.
    pub said_down: u64,
    /// The time from the end of the outage until none of these messages was left, in milliseconds. `None` if some are left.
    pub drained_after: Option<u64>,
    /// The messages that were left when the run ended.
    pub left: u64,
}

struct Message {
    number: u64,
    sent: u64,
    attempts: u32,
    previous_delay: Option<Milliseconds>,
}

enum Event {
    /// A message becomes visible again.
    Visible(Message),
    /// An attempt ends.
    End {
        message: Message,
        permit: Option<Permit>,
        succeeds: bool,
    },
    /// The breaker may let a probe pass.
    Wake,
}

struct World<'a> {
    load: &'a Load,
    breaker: Option<Breaker>,
    random: ChaCha8Rng,
    /// The instant of the start, for the breaker.
    start: Instant,
    now: u64,
    /// By time, those of the same time in their order.
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    arrived: u64,
    visible: VecDeque<Message>,
    delayed: u64,
    in_flight: u32,
    /// When the breaker is asked again.
    wake: Option<u64>,
    /// The requests for all messages.
    begun: u64,
    counts: Counts,
}

/// Runs the model once. The same load, seed and decisions give the same counts, on every machine.
pub(super) fn run(
    load: &Load,
    breaker: Option<BreakerSettings>,
    seed: u64,
    mut decide: impl FnMut(&Failed) -> Decision,
) -> Counts {
    let mut world = World {
        load,
        breaker: breaker.map(Breaker::new),
        random: ChaCha8Rng::seed_from_u64(seed),
        start: clock::instant(),
        now: 0,
        events: BTreeMap::new(),
        scheduled: 0,
        arrived: 0,
        visible: VecDeque::new(),
        delayed: 0,
        in_flight: 0,
        wake: None,
        begun: 0,
        counts: Counts::default(),
    };
    while !world.is_over() {
        world.step(&mut decide);
        world.begin();
        world.count_peaks();
    }
    world.counts
}

impl World<'_> {
    fn is_over(&mut self) -> bool {
        let end = self.load.outage.end;
        if self.now < end {
            return self.begun >= MOST_REQUESTS;
        }
        if self.counts.left == 0 {
            self.counts.drained_after = Some(self.now - end);
            return true;
        }
        self.begun >= MOST_REQUESTS || self.now - end > u64::from(LONGEST.0)
    }

    /// Goes on to what happens next: a message comes, or an event.
    fn step(&mut self, decide: &mut impl FnMut(&Failed) -> Decision) {
        let arrival = self.load.arrival(self.arrived);
        let next = self.events.first_key_value().map(|((time, _), _)| *time);
        match next.filter(|time| *time < arrival) {
            None => {
                self.now = arrival;
                self.arrive();
            }
            Some(time) => {
                self.now = time;
                if let Some((_, event)) = self.events.pop_first() {
                    self.happen(event, decide);
                }
            }
        }
    }

    fn arrive(&mut self) {
        let message = Message {
            number: self.arrived,
            sent: self.now,
            attempts: 0,
            previous_delay: None,
        };
        self.arrived += 1;
        if self.counts_for(&message) {
            self.counts.messages += 1;
            self.counts.left += 1;
        }
        self.visible.push_back(message);
    }

    /// Whether a message came before the outage ended.
    fn counts_for(&self, message: &Message) -> bool {
        message.sent < self.load.outage.end
    }

    fn happen(&mut self, event: Event, decide: &mut impl FnMut(&Failed) -> Decision) {
        match event {
            Event::Wake => self.wake = None,
            Event::Visible(message) => {
                self.delayed -= 1;
                self.visible.push_back(message);
            }
            Event::End {
                message,
                permit,
                succeeds: true,
            } => {
                self.in_flight -= 1;
                let at = self.instant(self.now);
                self.leave(permit, Outcome::Succeeded { at });
                let counts = self.counts_for(&message);
                self.counts.succeeded += u64::from(counts);
                self.counts.left -= u64::from(counts);
            }
            Event::End {
                message,
                permit,
                succeeds: false,
            } => {
                self.in_flight -= 1;
                self.failed(message, permit, decide);
            }
        }
    }

    fn failed(
        &mut self,
        mut message: Message,
        permit: Option<Permit>,
        decide: &mut impl FnMut(&Failed) -> Decision,
    ) {
        let decision = decide(&Failed {
            number: message.number,
            attempt: NonZeroU32::MIN.saturating_add(message.attempts - 1),
            sent: message.sent,
            at: self.now,
            previous_delay: message.previous_delay,
        });
        self.counts.said_down += u64::from(decision.down_for.is_some());
        let outcome = Outcome::of_failure(
            &decision.class,
            self.instant(self.now),
            self.load.retry_after,
            decision.down_for.map(Milliseconds::as_duration),
            self.random.random(),
        );
        self.leave(permit, outcome);
        let counts = u64::from(self.counts_for(&message));
        match decision.action {
            Action::Retry { delay } => {
                message.previous_delay = Some(delay);
                self.delayed += 1;
                let at = self.now + u64::from(delay.whole_seconds().0);
                self.schedule(at, Event::Visible(message));
            }
            Action::DeadLetter { .. } => {
                self.counts.dead_letters += counts;
                self.counts.left -= counts;
            }
            Action::Discard { .. } => {
                self.counts.discarded += counts;
                self.counts.left -= counts;
            }
        }
    }

    fn leave(&mut self, permit: Option<Permit>, outcome: Outcome) {
        if let (Some(breaker), Some(permit)) = (&mut self.breaker, permit) {
            breaker.leave(permit, outcome);
        }
    }

    /// Begins as many attempts as may be in flight now.
    fn begin(&mut self) {
        while self.in_flight < self.load.most && !self.visible.is_empty() {
            let now = self.instant(self.now);
            let entered = self.breaker.as_mut().map(|breaker| breaker.enter(now));
            let permit = match entered.transpose() {
                Ok(permit) => permit,
                Err(Refused::Open { until }) => return self.wake_at(until),
                // Asked again when an attempt ends.
                Err(Refused::Probing | Refused::Full { .. }) => return,
            };
            let Some(mut message) = self.visible.pop_front() else {
                return;
            };
            let is_down = self.load.outage.contains(&self.now);
            message.attempts = message.attempts.saturating_add(1);
            self.in_flight += 1;
            self.begun += 1;
            self.counts.requests_in_outage += u64::from(is_down);
            self.counts.requests += u64::from(self.counts_for(&message));
            let end = Event::End {
                message,
                permit,
                succeeds: !is_down,
            };
            self.schedule(self.now + self.load.takes, end);
        }
    }

    fn wake_at(&mut self, until: Instant) {
        let time = until.saturating_duration_since(self.start).as_nanos();
        let time = u64::try_from(time.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        if self.wake.is_none_or(|wake| time < wake) {
            self.wake = Some(time);
            self.schedule(time, Event::Wake);
        }
    }

    fn schedule(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((time, self.scheduled), event);
    }

    fn instant(&self, time: u64) -> Instant {
        self.start + Duration::from_millis(time)
    }

    fn count_peaks(&mut self) {
        let hidden = self.delayed + u64::from(self.in_flight);
        self.counts.peak_hidden = self.counts.peak_hidden.max(hidden);
        let visible = u64::try_from(self.visible.len()).unwrap_or(u64::MAX);
        self.counts.peak_visible = self.counts.peak_visible.max(visible);
    }
}
