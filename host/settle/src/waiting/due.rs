//! When messages are due, as a histogram.

use serde::{Deserialize, Serialize};

use crate::failure::{Milliseconds, Timestamp};

/// The most bars of a histogram.
const BARS: i64 = 24;

/// The widths of a histogram's bars, in milliseconds. Each is a multiple of the one before, so that two histograms can be added.
const STEPS: [i64; 12] = [
    1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000,
    43_200_000, 86_400_000,
];

/// A histogram of due times.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Due {
    /// Where the first bar begins: the time of the report.
    pub from: Timestamp,
    /// The width of each bar, in milliseconds.
    pub step: Milliseconds,
    /// The messages in each bar.
    pub counts: Vec<u64>,
}

/// The histogram with the narrowest bars that reaches the last due time.
pub(super) fn histogram(dues: &[i64], now: i64, from: Timestamp) -> Due {
    let after = |due: &i64| due.saturating_sub(now).max(0);
    let last = dues.iter().map(after).max().unwrap_or_default();
    let fits = |step: &&i64| last / **step < BARS;
    let step = STEPS.iter().find(fits).copied().unwrap_or(86_400_000);
    let mut counts = Vec::new();
    for due in dues {
        let bar = usize::try_from(after(due) / step).unwrap_or_default();
        if counts.len() <= bar {
            counts.resize(bar + 1, 0);
        }
        if let Some(count) = counts.get_mut(bar) {
            *count += 1;
        }
    }
    Due {
        from,
        step: Milliseconds(u32::try_from(step).unwrap_or(u32::MAX)),
        counts,
    }
}

impl Due {
    /// Adds the counts of another host. Its bars begin at its own time, which is the same but for the time of the requests.
    pub fn add(&mut self, other: &Self) {
        if other.step > self.step {
            let mut wide = other.clone();
            std::mem::swap(self, &mut wide);
            return self.add(&wide);
        }
        let narrow = usize::try_from(self.step.0 / other.step.0.max(1)).unwrap_or(1);
        for (bar, count) in other.counts.iter().enumerate() {
            let bar = bar / narrow.max(1);
            if self.counts.len() <= bar {
                self.counts.resize(bar + 1, 0);
            }
            if let Some(sum) = self.counts.get_mut(bar) {
                *sum += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_reaches_the_last_message_with_the_narrowest_bars() {
        let of = |dues: &[i64]| {
            let due = histogram(dues, 1_000, Timestamp(0));
            (due.step.0, due.counts)
        };
        assert_eq!(of(&[]), (1_000, vec![]));
        assert_eq!(of(&[1_000, 1_999, 3_000]), (1_000, vec![2, 0, 1]));
        assert_eq!(of(&[25_000]).0, 5_000);
        let (step, counts) = of(&[1_000, 12 * 3_600_000]);
        assert_eq!((step, counts.len()), (3_600_000, 12));
        let (step, counts) = of(&[14 * 86_400_000]);
        assert_eq!((step, counts.len()), (86_400_000, 14));
    }

    #[test]
    fn the_histograms_of_two_hosts_are_added() {
        let of = |step, counts: &[u64]| Due {
            from: Timestamp(0),
            step: Milliseconds(step),
            counts: counts.to_vec(),
        };
        let mut narrow = of(1_000, &[1, 2, 0, 0, 0, 4]);
        let wide = of(5_000, &[10, 0, 30]);
        let mut sum = wide.clone();
        sum.add(&narrow);
        assert_eq!(sum, of(5_000, &[13, 4, 30]));
        narrow.add(&wide);
        assert_eq!(narrow, sum);
    }
}
