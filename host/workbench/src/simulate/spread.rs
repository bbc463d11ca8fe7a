//! Distributions: percentiles of integers; mean, deviation and percentiles of measurements.

use serde::Serialize;

/// The percentiles of a set, by nearest rank: each is a value of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Percentiles {
    /// The smallest.
    pub earliest: u64,
    /// The 5th percentile.
    pub p5: u64,
    /// The 50th percentile.
    pub median: u64,
    /// The 95th percentile.
    pub p95: u64,
    /// The largest.
    pub latest: u64,
}

impl Percentiles {
    /// Computed from these values; all 0 if there are none.
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let at = |percent| nearest(&values, percent).unwrap_or_default();
        Self {
            earliest: at(0),
            p5: at(5),
            median: at(50),
            p95: at(95),
            latest: at(100),
        }
    }
}

/// The mean, deviation and percentiles of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Spread {
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation of the sample; 0 for a single value.
    pub deviation: f64,
    /// The 5th percentile.
    pub p5: f64,
    /// The 95th percentile.
    pub p95: f64,
}

impl Spread {
    /// Computed from these values; all 0 if there are none.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a count of runs is small enough for a double"
    )]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            mean,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
            p5: nearest(&values, 5).unwrap_or_default(),
            p95: nearest(&values, 95).unwrap_or_default(),
        }
    }
}

/// The percentile of sorted values, by nearest rank.
pub(crate) fn nearest<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_set() {
        let hundred = Percentiles::of((1..=100).rev().collect());
        let expected = Percentiles {
            earliest: 1,
            p5: 5,
            median: 50,
            p95: 95,
            latest: 100,
        };
        assert_eq!(hundred, expected);
        let alone = Percentiles::of(vec![7]);
        assert_eq!((alone.earliest, alone.median, alone.latest), (7, 7, 7));
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
    }

    #[test]
    fn a_spread_has_the_deviation_of_a_sample() {
        let spread = Spread::of(vec![2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(spread.mean, 5.0);
        assert!((spread.deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((spread.p5, spread.p95), (2.0, 9.0));
        assert_eq!(Spread::of(vec![3.0]).deviation, 0.0);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
