//! The time, as JavaScript passes it: a module without imports has no clock.

use std::time::{Duration, Instant};

use backstop_core::failure::Timestamp;

use crate::step::Now;

/// The time: milliseconds that only grow, and milliseconds since 1970.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates when it is cast, and NaN becomes zero"
)]
pub(crate) fn now(monotonic: f64, wall: f64) -> Now {
    Now {
        instant: start() + Duration::from_nanos((monotonic * 1e6) as u64),
        wall: Timestamp(wall as u64),
    }
}

/// The point in time from which JavaScript's time counts.
#[cfg(target_arch = "wasm32")]
fn start() -> Instant {
    const { assert!(size_of::<Instant>() == size_of::<Duration>()) };
    // SAFETY: on this target, an `Instant` is one `Duration`, for which all zeros are valid. Nothing else makes one: `Instant::now` panics.
    unsafe { std::mem::zeroed() }
}

#[cfg(not(target_arch = "wasm32"))]
fn start() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(backstop_core::clock::instant)
}
