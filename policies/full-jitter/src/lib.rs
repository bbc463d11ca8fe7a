//! Full jitter: a random delay from the floor to the exponential delay. It spreads retries the most, but some come early.

use backstop_policy::{Failure, Milliseconds, Settings, formula};

/// The delay by [`formula::full_jitter`].
pub fn delay(settings: &Settings, failure: &Failure) -> Milliseconds {
    formula::full_jitter(settings, &failure.into())
}

backstop_policy::export_delay!(delay);

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_policy::jitter;
    use backstop_policy::testing::failure;
    use proptest::prelude::*;

    #[test]
    fn the_delay_lies_between_the_floor_and_the_exponential_delay() {
        let settings = Settings {
            base: 100,
            cap: 1_000,
            floor: 50,
            ..Settings::default()
        };
        for (attempt, random, expected) in [
            (1, 0.0, 50),
            (1, 0.5, 75),
            (3, 0.0, 50),
            (3, 0.5, 225),
            (9, 0.999_999, 1_000),
        ] {
            assert_eq!(
                delay(
                    &settings,
                    &Failure {
                        attempt,
                        random,
                        ..failure("HTTP 503")
                    }
                ),
                expected
            );
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
            prop_assert!(delay <= settings.cap && delay >= settings.floor.min(jitter::exponential(settings.base, settings.cap, attempt)), "{delay}");
        }
    }
}
