//! The circuit breaker: whether another attempt at something that fails is worthwhile now.
//!
//! A [`Breaker`] opens when nothing has succeeded for some seconds and many attempts have failed. Nothing is attempted then, except for one probe at a time after growing pauses. A probe that succeeds lets the attempts in flight grow step by step, until the breaker is closed again. [`Breakers`] has one for each key, such as a tenant.
//!
//! It is pure: time and randomness come in as values, and its owner decides about locks. A closed breaker only counts.
//!
//! # Partial trouble
//!
//! It does not open while anything succeeds, however large the share of failures is. If half of the attempts fail, the other half succeeds, and an open breaker would take it away: the work would take many times as long, as the simulation of the tests shows. The delays of a policy spread the retries of those that fail. So a share of failures only cuts the limit of a breaker that grows.
//!
//! ```
//! use std::time::Duration;
//!
//! use backstop_core::breaker::{Breaker, BreakerSettings, Outcome, Refused};
//!
//! let mut now = backstop_core::clock::instant();
//! let mut breaker = Breaker::new(BreakerSettings::default());
//! for _ in 0..21 {
//!     let permit = breaker.enter(now).unwrap();
//!     breaker.leave(permit, Outcome::Failed { at: now, retry_after: None, down_for: None, random: 0.5 });
//!     now += Duration::from_millis(250);
//! }
//! let Err(Refused::Open { until }) = breaker.enter(now) else { panic!("it is closed") };
//!
//! now = until;
//! let probe = breaker.enter(now).unwrap();
//! assert_eq!(breaker.enter(now).unwrap_err(), Refused::Probing);
//! breaker.leave(probe, Outcome::Succeeded { at: now });
//! assert!(breaker.enter(now).is_ok());
//! ```

mod attempt;
mod growth;
mod keys;
mod settings;
mod status;

use std::time::{Duration, Instant};

pub use attempt::{Outcome, Permit, Refused};
use growth::Growth;
pub use keys::Breakers;
pub use settings::BreakerSettings;
pub use status::{State, Status};

/// Decides about the attempts at one thing. See the [module](self) for how.
///
/// - **Closed**, it lets everything pass. It opens when, since the last success, enough attempts have [failed](BreakerSettings::minimum) over a [time](BreakerSettings::shortest_outage) that is long enough.
/// - **Open**, it lets nothing pass until the pause is over; then one attempt, the probe.
/// - **Probing**, it lets nothing pass. A probe that succeeds lets it grow, one that fails opens it for a longer pause, and one that proves nothing is followed by another one.
/// - **Growing**, it limits the attempts in flight: two at first, and one more for each round of successes. A large [share](BreakerSettings::share) of failures cuts the limit, and it opens as a closed one does. It is closed at [`most`](BreakerSettings::most), or when the limit has held nobody back for 30 s.
///
/// An attempt that began before it opened counts no more: neither its success nor its failure says anything about the time after. Only while it is open, such a failure may lengthen the pause, if the policy says how long the outage lasts.
#[derive(Debug, Clone)]
pub struct Breaker {
    settings: BreakerSettings,
    phase: Phase,
    /// When the phase began. `None` if it has always been closed.
    since: Option<Instant>,
    /// Counts the openings. A permit of an earlier era no longer counts.
    era: u64,
    /// The attempts in flight that began in this era.
    fresh: u32,
    in_flight: u32,
    last_success: Option<Instant>,
    /// The failures since then.
    failed: u32,
    /// Since when nothing has succeeded as far as those failures tell: from the beginning of the first of them.
    failing_since: Option<Instant>,
    /// The pauses since a probe succeeded.
    pauses: u32,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed,
    Open {
        until: Instant,
    },
    /// The pause before the probe was over at this time.
    Probing {
        due: Instant,
    },
    Growing(Growth),
}

impl Breaker {
    /// A closed breaker. Settings outside of their bounds count as the nearest valid ones.
    pub fn new(settings: BreakerSettings) -> Self {
        let settings = settings.within_bounds();
        Self {
            settings,
            phase: Phase::Closed,
            since: None,
            era: 0,
            fresh: 0,
            in_flight: 0,
            last_success: None,
            failed: 0,
            failing_since: None,
            pauses: 0,
        }
    }

    /// Changes the settings. What has happened so far stays.
    pub fn set_settings(&mut self, settings: BreakerSettings) {
        self.settings = settings.within_bounds();
    }

    /// Asks for one attempt. If the breaker is open and its pause is over, the attempt is the probe.
    pub fn enter(&mut self, now: Instant) -> Result<Permit, Refused> {
        match &mut self.phase {
            Phase::Closed => {}
            Phase::Open { until } if now < *until => return Err(Refused::Open { until: *until }),
            Phase::Open { until } => {
                let due = *until;
                self.set(Phase::Probing { due }, now);
            }
            Phase::Probing { .. } => return Err(Refused::Probing),
            Phase::Growing(growth) => growth.enter(self.fresh, now)?,
        }
        self.fresh = self.fresh.saturating_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        Ok(Permit {
            era: self.era,
            began: now,
        })
    }

