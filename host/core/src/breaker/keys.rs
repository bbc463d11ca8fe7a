//! One breaker for each key.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

use super::{Breaker, BreakerSettings, Outcome, Permit, Refused, State};

/// A breaker for each key, such as a tenant, so that one that is down does not stop the others. Bounded: at most so many keys have one.
///
/// A new key takes the place of the one that was not used for the longest time, is closed and has nothing in flight. If there is none, it has no breaker and passes. Keys are stored as they are, so the caller bounds their length.
///
/// ```
/// use std::time::Duration;
///
/// use backstop_core::breaker::{Breakers, BreakerSettings, Outcome};
///
/// let now = backstop_core::clock::instant();
/// let mut breakers: Breakers<String> = Breakers::new(BreakerSettings::default(), 1_000);
/// if let Some(permit) = breakers.enter("tenant-7", now).unwrap() {
///     breakers.leave("tenant-7", permit, Outcome::Succeeded { at: now });
/// }
/// breakers.hold_until("tenant-7", now + Duration::from_secs(10), now);
/// assert!(breakers.enter("tenant-7", now).is_err());
/// assert!(breakers.enter("tenant-8", now).is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct Breakers<K> {
    settings: BreakerSettings,
    most_keys: usize,
    breakers: HashMap<K, Used>,
    /// Counts the uses of all.
    uses: u64,
}

#[derive(Debug, Clone)]
struct Used {
    breaker: Breaker,
    /// The number of its last use.
    last: u64,
}

impl<K: Eq + Hash> Breakers<K> {
    /// No breakers yet. At least one key has one.
    pub fn new(settings: BreakerSettings, most_keys: usize) -> Self {
        Self {
            settings,
            most_keys: most_keys.max(1),
            breakers: HashMap::new(),
            uses: 0,
        }
    }

    /// Changes the settings of all breakers. What has happened so far stays.
    pub fn set_settings(&mut self, settings: BreakerSettings) {
        self.settings = settings;
        for used in self.breakers.values_mut() {
            used.breaker.set_settings(settings);
        }
    }

    /// Asks the breaker of this key for one attempt. Without a permit, the key has no breaker, and the attempt may be made.
    pub fn enter<Q>(&mut self, key: &Q, now: Instant) -> Result<Option<Permit>, Refused>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.uses += 1;
        match self.used(key) {
            Some(breaker) => breaker.enter(now).map(Some),
            None => self.enter_new(key.to_owned(), now),
        }
    }

    /// An attempt at this key has ended. Returns the new state of its breaker if it has changed.
    pub fn leave<Q>(&mut self, key: &Q, permit: Permit, outcome: Outcome) -> Option<State>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.used(key)?.leave(permit, outcome)
    }

    /// See [`Breaker::hold_until`]. A key without a breaker gets one, if there is room.
    pub fn hold_until<Q>(&mut self, key: &Q, time: Instant, now: Instant) -> Option<State>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.uses += 1;
        match self.used(key) {
            Some(breaker) => breaker.hold_until(time, now),
            None => self.insert(key.to_owned())?.hold_until(time, now),
        }
    }

    /// The breaker of this key, if it has one.
    pub fn get<Q>(&self, key: &Q) -> Option<&Breaker>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.breakers.get(key).map(|used| &used.breaker)
    }

    /// All keys that have a breaker, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Breaker)> {
        self.breakers.iter().map(|(key, used)| (key, &used.breaker))
    }

    fn used<Q>(&mut self, key: &Q) -> Option<&mut Breaker>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let used = self.breakers.get_mut(key)?;
        used.last = self.uses;
        Some(&mut used.breaker)
    }

    fn enter_new(&mut self, key: K, now: Instant) -> Result<Option<Permit>, Refused> {
        match self.insert(key) {
            Some(breaker) => breaker.enter(now).map(Some),
            None => Ok(None),
        }
    }

    /// A closed breaker for a new key, if there is room or can be made.
    fn insert(&mut self, key: K) -> Option<&mut Breaker> {
        if self.breakers.len() >= self.most_keys && !self.forget() {
            return None;
        }
        let used = self.breakers.entry(key).or_insert_with(|| Used {
            breaker: Breaker::new(self.settings),
            last: self.uses,
        });
        Some(&mut used.breaker)
    }

    /// Forgets the idle breakers that were not used for the longest time: a tenth of all at once, since it looks at all of them. Returns whether there was any.
    fn forget(&mut self) -> bool {
        let idle = self.breakers.values().filter(|it| it.breaker.is_idle());
        let mut idle: Vec<_> = idle.map(|it| it.last).collect();
        if idle.is_empty() {
            return false;
        }
        let place = (self.most_keys / 10).min(idle.len() - 1);
        let (_, last, _) = idle.select_nth_unstable(place);
        let last = *last;
        self.breakers
            .retain(|_, used| used.last > last || !used.breaker.is_idle());
        true
    }
}
