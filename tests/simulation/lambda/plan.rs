//! What happens to a retry handler: events whose function fails, and what disturbs Lambda and its queues.

use std::time::Duration;

use backstop_settle::hold::HoldMode;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::plan::{CODES, PERMANENT};
use crate::shrink::without_one;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Whether messages wait by being sent again.
    pub(crate) resend: bool,
    /// Whether the handler may look its mapping up.
    pub(crate) knows_mapping: bool,
    pub(crate) max_attempts: u32,
    /// The timeout of the handler's function, and the visibility timeout of its queue.
    pub(crate) timeout: Duration,
    pub(crate) visibility: u32,
    /// The first delay of the policy, in seconds.
    pub(crate) base: u64,
    /// The most messages of a batch, and the batches at the same time.
    pub(crate) batch: usize,
    pub(crate) pollers: usize,
    pub(crate) events: Vec<Planned>,
    pub(crate) disturbances: Vec<Disturbance>,
    /// Other settings of the policy, which environments have that start later.
    pub(crate) swaps: Vec<Swap>,
}

/// A new version: from when, and its first delay in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swap {
    pub(crate) at: Duration,
    pub(crate) base: u64,
}

/// The first delays of policies, in seconds.
const BASES: [u64; 5] = [1, 5, 20, 60, 120];

/// An event.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) number: u32,
    pub(crate) at: Duration,
    /// What its attempts do, in order. Further ones succeed.
    pub(crate) attempts: Vec<Attempt>,
}

/// What the function does with an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) takes: Duration,
    /// The type of its error, if it fails.
    pub(crate) fails: Option<&'static str>,
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
    /// An environment of the handler ends in the middle of an invocation.
    Kills,
    /// Every invocation is a cold start.
    ColdStarts,
    /// The response of an invocation is lost, so that nothing of its batch is deleted.
    LostResponses,
    /// Messages are received, and nobody is invoked with them.
    NotInvoked,
    /// Messages that are in flight or deleted are delivered once more.
    Duplicates,
    /// The mapping's own deletes fail.
    FailedDeletes,
    /// Requests are carried out, and nobody hears of it.
    LostAnswers,
    /// Requests take half a minute on their way, or their answers.
    LateAnswers,
    /// Requests fail with an error of the server.
    Refused,
    /// So they do, and were carried out.
    Broken,
    /// The services ask for less load.
    Throttled,
    /// Some entries of batches fail.
    PartialFailures,
    /// The handler may not invoke the function.
    Denied,
    /// The function runs late, as Lambda has no room for it.
    Delayed,
    /// The function runs twice for one event.
    RunsTwice,
}

const KINDS: [Kind; 15] = [
    Kind::Kills,
    Kind::ColdStarts,
    Kind::LostResponses,
    Kind::NotInvoked,
    Kind::Duplicates,
    Kind::FailedDeletes,
    Kind::LostAnswers,
    Kind::LateAnswers,
    Kind::Refused,
    Kind::Broken,
    Kind::Throttled,
    Kind::PartialFailures,
    Kind::Denied,
    Kind::Delayed,
    Kind::RunsTwice,
];

impl Plan {
    /// The plan of a seed: up to 23 events in a quarter of an hour, up to 6 disturbances, and up to 2 new versions of the policy.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let events = (0..random.random_range(1..24))
            .map(|number| Planned::draw(number, &mut random))
            .collect();
        let disturbances = (0..random.random_range(0..7))
            .map(|_| Disturbance::draw(&mut random))
            .collect();
        let timeout = *[6, 10, 30, 60].choose(&mut random).unwrap();
        Self {
            seed,
            resend: random.random_ratio(1, 4),
            knows_mapping: random.random_ratio(5, 6),
            max_attempts: random.random_range(2..7),
            timeout: Duration::from_secs(timeout),
            visibility: u32::try_from(timeout).unwrap() * random.random_range(1..7),
            base: *BASES.choose(&mut random).unwrap(),
            batch: random.random_range(1..11),
            pollers: random.random_range(1..4),
            events,
            disturbances,
            // Half of the plans have none.
            swaps: (0..random.random_range(0..4u32).saturating_sub(1))
                .map(|_| Swap::draw(&mut random))
                .collect(),
        }
    }

    /// The first delay of the version that is active at a time.
    pub(crate) fn base_at(&self, at: Duration) -> u64 {
        let before = self.swaps.iter().filter(|swap| swap.at <= at);
        let last = before.max_by_key(|swap| swap.at);
        last.map_or(self.base, |swap| swap.base)
    }

    pub(crate) fn hold(&self) -> HoldMode {
        if self.resend {
            HoldMode::Resend
        } else {
            HoldMode::Auto
        }
    }

    /// When nothing disturbs any more, and every event has come.
    pub(crate) fn calm(&self) -> Duration {
        let disturbed = self.disturbances.iter().map(Disturbance::to);
        let came = self.events.iter().map(|it| it.at);
        disturbed.chain(came).max().unwrap_or_default() + Duration::from_secs(1)
    }

    /// The plans with one thing less.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let disturbances = without_one(&self.disturbances).into_iter();
        let disturbances = disturbances.map(|disturbances| Self {
            disturbances,
            ..self.clone()
        });
        let events = without_one(&self.events).into_iter();
        let events = events.filter(|it| !it.is_empty()).map(|events| Self {
            events,
            ..self.clone()
        });
        let swaps = without_one(&self.swaps).into_iter();
        let swaps = swaps.map(|swaps| Self {
            swaps,
            ..self.clone()
        });
        disturbances.chain(events).chain(swaps).collect()
    }
}

impl Planned {
    fn draw(number: u32, random: &mut ChaCha8Rng) -> Self {
        let attempts = (0..random.random_range(0..6)).map(|_| Attempt::draw(random));
        let attempts = attempts.collect();
        Self {
            number,
            at: if random.random_ratio(1, 3) {
                // With others.
                Duration::from_secs(random.random_range(0..5) * 180)
            } else {
                Duration::from_millis(random.random_range(0..900_000))
            },
            attempts,
        }
    }
}

impl Attempt {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let code = CODES.choose(random).copied();
        let rarely = random.random_ratio(1, 4);
        Self {
            takes: Duration::from_millis(random.random_range(1..3_000)),
            fails: code.filter(|it| *it != PERMANENT || rarely),
        }
    }
}

impl Swap {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        Self {
            at: Duration::from_millis(random.random_range(0..900_000)),
            base: *BASES.choose(random).unwrap(),
        }
    }
}

impl Disturbance {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        Self {
            from: Duration::from_millis(random.random_range(0..1_500_000)),
            lasts: Duration::from_millis(random.random_range(1..240_000)),
            kind: *KINDS.choose(random).unwrap(),
        }
    }
}
