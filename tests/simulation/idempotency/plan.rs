//! What happens to idempotent work: calls of a few keys by several hosts, and what disturbs them.

use std::time::Duration;

use backstop_idempotency::RecordFormat;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::shrink::without_one;

/// The hosts that share a table. The last one takes what is left at the end, and nothing happens to it.
pub(crate) const HOSTS: usize = 4;

/// The host at the end.
pub(crate) const LAST: usize = HOSTS - 1;

/// How far apart the clocks of two hosts are at most, in milliseconds: the documents say that a second does no harm.
const SKEW: i64 = 900;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) typescript: bool,
    /// Whether work whose owner crashed is never done again.
    pub(crate) dead_letter: bool,
    /// The lease, if it is not the default one.
    pub(crate) lease: Option<Duration>,
    pub(crate) expires_after: Duration,
    pub(crate) sort_key: bool,
    /// Whether the SDK's client makes attempts of its own.
    pub(crate) client_retries: bool,
    /// How far each host's clock is ahead, in milliseconds.
    pub(crate) skews: [i64; HOSTS],
    pub(crate) calls: Vec<Planned>,
    pub(crate) disturbances: Vec<Disturbance>,
}

/// A call, and those that follow if it fails.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) key: u32,
    pub(crate) host: usize,
    pub(crate) at: Duration,
    /// Whether its payload is another than that of most calls.
    pub(crate) other_payload: bool,
    /// The steps of its work, and how long each takes.
    pub(crate) steps: u32,
    pub(crate) step: Duration,
    /// How often its work fails before it succeeds.
    pub(crate) fails: u32,
    /// Whether its result is too large for an item.
    pub(crate) large: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Disturbance {
    pub(crate) from: Duration,
    pub(crate) lasts: Duration,
    pub(crate) kind: Kind,
}

impl Disturbance {
    pub(crate) fn to(&self) -> Duration {
        self.from + self.lasts
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A host ends between two awaits. What it had to do comes again, elsewhere or there.
    Kill { host: usize },
    /// Nothing of a host happens meanwhile.
    Freeze { host: usize },
    /// The clock of a host is set by this many seconds, and back again.
    Clock { host: usize, seconds: i64 },
    /// A host does not reach the table.
    CutOff { host: usize },
    /// Requests are carried out, and nobody hears of it.
    LostAnswers,
    /// Answers take up to half a minute.
    LateAnswers,
    /// Requests take up to half a minute on their way.
    LateRequests,
    /// Requests arrive once more, up to half a minute later.
    Repeated,
    /// Requests fail with an error of the server, and half of them are carried out all the same.
    Broken,
    /// The table asks for less load.
    Throttled,
    /// Another transaction has the item.
    Conflicts,
}

const KINDS: [Kind; 14] = [
    Kind::Kill { host: 0 },
    Kind::Freeze { host: 0 },
    Kind::Freeze { host: 0 },
    Kind::Clock {
        host: 0,
        seconds: 3_600,
    },
    Kind::Clock {
        host: 0,
        seconds: -3_600,
    },
    Kind::CutOff { host: 0 },
    Kind::LostAnswers,
    Kind::LateAnswers,
    Kind::LateRequests,
    Kind::LateRequests,
    Kind::Repeated,
    Kind::Broken,
    Kind::Throttled,
    Kind::Conflicts,
];

impl Plan {
    /// The plan of a seed: ten minutes with up to 24 calls and up to 6 disturbances.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let keys = random.random_range(1..6);
        let calls = (0..random.random_range(1..24)).map(|_| Planned::draw(keys, &mut random));
        let calls = calls.collect();
        let disturbances = (0..random.random_range(0..7)).map(|_| Disturbance::draw(&mut random));
        let disturbances = disturbances.collect();
        let seconds = |list: &[u64], random: &mut ChaCha8Rng| {
            Duration::from_secs(*list.choose(random).unwrap())
        };
        let lease = seconds(&[0, 0, 6, 10, 30], &mut random);
        Self {
            seed,
            typescript: random.random_ratio(1, 3),
            dead_letter: random.random_ratio(1, 3),
            lease: Some(lease).filter(|it| !it.is_zero()),
            expires_after: seconds(&[60, 3_600, 30 * 86_400], &mut random),
            sort_key: random.random_ratio(1, 4),
            client_retries: random.random_ratio(1, 4),
            skews: [(); HOSTS].map(|()| random.random_range(-SKEW / 2..=SKEW / 2)),
            calls,
            disturbances,
        }
    }

    pub(crate) fn format(&self) -> RecordFormat {
        if self.typescript {
            RecordFormat::TypeScript
        } else {
            RecordFormat::Python
        }
    }

    /// When nothing disturbs any more, and every call has begun.
    pub(crate) fn calm(&self) -> Duration {
        let disturbed = self.disturbances.iter().map(Disturbance::to);
        let called = self.calls.iter().map(|it| it.at);
        disturbed.chain(called).max().unwrap_or_default() + Duration::from_secs(1)
    }

    /// The longest lease of any call.
    pub(crate) fn longest_lease(&self) -> Duration {
        let deadlines = self.calls.iter().filter_map(|it| it.deadline).max();
        let of_deadlines = self.lease.map_or(deadlines, |_| None);
        let lease = self.lease.unwrap_or(Duration::from_secs(20));
        lease.max(of_deadlines.unwrap_or_default())
    }

    /// The plans with one thing less.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let disturbances = without_one(&self.disturbances);
        let disturbances = disturbances.into_iter().map(|disturbances| Self {
            disturbances,
            ..self.clone()
        });
        let calls = without_one(&self.calls).into_iter().map(|calls| Self {
            calls,
            ..self.clone()
        });
        let calm = calls.filter(|it| !it.calls.is_empty());
        disturbances.chain(calm).collect()
    }
}

impl Planned {
    fn draw(keys: u32, random: &mut ChaCha8Rng) -> Self {
        let at = if random.random_ratio(1, 3) {
            // With others.
            Duration::from_secs(random.random_range(0..5) * 100)
        } else {
            Duration::from_millis(random.random_range(0..500_000))
        };
        let longest = *[20, 2_000, 12_000].choose(random).unwrap();
        let maybe = |random: &mut ChaCha8Rng| {
            let drawn = Duration::from_millis(random.random_range(500..40_000));
            random.random_ratio(1, 3).then_some(drawn)
        };
        Self {
            key: random.random_range(0..keys),
            host: random.random_range(0..LAST),
            at,
            other_payload: random.random_ratio(1, 20),
            steps: random.random_range(1..7),
            step: Duration::from_millis(random.random_range(1..longest)),
            fails: random.random_range(0..5u32).saturating_sub(2),
            large: random.random_ratio(1, 80),
            deadline: maybe(random),
            wait: maybe(random).or_else(|| maybe(random)),
        }
    }
}

impl Disturbance {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let slot = random.random_range(0..LAST);
        let mut kind = *KINDS.choose(random).unwrap();
        match &mut kind {
            Kind::Kill { host }
            | Kind::Freeze { host }
            | Kind::Clock { host, .. }
            | Kind::CutOff { host } => *host = slot,
            _ => {}
        }
        Self {
            from: Duration::from_millis(random.random_range(0..520_000)),
            lasts: Duration::from_millis(random.random_range(1..80_000)),
            kind,
        }
    }
}
