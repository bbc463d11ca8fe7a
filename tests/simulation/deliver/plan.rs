//! What happens to a delivery: entries for a queue, a table or a stream, and what disturbs the service.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::shrink::without_one;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Standard,
    Fifo,
    Table,
    Stream,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) to: To,
    pub(crate) entries: Vec<Entry>,
    /// Between two entries of the input.
    pub(crate) pace: Duration,
    pub(crate) requests: usize,
    pub(crate) held: usize,
    pub(crate) max_attempts: u32,
    /// Whether the rest of a group goes on after a failure.
    pub(crate) goes_on: bool,
    pub(crate) stops: Option<Duration>,
    pub(crate) disturbances: Vec<Disturbance>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) number: u32,
    pub(crate) group: u32,
    /// Whether the service refuses it.
    pub(crate) refused: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Disturbance {
    pub(crate) from: Duration,
    pub(crate) lasts: Duration,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Requests are carried out, and nobody hears of it.
    LostAnswers,
    /// Requests take up to a minute on their way.
    LateRequests,
    /// Answers take up to a minute.
    LateAnswers,
    /// Requests fail with an error of the server, and half of them are carried out all the same.
    Broken,
    /// Whole requests are throttled.
    Throttled,
    /// Some entries fail.
    PartialFailures,
    /// Answers leave out some of the entries.
    LeftOut,
}

const KINDS: [Kind; 7] = [
    Kind::LostAnswers,
    Kind::LateRequests,
    Kind::LateAnswers,
    Kind::Broken,
    Kind::Throttled,
    Kind::PartialFailures,
    Kind::LeftOut,
];

impl Plan {
    /// The plan of a seed: up to 80 entries in some minutes, and up to 5 disturbances.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let to = *[To::Standard, To::Fifo, To::Table, To::Stream]
            .choose(&mut random)
            .unwrap();
        let groups = random.random_range(1..20);
        let entries = (0..random.random_range(1..80)).map(|number| Entry {
            number,
            group: random.random_range(0..groups),
            refused: random.random_ratio(1, 40),
        });
        let entries = entries.collect();
        let disturbances = (0..random.random_range(0..6)).map(|_| Disturbance {
            from: Duration::from_millis(random.random_range(0..60_000)),
            lasts: Duration::from_millis(random.random_range(1..60_000)),
            kind: *KINDS.choose(&mut random).unwrap(),
        });
        let disturbances = disturbances.collect();
        let stop = Duration::from_millis(random.random_range(1..90_000));
        Self {
            seed,
            to,
            entries,
            pace: Duration::from_millis(*[0, 20, 1_000].choose(&mut random).unwrap()),
            requests: random.random_range(1..6),
            held: random.random_range(1..60),
            max_attempts: random.random_range(1..8),
            goes_on: random.random_ratio(1, 3),
            stops: random.random_ratio(1, 4).then_some(stop),
            disturbances,
        }
    }

    /// The plans with one thing less.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let disturbances = without_one(&self.disturbances).into_iter();
        let disturbances = disturbances.map(|disturbances| Self {
            disturbances,
            ..self.clone()
        });
        let entries = without_one(&self.entries).into_iter();
        let entries = entries.filter(|it| !it.is_empty()).map(|entries| Self {
            entries,
            ..self.clone()
        });
        disturbances.chain(entries).collect()
    }
}
