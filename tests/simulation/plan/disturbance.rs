//! What goes wrong in a plan, and what operators do meanwhile.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;

/// Something that goes wrong from one time to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disturbance {
    pub(crate) from: Duration,
    pub(crate) lasts: Duration,
    pub(crate) kind: Kind,
}

/// What goes wrong, or who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A host ends between two awaits, and another one begins afterwards.
    Kill { host: usize },
    /// A host is stopped as an orchestrator does, and another one begins afterwards.
    Stop { host: usize },
    /// Nothing of a host happens meanwhile.
    Freeze { host: usize },
    /// A host joins.
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
    /// Receipt handles count no more.
    ExpiredHandles,
    /// There is no dead-letter queue.
    NoDeadLetterQueue,
    /// The dead-letter queue accepts no message, because it is too large, say.
    RefusedLetters,
    /// Nobody listens at the worker's address.
    WorkerDown,
    /// The clock of the machines is set forward by an hour, and back again.
    ClockForward,
    /// The clock of the machines is set back by an hour, and forward again.
    ClockBack,
    /// The next version of the policy becomes active.
    Swap,
    /// An operator wakes everything that waits.
    Wake,
    /// An operator pauses a host, and resumes whichever host is there afterwards.
    Pause { host: usize },
    /// An operator sets a rate, and removes it afterwards.
    Rate { host: usize },
    /// An operator sets how many messages may be in flight, and sets that back afterwards.
    Narrow { host: usize },
    /// An operator moves dead letters back.
    Redrive { operator: usize },
    /// The same, and is killed.
    KilledRedrive { operator: usize },
    /// What is behind the worker is down, for one tenant or for all.
    Outage { tenant: Option<u32> },
    /// Hosts look for a new version of the policy, and there is none.
    Check,
    /// An operator rolls the policy back.
    RollBack,
}

/// All of them, with how often each is drawn.
const KINDS: [(Kind, u32); 30] = [
    (Kind::Kill { host: 0 }, 3),
    (Kind::Kill { host: 1 }, 1),
    (Kind::Stop { host: 0 }, 3),
    (Kind::Stop { host: 1 }, 1),
    (Kind::Freeze { host: 0 }, 2),
    (Kind::Freeze { host: 1 }, 1),
    (Kind::Second, 3),
    (Kind::LostAnswers, 2),
    (Kind::LateAnswers, 2),
    (Kind::Refused, 2),
    (Kind::Throttled, 2),
    (Kind::PartialFailures, 2),
    (Kind::EmptyReceives, 2),
    (Kind::Duplicates, 2),
    (Kind::ExpiredHandles, 1),
    (Kind::NoDeadLetterQueue, 1),
    (Kind::RefusedLetters, 1),
    (Kind::WorkerDown, 3),
    (Kind::ClockForward, 1),
    (Kind::ClockBack, 1),
    (Kind::Swap, 4),
    (Kind::Wake, 4),
    (Kind::Pause { host: 0 }, 3),
    (Kind::Pause { host: 1 }, 1),
    (Kind::Rate { host: 0 }, 2),
    (Kind::Narrow { host: 0 }, 2),
    (Kind::Redrive { operator: 0 }, 3),
    (Kind::Redrive { operator: 1 }, 3),
    (Kind::KilledRedrive { operator: 0 }, 2),
    (Kind::KilledRedrive { operator: 1 }, 1),
];

/// Those that are drawn where they matter: with a breaker, or with versions of the policy.
const OTHERS: [Kind; 3] = [Kind::Outage { tenant: None }, Kind::Check, Kind::RollBack];

impl Kind {
    /// The names of all kinds, without the host, the operator or the tenant that each concerns.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        let all = KINDS.iter().map(|(kind, _)| kind).chain(&OTHERS);
        let mut names: Vec<_> = all.map(|kind| kind.name()).collect();
        names.dedup();
        names.into_iter()
    }

    pub(crate) fn name(self) -> String {
        let text = format!("{self:?}");
        text.split(' ').next().unwrap_or_default().to_owned()
    }

    fn draw(random: &mut ChaCha8Rng) -> Self {
        let drawn = KINDS.choose_weighted(random, |(_, often)| *often);
        drawn.unwrap().0
    }
}

impl Disturbance {
    pub(crate) fn to(&self) -> Duration {
        self.from + self.lasts
    }

    /// A disturbance at any time, or soon after one of these.
    pub(super) fn draw(
        is_possible: impl Fn(Kind) -> bool,
        times: &[Duration],
        random: &mut ChaCha8Rng,
    ) -> Self {
        let kind = loop {
            let kind = Kind::draw(random);
            if is_possible(kind) {
                break kind;
            }
        };
        Self::of(kind, times, random)
    }

    /// One of this kind, at any time, or soon after one of these.
    pub(super) fn of(kind: Kind, times: &[Duration], random: &mut ChaCha8Rng) -> Self {
        let from = match times.choose(random) {
            Some(time) if random.random_ratio(2, 3) => {
                *time + Duration::from_millis(random.random_range(0..90_000))
            }
            Some(_) | None => Duration::from_millis(random.random_range(0..1_500_000)),
        };
        let longest = match kind {
            Kind::Pause { .. } | Kind::Rate { .. } | Kind::Narrow { .. } | Kind::Outage { .. } => {
                300_000
            }
            _ => 120_000,
        };
        Self {
            from,
            lasts: Duration::from_millis(random.random_range(1..longest)),
            kind,
        }
    }
}
