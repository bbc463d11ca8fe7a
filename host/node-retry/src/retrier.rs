//! A retrier: what its calls share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use backstop_core::breaker::{Breaker, Permit, Refused, State};
use backstop_core::budget::{Bucket, Taken};
use backstop_core::call::{Guards, Limits};
use backstop_core::decision::ErrorClass;

/// A retrier.
pub(crate) struct Retrier {
    pub(crate) limits: Limits,
    pub(crate) policy: Policy,
    pub(crate) budget: Option<Rc<Bucket>>,
    pub(crate) breaker: Option<Rc<NamedBreaker>>,
    pub(crate) bulkhead: Option<Rc<Bulkhead>>,
    /// Whether its calls wait for a place of the bulkhead.
    pub(crate) waits: bool,
    pub(crate) ids: Ids,
}

impl Guards for Retrier {
    type Reservation = Taken;
    type Refusal = Refusal;

    fn refuses_at(&self, time: Instant, now: Instant) -> Option<Refusal> {
        self.breaker.as_ref()?.refuses_at(time, now)
    }

    fn reserve(&self, class: &ErrorClass, now: Instant) -> Option<Option<Taken>> {
        match &self.budget {
            None => Some(None),
            Some(budget) => budget.take(class, now).map(Some),
        }
    }
}

/// Who decides about failures.
pub(crate) enum Policy {
    /// JavaScript evaluates it.
    InJavaScript,
    /// The default one, in Rust.
    Default,
}

/// The ids of calls that have none of their own: a seed, and a number.
pub(crate) struct Ids {
    pub(crate) seed: u64,
    pub(crate) next: Cell<u64>,
}

impl Ids {
    pub(crate) fn next(&self) -> String {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        format!("{:016x}-{number}", self.seed)
    }
}

/// Why an attempt was refused.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) by: Rc<str>,
    pub(crate) next_probe: Option<Duration>,
}

/// A breaker with its name.
pub(crate) struct NamedBreaker {
    pub(crate) name: Rc<str>,
    pub(crate) breaker: RefCell<Breaker>,
}

impl NamedBreaker {
    pub(crate) fn enter(&self, now: Instant) -> Result<Permit, Refusal> {
        let entered = self.breaker.borrow_mut().enter(now);
        entered.map_err(|refused| match refused {
            Refused::Open { until } => self.refusal(Some(until), now),
            Refused::Probing | Refused::Full { .. } => self.refusal(None, now),
        })
    }

    /// Refuses an attempt at a later time at which the breaker is still open for sure.
    pub(crate) fn refuses_at(&self, time: Instant, now: Instant) -> Option<Refusal> {
        match self.breaker.borrow().state() {
            State::Open { until } if time < until => Some(self.refusal(Some(until), now)),
            State::Open { .. } | State::Closed | State::Probing | State::Growing { .. } => None,
        }
    }

    fn refusal(&self, next_probe: Option<Instant>, now: Instant) -> Refusal {
        Refusal {
            by: Rc::clone(&self.name),
            next_probe: next_probe.map(|it| it.saturating_duration_since(now)),
        }
    }
}

/// How many attempts may be under way at once. A place that is given back goes to the call that has waited longest.
pub(crate) struct Bulkhead {
    pub(crate) name: Rc<str>,
    pub(crate) free: Cell<u32>,
    /// The calls that wait, by their numbers.
    pub(crate) waiting: RefCell<VecDeque<usize>>,
    /// The calls that got a place and have not begun their attempt.
    pub(crate) given: RefCell<Vec<usize>>,
}

impl Bulkhead {
    pub(crate) fn new(name: &str, most: u32) -> Self {
        Self {
            name: name.into(),
            free: Cell::new(most.max(1)),
            waiting: RefCell::default(),
            given: RefCell::default(),
        }
    }

    /// Takes a place, if one is free.
    pub(crate) fn enter(&self) -> bool {
        let free = self.free.get();
        self.free.set(free.saturating_sub(1));
        free > 0
    }

    /// Gives a place back, or on to the next call.
    pub(crate) fn leave(&self) {
        match self.waiting.borrow_mut().pop_front() {
            Some(next) => self.given.borrow_mut().push(next),
            None => self.free.set(self.free.get().saturating_add(1)),
        }
    }

    /// A call that has got a place.
    pub(crate) fn woken(&self) -> Option<usize> {
        let mut given = self.given.borrow_mut();
        (!given.is_empty()).then(|| given.remove(0))
    }

    /// The call waits no longer. A place that it has got goes on.
    pub(crate) fn forget(&self, call: usize) {
        self.waiting.borrow_mut().retain(|it| *it != call);
        let mut given = self.given.borrow_mut();
        let before = given.len();
        given.retain(|it| *it != call);
        let had_one = given.len() < before;
        drop(given);
        if had_one {
            self.leave();
        }
    }
}
