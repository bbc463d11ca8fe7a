//! One figure: the median of its rounds, and how far they lie apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Of time.
    Nanoseconds,
    /// Of time.
    Microseconds,
    /// Of time.
    Milliseconds,
    /// Of time.
    Seconds,
    /// A second, of whatever the row counts.
    PerSecond,
    /// Of whatever the column's name says.
    Number,
    /// Of memory or of a file.
    Bytes,
    /// Of memory or of a file.
    Kibibytes,
    /// Of memory or of a file.
    Mebibytes,
    /// Of the United States.
    Dollars,
    /// One of two figures divided by the other.
    Times,
}

impl Unit {
    /// What stands behind a number.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Nanoseconds => " ns",
            Self::Microseconds => " µs",
            Self::Milliseconds => " ms",
            Self::Seconds => " s",
            Self::PerSecond => "/s",
            Self::Number => "",
            Self::Bytes => " B",
            Self::Kibibytes => " KiB",
            Self::Mebibytes => " MiB",
            Self::Dollars => " $",
            Self::Times => " ×",
        }
    }
}

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
}

/// The rounds of one figure: a median, and the middle half.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Figure {
    /// As many rounds lie below it as above.
    pub median: f64,
    /// A quarter of the rounds lies below it.
    pub lower_quartile: f64,
    /// A quarter of the rounds lies above it.
    pub upper_quartile: f64,
    /// How many there were.
    pub rounds: usize,
}

impl Figure {
    /// Of all rounds. There is at least one.
    pub fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let mut rounds: Vec<f64> = rounds.into_iter().collect();
        assert!(!rounds.is_empty(), "a figure has at least one round");
        rounds.sort_by(f64::total_cmp);
        let at = |quarter: usize| {
            let index = (rounds.len() - 1) * quarter;
            // Between two rounds, the mean that lies there.
            let (below, part) = (index / 4, (index % 4) as f64 / 4.0);
            let above = (below + 1).min(rounds.len() - 1);
            rounds[below] * (1.0 - part) + rounds[above] * part
        };
        Self {
            median: at(2),
            lower_quartile: at(1),
            upper_quartile: at(3),
            rounds: rounds.len(),
        }
    }

    /// A count, which is the same each time.
    pub fn exact(value: f64) -> Self {
        Self::of([value])
    }

    /// How many times another one this is, by their medians.
    pub fn times(self, other: Self) -> f64 {
        self.median / other.median
    }

    /// The middle half of the rounds as a share of the median, in per cent: from the lower quartile to the upper one. None for a single round.
    pub fn spread(self) -> Option<f64> {
        (self.rounds > 1 && self.median != 0.0)
            .then(|| 100.0 * (self.upper_quartile - self.lower_quartile) / self.median)
    }
}

/// Three significant digits or whole numbers.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.median.abs();
        let digits = match magnitude {
            m if m == 0.0 || m >= 100.0 => 0,
            m if m >= 10.0 => 1,
            m if m >= 1.0 => 2,
            _ => 3,
        };
        f.pad(&format!("{:.digits$}", self.median))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_and_the_middle_half() {
        let figure = Figure::of([4.0, 1.0, 3.0, 2.0, 5.0]);
        let of = (figure.median, figure.lower_quartile, figure.upper_quartile);
        assert_eq!(of, (3.0, 2.0, 4.0));
        assert_eq!(figure.spread(), Some(200.0 / 3.0));
        assert_eq!(Figure::of([1.0, 2.0]).median, 1.5);
        assert_eq!(Figure::exact(7.0).spread(), None);
    }

    #[test]
    fn a_figure_has_three_digits() {
        let shown = |value: f64| Figure::exact(value).to_string();
        assert_eq!(
            [shown(17_788.4), shown(38.44), shown(4.3), shown(0.2011)],
            ["17788", "38.4", "4.30", "0.201"]
        );
    }
}
