//! What happens in a simulation: a plan is drawn from a seed, and is smaller where that suffices to show a fault.

mod disturbance;
mod keyed;
mod version;

use std::fmt;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

pub(crate) use disturbance::{Disturbance, Kind};
pub(crate) use keyed::{Breaking, Limits, TENANT, tenant_of};
pub(crate) use version::{Breaks, Version};

/// The codes that failures have: two transient ones, a throttle and a permanent one.
pub(crate) const CODES: [&str; 4] = ["ECONNRESET", "HTTP 503", "ThrottlingException", PERMANENT];

/// The code that no attempt can help.
pub(crate) const PERMANENT: &str = "ValidationException";

/// The hosts that share a queue.
pub(crate) const HOSTS: usize = 2;

/// The operators who move dead letters back.
pub(crate) const OPERATORS: usize = 2;

/// For how long most queues keep messages.
pub(crate) const LONG: Duration = Duration::from_secs(14 * 86_400);

/// How messages wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Invisible,
    SentAgain,
    /// Invisible, as long as there are not too many of them.
    Auto,
}

/// Where hosts keep what outlives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Nowhere,
    /// Each in a folder of its own, as on two machines.
    Apart,
    /// In one folder, as on one machine.
    Together,
}

/// Messages, what becomes of their attempts, and what disturbs the hosts meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) fifo: bool,
    pub(crate) waits: Waits,
    /// Whether the hosts have a key in common, with which they know the envelopes of each other.
    pub(crate) keys: bool,
    pub(crate) kept: Kept,
    pub(crate) max_attempts: u32,
    /// The most messages that a host has in flight.
    pub(crate) most: usize,
    pub(crate) visibility: u32,
    /// The first delay of the policy, in seconds, if it is a built-in one.
    pub(crate) base: u64,
    /// Its versions. Without any, it is a built-in policy that never changes.
    pub(crate) versions: Vec<Version>,
    /// How long the queue keeps a message.
    pub(crate) retention: Duration,
    /// The most messages in flight in the queue: what SQS has 120,000 for.
    pub(crate) most_in_flight: usize,
    /// When the hosts stop, though messages wait. Nothing disturbs them later.
    pub(crate) ends: Option<Duration>,
    /// When nothing is attempted because what is behind the worker is down.
    pub(crate) breaker: Option<Breaking>,
    /// The limits of each tenant.
    pub(crate) limits: Option<Limits>,
    pub(crate) messages: Vec<Planned>,
    pub(crate) disturbances: Vec<Disturbance>,
}

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// What its body says, and nobody else's.
    pub(crate) number: u32,
    pub(crate) at: Duration,
    pub(crate) group: u8,
    /// What its attempts do, in order. Further ones succeed.
    pub(crate) attempts: Vec<Attempt>,
}

/// What the worker does with a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) takes: Duration,
    /// The code of its error, if it fails.
    pub(crate) fails: Option<&'static str>,
}

impl Plan {
    /// The plan of a seed: half an hour with up to 40 messages and up to 17 disturbances.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let fifo = random.random_ratio(1, 3);
        let ends = random
            .random_ratio(1, 5)
            .then(|| Duration::from_secs(random.random_range(60..1_200)));
        let is_before = |at: Duration| ends.is_none_or(|ends| at < ends);
        let messages: Vec<_> = (0..random.random_range(1..40))
            .map(|number| Planned::draw(number, &mut random))
            .filter(|message| is_before(message.at))
            .collect();
        let times: Vec<_> = messages.iter().map(|message| message.at).collect();
        let is_possible = |kind| match kind {
            Kind::Duplicates => !fifo,
            _ => true,
        };
        let disturbances = (0..random.random_range(0..12))
            .map(|_| Disturbance::draw(is_possible, &times, &mut random))
            .filter(|disturbance| is_before(disturbance.to()))
            .collect();
        let has_versions = random.random_ratio(1, 3);
        let waits = [
            Waits::Invisible,
            Waits::Invisible,
            Waits::SentAgain,
            Waits::Auto,
        ];
        let mut plan = Self {
            seed,
            fifo,
            waits: if fifo {
                Waits::Invisible
            } else {
                *waits.choose(&mut random).unwrap()
            },
            keys: random.random_ratio(2, 3),
            kept: *[Kept::Nowhere, Kept::Apart, Kept::Together]
                .choose(&mut random)
                .unwrap(),
            max_attempts: random.random_range(2..7),
            most: random.random_range(2..21),
            visibility: random.random_range(5..60),
            base: *[1, 5, 20, 60, 300].choose(&mut random).unwrap(),
            versions: if has_versions {
                Version::draw_all(&mut random)
            } else {
                Vec::new()
            },
            retention: if random.random_ratio(1, 5) {
                Duration::from_secs(random.random_range(120..1_200))
            } else {
                LONG
            },
            most_in_flight: if random.random_ratio(1, 4) {
                random.random_range(6..30)
            } else {
                120_000
            },
            ends,
            breaker: None,
            limits: None,
            messages,
            disturbances,
        };
        plan.add_keys();
        plan
    }

    /// One redrive, and nothing else.
    pub(crate) fn of_a_redrive() -> Self {
        let redrive = Disturbance {
            from: Duration::ZERO,
            lasts: Duration::from_secs(1),
            kind: Kind::Redrive { operator: 0 },
        };
        Self {
            messages: Vec::new(),
            disturbances: vec![redrive],
            ..Self::of(0)
        }
    }

    /// When nothing disturbs any more.
    pub(crate) fn calm(&self) -> Duration {
        let disturbed = self.disturbances.iter().map(Disturbance::to);
        let sent = self.messages.iter().map(|message| message.at);
        let last = disturbed.chain(sent).max().unwrap_or_default() + Duration::from_secs(1);
        last.max(self.ends.unwrap_or_default())
    }

    /// Whether something of this kind happens at all.
    pub(crate) fn has(&self, is: impl Fn(Kind) -> bool) -> bool {
        self.disturbances.iter().any(|it| is(it.kind))
    }
}

/// A line for each message and each disturbance.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = Self {
            messages: Vec::new(),
            disturbances: Vec::new(),
            ..self.clone()
        };
        writeln!(f, "{rest:?}")?;
        for message in &self.messages {
            let (number, at) = (message.number, message.at);
            write!(f, "message {number} at {at:?}, group {}:", message.group)?;
            for attempt in &message.attempts {
                let result = attempt.fails.unwrap_or("succeeds");
                write!(f, " {:?} {result};", attempt.takes)?;
            }
            writeln!(f)?;
        }
        for Disturbance { from, lasts, kind } in &self.disturbances {
            writeln!(f, "{kind:?} at {from:?} for {lasts:?}")?;
        }
        Ok(())
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
            group: random.random_range(0..4),
            attempts,
        }
    }
}

impl Attempt {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let longest = if random.random_ratio(1, 8) {
            200_000
        } else {
            3_000
        };
        let code = CODES.choose(random).copied();
        Self {
            takes: Duration::from_millis(random.random_range(1..longest)),
            fails: code.filter(|_| random.random_ratio(2, 3)),
        }
    }
}
