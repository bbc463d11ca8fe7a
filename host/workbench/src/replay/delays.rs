//! How delays are spread: their percentiles, and how many there are of which length.

use serde::{Serialize, Serializer};

use crate::simulate::nearest;

const SECOND: u32 = 1_000;
const MINUTE: u32 = 60 * SECOND;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// Where each step of lengths begins, in milliseconds; it ends where the next begins. About as far apart as one another on a logarithmic axis.
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

/// The delays that one policy said, in milliseconds. Each percentile is one of them; all are 0 where there are none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Delays {
    /// How many there are.
    pub records: usize,
    /// Half of them are no longer.
    pub median: u32,
    /// Nine in ten are no longer.
    pub p90: u32,
    /// All but one in a hundred are no longer.
    pub p99: u32,
    /// The longest.
    pub longest: u32,
    /// How many there are in each of [`STEPS`]. In JSON those that have any, each with where it begins.
    #[serde(serialize_with = "those_with_any")]
    pub steps: [usize; STEPS.len()],
    /// All of them, the shortest first.
    #[serde(skip)]
    pub times: Vec<u32>,
}

impl Delays {
    /// Of these, in any order.
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

/// A step that has delays.
#[derive(Serialize)]
struct Step {
    from: u32,
    records: usize,
}

fn those_with_any<S: Serializer>(
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
    fn delays_are_counted_by_the_step_in_which_they_lie() {
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
