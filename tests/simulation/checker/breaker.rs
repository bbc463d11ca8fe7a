//! Breakers, as their documents say: open after so many failures without a success, one probe after each pause, and step by step when a probe has succeeded.
//!
//! What is known of one is never stricter than the breaker itself: a pause is the shortest that it can be, and the attempts at once are the most that they can be. Of a host that was frozen nothing is known, because its attempts began earlier than its worker saw them.

use std::time::Duration;

use super::{Checker, Rule};
use crate::history::Event;

/// More than a timer's rounding.
const TICK: Duration = Duration::from_millis(5);

/// A limit that has held nobody back for so long is none.
const SETTLED: Duration = Duration::from_secs(30);

/// The longest time for which a policy can say that something is down.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// What is known of the breaker of one key at one host.
#[derive(Debug, Default)]
pub(super) struct Behind {
    phase: Phase,
    /// Counts the openings: attempts that began before the last one count no more.
    era: u32,
    last_success: Option<Duration>,
    /// The failures since then.
    failed: u32,
    failing_since: Option<Duration>,
    pauses: u32,
    under_way: Vec<UnderWay>,
    /// Until when something of it may have been held back.
    held_until: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    number: u32,
    began: Duration,
    era: u32,
}

#[derive(Debug, Clone, Copy, Default)]
enum Phase {
    #[default]
    Closed,
    /// Until this time at least.
    Open {
        until: Duration,
    },
    Probing {
        until: Duration,
    },
    Growing {
        /// The most attempts at once.
        most: usize,
        /// When so many were under way last.
        reached: Duration,
    },
}

impl Behind {
    /// The attempts under way that count.
    fn fresh(&self) -> usize {
        let fresh = self.under_way.iter().filter(|it| it.era == self.era);
        fresh.count()
    }

    fn take(&mut self, number: u32) -> Option<UnderWay> {
        let mut all = self.under_way.iter();
        let at = all.position(|it| it.number == number)?;
        Some(self.under_way.remove(at))
    }

    /// Whether a message may have been held back a moment ago.
    pub(super) fn may_hold_back(&self, at: Duration) -> bool {
        let is_recent = self.held_until.is_some_and(|until| at <= until);
        is_recent
            || match self.phase {
                Phase::Open { .. } | Phase::Probing { .. } => true,
                // It may be closed later than is known here.
                Phase::Closed | Phase::Growing { .. } => self.era > 0 && self.fresh() > 0,
            }
    }

    /// When a probe may begin, if it is open, or has been.
    pub(super) const fn until(&self) -> Option<Duration> {
        match self.phase {
            Phase::Open { until } | Phase::Probing { until } => Some(until),
            Phase::Closed | Phase::Growing { .. } => None,
        }
    }

    /// Remembers that until now something may have been held back, whose request is still on its way.
    fn note(&mut self, at: Duration) {
        const ON_ITS_WAY: Duration = Duration::from_secs(2);
        if self.may_hold_back(at) {
            self.held_until = Some(at + ON_ITS_WAY);
        }
    }

    fn open(&mut self, until: Duration) {
        self.era += 1;
        self.pauses += 1;
        self.phase = Phase::Open { until };
    }

    fn succeeded(&mut self, number: u32, at: Duration, most_in_flight: usize) {
        let Some(attempt) = self.take(number) else {
            return;
        };
        if attempt.era != self.era {
            return;
        }
        self.last_success = Some(at);
        self.failed = 0;
        self.failing_since = None;
        self.phase = match self.phase {
            Phase::Closed | Phase::Open { .. } => return,
            Phase::Probing { .. } => Phase::Growing {
                most: 2,
                reached: at,
            },
            Phase::Growing { most, reached } => Phase::Growing {
                most: most + 1,
                reached,
            },
        };
        self.pauses = 0;
        if let Phase::Growing { most, reached } = self.phase
            && (most >= most_in_flight || at >= reached + SETTLED)
        {
            self.phase = Phase::Closed;
        }
    }

