//! Durations and points in time, in the units of the contract.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration in whole milliseconds, the unit of the contract; saturates at 49 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub u32);

impl Milliseconds {
    /// Rounds up, so that no wait is shorter than requested.
    pub fn from_duration(duration: Duration) -> Self {
        let part = u64::from(duration.subsec_nanos().div_ceil(1_000_000));
        let milliseconds = duration
            .as_secs()
            .saturating_mul(1_000)
            .saturating_add(part);
        Self(u32::try_from(milliseconds).unwrap_or(u32::MAX))
    }

    /// A delay as SQS takes it: in whole seconds, rounded up.
    pub const fn whole_seconds(self) -> Self {
        Self(self.0.div_ceil(1_000).saturating_mul(1_000))
    }

    /// The same duration as a [`Duration`].
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

impl std::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&backstop_backoff::format_duration(self.0.into()))
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// 2026-01-01T00:00:00Z, when the clocks of tests begin.
    pub const OF_TESTS: Self = Self(1_767_225_600_000);

    /// The duration from `earlier` to this; zero if `earlier` is later, which happens with the clocks of two machines.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// In the format of RFC 3339, to the second.
    pub fn rfc3339(self) -> String {
        let milliseconds = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(milliseconds / 1_000 * 1_000)
            .unwrap_or(jiff::Timestamp::MAX)
            .to_string()
    }

    /// The point in time that is `duration` later; saturates.
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}
