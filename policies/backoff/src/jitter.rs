//! The formulas of backoff and jitter, saturating, in whole milliseconds.
//!
//! `e(n) = min(cap, base * 2^(n-1))`, where `n` is the attempt that failed, from 1. `U(a, b)` is uniform over the whole milliseconds from `a` to `b`, both included. Full, equal and decorrelated jitter are those of the AWS Architecture Blog, "Exponential Backoff And Jitter"; its `e` is twice this one, because it counts attempts from 0.

use crate::Milliseconds;

/// `e(n)`: `base` after the first attempt, doubled by each further attempt, at most `cap`. An `attempt` of 0 counts as 1.
pub fn exponential(base: Milliseconds, cap: Milliseconds, attempt: u32) -> Milliseconds {
    let doublings = attempt.saturating_sub(1);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(Milliseconds::MAX);
    base.saturating_mul(factor).min(cap)
}

/// `min(cap, base * n)`. An `attempt` of 0 counts as 1.
pub fn linear(base: Milliseconds, cap: Milliseconds, attempt: u32) -> Milliseconds {
    base.saturating_mul(attempt.max(1)).min(cap)
}

/// Full jitter: `U(floor, ceiling)`, where `ceiling` is `e(n)`. A `floor` above the ceiling gives the ceiling.
pub fn full(floor: Milliseconds, ceiling: Milliseconds, random: f64) -> Milliseconds {
    uniform(floor.min(ceiling), ceiling, random)
}

/// Equal jitter: `ceiling/2 + U(0, ceiling/2)`, where `ceiling` is `e(n)`.
pub fn equal(ceiling: Milliseconds, random: f64) -> Milliseconds {
    uniform(ceiling / 2, ceiling, random)
}

/// Decorrelated jitter: `min(cap, U(base, 3 * previous))`. `previous` is the previous delay, and `base` at first.
pub fn decorrelated(
    base: Milliseconds,
    cap: Milliseconds,
    previous: Milliseconds,
    random: f64,
) -> Milliseconds {
    let longest = previous.max(base).saturating_mul(3);
    uniform(base, longest, random).min(cap)
}

/// The mean delay of decorrelated jitter before attempt `n`: `min(cap, base * (2 * 1.5^(n-1) - 1))`, which is `base` for the first. In place of `previous` if that is unknown: the delays then grow as they would have.
pub fn mean_decorrelated(base: Milliseconds, cap: Milliseconds, attempt: u32) -> Milliseconds {
    let mut mean = base.min(cap);
    // From 1 ms, 64 attempts reach any cap.
    for _ in 1..attempt.min(64) {
        // The mean of U(base, 3 * mean).
        let next = (3 * u64::from(mean) + u64::from(base)).div_ceil(2);
        mean = Milliseconds::try_from(next)
            .unwrap_or(Milliseconds::MAX)
            .min(cap);
    }
    mean
}

/// A whole number from `low` to `high`, both included, for a `random` in [0, 1). A `random` outside this range is clamped.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the product lies in 0..=2^32, and a float saturates when it is cast"
)]
pub fn uniform(low: Milliseconds, high: Milliseconds, random: f64) -> Milliseconds {
    let width = high.saturating_sub(low);
    let offset = (random * (f64::from(width) + 1.0)) as Milliseconds;
    low + offset.min(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const JUST_BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

    #[test]
    fn the_mean_of_decorrelated_jitter_grows_by_half_and_ends_at_the_cap() {
        let means = (1..=6).map(|attempt| mean_decorrelated(100, 1_000, attempt));
        assert_eq!(means.collect::<Vec<_>>(), [100, 200, 350, 575, 913, 1_000]);
        // It ends, whatever the attempt.
        assert_eq!(mean_decorrelated(1, u32::MAX, u32::MAX), u32::MAX);
        assert_eq!(mean_decorrelated(0, u32::MAX, u32::MAX), 0);
        assert_eq!(mean_decorrelated(500, 100, 9), 100);
    }

    #[test]
    fn exponential_doubles_from_the_base_to_the_cap() {
        for (attempt, expected) in [
            (0, 100),
            (1, 100),
            (2, 200),
            (3, 400),
            (7, 6_400),
            (8, 10_000),
            (33, 10_000),
            (u32::MAX, 10_000),
        ] {
            assert_eq!(exponential(100, 10_000, attempt), expected, "{attempt}");
        }
        assert_eq!(exponential(3, u32::MAX, 31), 3 << 30);
        assert_eq!(exponential(5, u32::MAX, 31), u32::MAX);
    }

    #[test]
    fn linear_grows_by_the_base_to_the_cap() {
        for (attempt, expected) in [(0, 100), (1, 100), (2, 200), (9, 900), (11, 1_000)] {
            assert_eq!(linear(100, 1_000, attempt), expected, "{attempt}");
        }
        assert_eq!(linear(u32::MAX, u32::MAX, u32::MAX), u32::MAX);
    }

    #[test]
    fn each_jitter_spans_exactly_its_range() {
        for (random, full_jitter, floored, equal_jitter, decorrelated_jitter) in [
            (0.0, 0, 100, 500, 100),
            (0.5, 500, 550, 750, 200),
            (JUST_BELOW_ONE, 1_000, 1_000, 1_000, 300),
        ] {
            assert_eq!(full(0, 1_000, random), full_jitter);
            assert_eq!(full(100, 1_000, random), floored);
            assert_eq!(equal(1_000, random), equal_jitter);
            assert_eq!(decorrelated(100, 5_000, 100, random), decorrelated_jitter);
        }
        assert_eq!(full(2_000, 1_000, 0.0), 1_000);
        assert_eq!(decorrelated(100, 150, 100, JUST_BELOW_ONE), 150);
        assert_eq!(decorrelated(100, 5_000, 0, 0.0), 100);
    }

    #[test]
    fn the_mean_of_full_jitter_is_half_of_its_ceiling() {
        let steps = 10_000_u32;
        let sum: u64 = (0..steps)
            .map(|i| u64::from(full(0, 1_000, f64::from(i) / f64::from(steps))))
            .sum();
        assert_eq!((sum + u64::from(steps) / 2) / u64::from(steps), 500);
    }

    proptest! {
        #[test]
        fn no_delay_exceeds_its_cap_or_falls_below_its_floor(
            base in 0..=u32::MAX, cap in 0..=u32::MAX, floor in 0..=u32::MAX,
            attempt in 0..=u32::MAX, previous in 0..=u32::MAX, random in 0.0..1.0_f64,
        ) {
            let ceiling = exponential(base, cap, attempt);
            prop_assert!(ceiling <= cap);
            prop_assert!(linear(base, cap, attempt) <= cap);
            let jittered = full(floor, ceiling, random);
            prop_assert!(jittered <= ceiling && jittered >= floor.min(ceiling));
            let half = equal(ceiling, random);
            prop_assert!(half <= ceiling && half >= ceiling / 2);
            let drifting = decorrelated(base, cap, previous, random);
            prop_assert!(drifting <= cap && drifting >= base.min(cap));
        }

        #[test]
        fn a_later_attempt_never_has_a_lower_ceiling(base in 0..=u32::MAX, cap in 0..=u32::MAX, attempt in 0..100_u32) {
            prop_assert!(exponential(base, cap, attempt + 1) >= exponential(base, cap, attempt));
            prop_assert!(linear(base, cap, attempt + 1) >= linear(base, cap, attempt));
        }
    }
}
