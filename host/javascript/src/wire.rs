//! How values come from JavaScript: numbers as doubles, texts as their length and their bytes in UTF-8, one after another. A number that is absent is NaN.

use std::time::Duration;

/// Reads values in their order. What is missing is absent.
#[derive(Debug)]
pub struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    /// Of these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, length: usize) -> &[u8] {
        let end = self.at.saturating_add(length).min(self.bytes.len());
        let taken = self.bytes.get(self.at..end).unwrap_or_default();
        self.at = end;
        taken
    }

    /// A number; NaN if it is absent.
    #[inline(never)]
    pub fn number(&mut self) -> f64 {
        let bytes = self.take(8).try_into();
        bytes.map_or(f64::NAN, f64::from_le_bytes)
    }

    /// A number that may be absent.
    #[inline(never)]
    pub fn optional(&mut self) -> Option<f64> {
        Some(self.number()).filter(|number| !number.is_nan())
    }

    /// A whole number; saturates, and is 0 if it is absent.
    pub fn whole(&mut self) -> u32 {
        saturated(self.number())
    }

    /// Whether a number is not zero.
    pub fn flag(&mut self) -> bool {
        self.whole() != 0
    }

    /// A duration in milliseconds that may be absent.
    #[inline(never)]
    pub fn duration(&mut self) -> Option<Duration> {
        self.optional().map(duration)
    }

    /// A text.
    #[inline(never)]
    pub fn text(&mut self) -> String {
        let length = self.whole() as usize;
        let bytes = self.take(length).to_vec();
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Pairs of texts, after their number.
    #[inline(never)]
    pub fn pairs(&mut self) -> Vec<(String, String)> {
        let count = self.whole();
        let pairs = (0..count).map_while(|_| {
            let is_there = self.at < self.bytes.len();
            is_there.then(|| (self.text(), self.text()))
        });
        pairs.collect()
    }
}

/// A duration of JavaScript's, in milliseconds.
fn duration(milliseconds: f64) -> Duration {
    let seconds = milliseconds.max(0.0) / 1e3;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// A whole number of JavaScript's; the nearest one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates when it is cast, and NaN becomes zero"
)]
pub fn saturated(number: f64) -> u32 {
    number as u32
}