    /// The attempt has ended. Returns the new state if it has changed, other than by its limit.
    pub fn leave(&mut self, permit: Permit, outcome: Outcome) -> Option<State> {
        self.in_flight = self.in_flight.saturating_sub(1);
        if permit.era != self.era {
            return self.left_late(outcome);
        }
        self.fresh = self.fresh.saturating_sub(1);
        match outcome {
            Outcome::Succeeded { at } => self.succeeded(&permit, at),
            Outcome::Failed {
                at,
                retry_after,
                down_for,
                random,
            } => {
                let state = self.failed(&permit, at, retry_after, random);
                let held = down_for.and_then(|time| self.hold_for(time, at));
                held.or(state).map(|_| self.state())
            }
            Outcome::Neither => {
                let Phase::Probing { due } = self.phase else {
                    return None;
                };
                self.phase = Phase::Open { until: due };
                Some(self.state())
            }
        }
    }

    /// Opens the breaker until this time, because somebody knows that nothing is worthwhile before. At most [`longest_retry_after`](BreakerSettings::longest_retry_after) from now; the probe that follows finds out whether it still holds. Never shortens a pause. Returns the new state if it was not open.
    pub fn hold_until(&mut self, time: Instant, now: Instant) -> Option<State> {
        let time = time.min(now + self.settings.longest_retry_after);
        if let Phase::Open { until } = &mut self.phase {
            *until = time.max(*until);
            return None;
        }
        (time > now).then(|| self.open(time, now))
    }

    fn hold_for(&mut self, time: Duration, now: Instant) -> Option<State> {
        // Before the sum, which might overflow.
        let time = time.min(self.settings.longest_retry_after);
        self.hold_until(now + time, now)
    }

    /// An attempt that began before it opened has ended.
    fn left_late(&mut self, outcome: Outcome) -> Option<State> {
        match (&self.phase, outcome) {
            (Phase::Open { .. }, Outcome::Failed { at, down_for, .. }) => {
                self.hold_for(down_for?, at)
            }
            (
                Phase::Open { .. } | Phase::Closed | Phase::Probing { .. } | Phase::Growing(_),
                Outcome::Succeeded { .. } | Outcome::Failed { .. } | Outcome::Neither,
            ) => None,
        }
    }

    /// How many more attempts may begin now. `None` is any number.
    pub fn room(&self, now: Instant) -> Option<u32> {
        match &self.phase {
            Phase::Closed => None,
            Phase::Open { until } => Some(u32::from(now >= *until)),
            Phase::Probing { .. } => Some(0),
            Phase::Growing(growth) => Some(growth.limit().saturating_sub(self.fresh)),
        }
    }

    /// Its state.
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Closed => State::Closed,
            Phase::Open { until } => State::Open { until: *until },
            Phase::Probing { .. } => State::Probing,
            Phase::Growing(growth) => State::Growing {
                limit: growth.limit(),
            },
        }
    }

    /// What there is to report.
    pub fn status(&self) -> Status {
        Status {
            state: self.state(),
            since: self.since,
            in_flight: self.in_flight,
            failed: self.failed,
            pauses: self.pauses,
        }
    }

    /// Its settings, within their bounds.
    pub fn settings(&self) -> &BreakerSettings {
        &self.settings
    }

    /// Whether it can be forgotten: nothing is in flight, and it lets everything pass.
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && matches!(self.phase, Phase::Closed)
    }

    fn succeeded(&mut self, permit: &Permit, at: Instant) -> Option<State> {
        self.last_success = Some(at);
        self.failed = 0;
        self.failing_since = None;
        let is_probe = matches!(self.phase, Phase::Probing { .. });
        let mut growth = match self.phase {
            // While it is open, nothing of this era is in flight.
            Phase::Closed | Phase::Open { .. } => return None,
            Phase::Probing { .. } => Growth::new(at),
            Phase::Growing(growth) => growth,
        };
        self.pauses = 0;
        let took = at.saturating_duration_since(permit.began);
        if growth.succeeded(took, at, &self.settings) {
            return Some(self.set(Phase::Closed, at));
        }
        if is_probe {
            return Some(self.set(Phase::Growing(growth), at));
        }
        self.phase = Phase::Growing(growth);
        None
    }

    fn failed(
        &mut self,
        permit: &Permit,
        at: Instant,
        retry_after: Option<Duration>,
        random: f64,
    ) -> Option<State> {
        self.failed = self.failed.saturating_add(1);
        let began = self
            .last_success
            .map_or(permit.began, |it| it.max(permit.began));
        let since = *self.failing_since.get_or_insert(began);
        let is_down = self.failed >= self.settings.minimum
            && at.saturating_duration_since(since) >= self.settings.shortest_outage;
        let opens = match &mut self.phase {
            Phase::Closed => is_down,
            Phase::Open { .. } => false,
            Phase::Probing { .. } => true,
            Phase::Growing(growth) => {
                growth.failed(at, &self.settings);
                is_down
            }
        };
        opens.then(|| {
            let pause = self
                .settings
                .pauses
                .wait(self.pauses.saturating_add(1), random);
            let asked = retry_after.unwrap_or_default();
            let asked = asked.min(self.settings.longest_retry_after);
            self.open(at + pause.max(asked), at)
        })
    }

    fn open(&mut self, until: Instant, now: Instant) -> State {
        self.era += 1;
        self.fresh = 0;
        self.pauses = self.pauses.saturating_add(1);
        self.set(Phase::Open { until }, now)
    }

    fn set(&mut self, phase: Phase, now: Instant) -> State {
        self.phase = phase;
        self.since = Some(now);
        self.state()
    }
}

#[cfg(test)]
mod down_for_tests;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod outage_tests;
#[cfg(test)]
mod tests;
