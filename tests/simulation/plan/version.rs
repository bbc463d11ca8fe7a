//! The versions of the policy in a plan: each waits for a fixed time, and may break at one attempt.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;

/// A version of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    /// How long it has messages wait, in milliseconds. No other version of the plan has the same.
    pub(crate) delay: u32,
    /// How it breaks, and at which attempt.
    pub(crate) breaks: Option<(Breaks, u32)>,
    /// How long it says of each failure that something is down, in milliseconds.
    pub(crate) down_for: Option<u32>,
}

/// How a version breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    Traps,
    Loops,
    Recurses,
    /// Its delay is longer than any queue keeps a message.
    WaitsTooLong,
}

const ALL: [Breaks; 4] = [
    Breaks::Traps,
    Breaks::Loops,
    Breaks::Recurses,
    Breaks::WaitsTooLong,
];

impl Version {
    /// The versions of a plan, in the order in which they become active.
    pub(super) fn draw_all(random: &mut ChaCha8Rng) -> Vec<Self> {
        let count = random.random_range(1..5);
        let longest = [3, 60, 600];
        let draw = |number: u32| {
            let longest = *longest.choose(random).unwrap();
            Self {
                delay: random.random_range(0..longest) * 1_000 + number * 100,
                breaks: random.random_ratio(1, 2).then(|| {
                    let how = *ALL.choose(random).unwrap();
                    (how, random.random_range(1..4))
                }),
                down_for: None,
            }
        };
        (0..count).map(draw).collect()
    }

    /// Some versions say that something is down, for up to seven minutes.
    pub(super) fn draw_down_for(random: &mut ChaCha8Rng) -> Option<u32> {
        let down_for = random.random_range(1..420_000);
        Some(down_for).filter(|_| random.random_ratio(1, 4))
    }

    /// Whether it breaks at this attempt.
    pub(crate) fn breaks_at(&self, attempt: u32) -> bool {
        self.breaks.is_some_and(|(_, at)| at == attempt)
    }
}
