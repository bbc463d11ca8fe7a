//! The distribution of delays: percentiles and a histogram.

use serde::{Serialize, Serializer};

use crate::simulate::nearest;

const SECOND: u32 = 1_000;
const MINUTE: u32 = 60 * SECOND;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// The lower bound of each step of the histogram, in milliseconds. The steps are about equally wide on a logarithmic axis.
pub const STEPS: [u32; 24] = [
    0,
    10,
    20,
    50,
    100,
    200,
    500,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    3 * DAY,
    7 * DAY,
];

/// The delays of one policy, in milliseconds. Percentiles are by nearest rank, and 0 if there are no delays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Delays {
    /// The number of delays.
    pub records: usize,
    /// The median.
    pub median: u32,
    /// The 90th percentile.
    pub p90: u32,
    /// The 99th percentile.
    pub p99: u32,
    /// The longest.
    pub longest: u32,
    /// The number of delays in each of [`STEPS`]. JSON has only the steps with delays, each with its lower bound.
    #[serde(serialize_with = "serialize_steps_with_delays")]
    pub steps: [usize; STEPS.len()],
    /// All delays, the shortest first.
    #[serde(skip)]
    pub times: Vec<u32>,
}

impl Delays {
    /// Computed from these delays, in any order.
    pub(super) fn of(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        let at = |percent| nearest(&times, percent).unwrap_or_default();
        let mut steps = [0; STEPS.len()];
        let mut below = times.len();
        for (step, from) in steps.iter_mut().zip(STEPS).rev() {
            let shorter = times.partition_point(|time| *time < from);
            *step = below - shorter;
            below = shorter;
        }
        Self {
            records: times.len(),
            median: at(50),
            p90: at(90),
            p99: at(99),
            longest: at(100),
            steps,
            times,
        }
    }
}

/// A step with delays.
#[derive(Serialize)]
struct Step {
    from: u32,
    records: usize,
}

fn serialize_steps_with_delays<S: Serializer>(
    steps: &[usize; STEPS.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let steps = STEPS.into_iter().zip(*steps);
    let steps = steps.map(|(from, records)| Step { from, records });
    serializer.collect_seq(steps.filter(|step| step.records > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_counted_by_step() {
        let delays = Delays::of(vec![u32::MAX, 9, 100, 0, 7 * DAY - 1, 1_999, 1_000]);
        let found: Vec<_> = STEPS
            .into_iter()
            .zip(delays.steps)
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(
            found,
            [(0, 2), (100, 1), (SECOND, 2), (3 * DAY, 1), (7 * DAY, 1)]
        );
        assert_eq!(
            (delays.median, delays.p90, delays.longest),
            (1_000, u32::MAX, u32::MAX)
        );
        assert_eq!(Delays::of(Vec::new()), Delays::default());
    }
}
