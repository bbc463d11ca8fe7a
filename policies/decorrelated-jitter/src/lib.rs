//! Decorrelated jitter: a random delay from the base to three times the previous delay.

use backstop_policy::{Failure, Milliseconds, Settings, formula};

/// The delay by [`formula::decorrelated_jitter`].
pub fn delay(settings: &Settings, failure: &Failure) -> Milliseconds {
    formula::decorrelated_jitter(settings, &failure.into())
}

backstop_policy::export_delay!(delay);

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_policy::testing::failure;
    use proptest::prelude::*;

    #[test]
    fn the_delay_lies_between_the_base_and_three_times_the_one_before() {
        let settings = Settings {
            base: 100,
            cap: 1_000,
            floor: 120,
            ..Settings::default()
        };
        for (attempt, previous_delay, random, expected) in [
            (1, None, 0.0, 120),
            (1, None, 0.5, 200),
            (5, Some(200), 0.5, 350),
            (5, Some(200), 0.999_999, 600),
            (5, Some(900), 0.999_999, 1_000),
            // Unknown: the mean before the third attempt is 350.
            (3, None, 0.5, 575),
        ] {
            let failure = Failure {
                attempt,
                previous_delay,
                random,
                ..failure("HTTP 503")
            };
            assert_eq!(delay(&settings, &failure), expected);
        }
    }

    proptest! {
        #[test]
        fn no_delay_leaves_its_bounds(
            (cap, base, floor) in (1..=u32::MAX).prop_flat_map(|cap| (Just(cap), 1..=cap, 0..=cap)),
            attempt in 1..=u32::MAX, previous_delay in proptest::option::of(0..=u32::MAX), random in 0.0..1.0_f64,
        ) {
            let settings = Settings { base, cap, floor, ..Settings::default() };
            let delay = delay(&settings, &Failure { attempt, previous_delay, random, ..failure("HTTP 503") });
            prop_assert!(delay <= settings.cap && delay >= settings.floor, "{delay}");
        }
    }
}