    /// A failure that may be that of what is behind the worker. Returns whether the breaker opens.
    fn is_down(&mut self, attempt: UnderWay, at: Duration, minimum: u32, after: Duration) -> bool {
        self.failed += 1;
        let began = self
            .last_success
            .map_or(attempt.began, |it| it.max(attempt.began));
        let since = *self.failing_since.get_or_insert(began);
        let is_down = self.failed >= minimum && at - since >= after;
        match self.phase {
            Phase::Closed | Phase::Growing { .. } => is_down,
            Phase::Open { .. } => false,
            Phase::Probing { .. } => true,
        }
    }
}

impl Checker<'_> {
    /// An attempt begins: its breaker must let it pass.
    pub(super) fn enters(&mut self, at: Duration, host: u64, number: u32) {
        let Some(breaking) = self.plan.breaker else {
            return;
        };
        let known = self.host(host);
        let behind = known.behind.entry(breaking.key(number)).or_default();
        // Which one of two ends first, nobody sees.
        known.unsure |= behind.under_way.iter().any(|it| it.number == number);
        let unsure = known.unsure;
        let fresh = behind.fresh();
        let (rule, holds) = match &mut behind.phase {
            Phase::Closed => (None, true),
            Phase::Open { until } => {
                let until = *until;
                behind.phase = Phase::Probing { until };
                (Some(Rule::NothingWhileOpen), at + TICK >= until)
            }
            Phase::Probing { .. } => (Some(Rule::NothingWhileOpen), false),
            Phase::Growing { most, reached } => {
                if fresh + 1 >= *most {
                    *reached = at;
                }
                (Some(Rule::GrowsStepByStep), fresh < *most)
            }
        };
        let phase = behind.phase;
        behind.under_way.push(UnderWay {
            number,
            began: at,
            era: behind.era,
        });
        if let Some(rule) = rule {
            self.rule(rule, unsure, holds, at, || {
                format!("host {host} attempts message {number} while what is behind it is down: {phase:?}, {fresh} under way")
            });
        }
    }

    /// An attempt succeeds.
    pub(super) fn is_up(&mut self, at: Duration, host: u64, number: u32) {
        let Some(breaking) = self.plan.breaker else {
            return;
        };
        let most = self.plan.most;
        let known = self.host(host);
        let behind = known.behind.entry(breaking.key(number)).or_default();
        behind.note(at);
        behind.succeeded(number, at, most);
    }

    /// An attempt has failed, and this was decided.
    pub(super) fn leaves(&mut self, at: Duration, event: &Event) {
        let (
            Some(breaking),
            Event::Decided {
                host,
                number,
                is_passing,
                down_for,
                ..
            },
        ) = (self.plan.breaker, event)
        else {
            return;
        };
        let down_for = down_for.map(|it| at + it.min(LONGEST_HOLD));
        let known = self.host(*host);
        let behind = known.behind.entry(breaking.key(*number)).or_default();
        let Some(attempt) = behind.take(*number) else {
            return;
        };
        behind.note(at);
        let is_fresh = attempt.era == behind.era;
        if !is_fresh {
            // It may make an outage longer.
            if let (Phase::Open { until }, Some(down_for)) = (&mut behind.phase, down_for) {
                *until = down_for.max(*until);
            }
            return self.put_off(at, *host);
        }
        if !is_passing && down_for.is_none() {
            // It proves nothing: another probe may follow.
            if let Phase::Probing { until } = behind.phase {
                behind.phase = Phase::Open { until };
            }
            return;
        }
        if behind.is_down(attempt, at, breaking.minimum, breaking.after) {
            let pause = breaking.shortest_pause(behind.pauses + 1);
            behind.open(at + pause);
        }
        match (&mut behind.phase, down_for) {
            (Phase::Open { until }, Some(down_for)) => *until = down_for.max(*until),
            (_, Some(down_for)) if down_for > at => behind.open(down_for),
            _ => {}
        }
        self.put_off(at, *host);
    }
}
