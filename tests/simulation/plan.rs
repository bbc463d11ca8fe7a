//! What happens in a simulation: a plan is drawn from a seed, and is smaller where that suffices to show a fault.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// The codes that failures have: two transient ones, a throttle and a permanent one.
pub(crate) const CODES: [&str; 4] = ["ECONNRESET", "HTTP 503", "ThrottlingException", PERMANENT];

/// The code that no attempt can help.
pub(crate) const PERMANENT: &str = "ValidationException";

/// The hosts that share a queue.
pub(crate) const HOSTS: usize = 2;

/// Messages, what becomes of their attempts, and what disturbs the hosts meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) fifo: bool,
    /// Whether messages wait by being sent again.
    pub(crate) resend: bool,
    pub(crate) max_attempts: u32,
    pub(crate) visibility: u32,
    /// The first delay of the policy, in seconds.
    pub(crate) base: u64,
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

/// Something that goes wrong from one time to another.
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

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A host ends between two awaits, and another one begins afterwards.
    Kill { host: usize },
    /// A host is stopped as an orchestrator does, and another one begins afterwards.
    Stop { host: usize },
    /// Nothing of a host happens meanwhile.
    Freeze { host: usize },
    /// A host joins, or leaves.
    Second,
    /// Requests are carried out, and nobody hears of it.
    LostAnswers,
    /// Requests take half a minute.
    LateAnswers,
    /// Requests are refused.
    Refused,
    /// The service asks for less load.
    Throttled,
    /// Some entries of batches fail.
    PartialFailures,
    /// Receives bring nothing, whatever there is.
    EmptyReceives,
    /// Messages that are in flight or deleted are delivered once more. Not on a FIFO queue.
    Duplicates,
    /// Nobody listens at the worker's address.
    WorkerDown,
    /// The clock of the machines is set forward by an hour, and back again.
    ClockForward,
    /// The clock of the machines is set back by an hour, and forward again.
    ClockBack,
    /// An operator wakes everything that waits.
    Wake,
}

const KINDS: [Kind; 18] = [
    Kind::Kill { host: 0 },
    Kind::Kill { host: 1 },
    Kind::Stop { host: 0 },
    Kind::Stop { host: 1 },
    Kind::Freeze { host: 0 },
    Kind::Freeze { host: 1 },
    Kind::Second,
    Kind::LostAnswers,
    Kind::LateAnswers,
    Kind::Refused,
    Kind::Throttled,
    Kind::PartialFailures,
    Kind::EmptyReceives,
    Kind::Duplicates,
    Kind::WorkerDown,
    Kind::ClockForward,
    Kind::ClockBack,
    Kind::Wake,
];

impl Plan {
    /// The plan of a seed: half an hour with up to 40 messages and up to 8 disturbances.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let fifo = random.random_ratio(1, 3);
        let messages = (0..random.random_range(1..40))
            .map(|number| Planned::draw(number, &mut random))
            .collect();
        let disturbances = (0..random.random_range(0..9))
            .map(|_| Disturbance::draw(fifo, &mut random))
            .collect();
        Self {
            seed,
            fifo,
            resend: !fifo && random.random_ratio(1, 3),
            max_attempts: random.random_range(2..7),
            visibility: random.random_range(5..60),
            base: *[1, 5, 20, 60, 120].choose(&mut random).unwrap(),
            messages,
            disturbances,
        }
    }

    /// When nothing disturbs any more.
    pub(crate) fn calm(&self) -> Duration {
        let disturbed = self.disturbances.iter().map(Disturbance::to);
        let sent = self.messages.iter().map(|message| message.at);
        disturbed.chain(sent).max().unwrap_or_default() + Duration::from_secs(1)
    }

    /// Whether something of this kind happens at all.
    pub(crate) fn has(&self, is: impl Fn(Kind) -> bool) -> bool {
        self.disturbances.iter().any(|it| is(it.kind))
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

impl Disturbance {
    fn draw(fifo: bool, random: &mut ChaCha8Rng) -> Self {
        let kind = loop {
            let kind = *KINDS.choose(random).unwrap();
            if !(fifo && kind == Kind::Duplicates) {
                break kind;
            }
        };
        Self {
            from: Duration::from_millis(random.random_range(0..1_500_000)),
            lasts: Duration::from_millis(random.random_range(1..120_000)),
            kind,
        }
    }
}
