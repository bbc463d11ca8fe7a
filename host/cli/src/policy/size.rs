//! Sizes of files and of memory, for people.

use std::fmt;

/// A number of bytes, shown in KiB: whole where that is exact, otherwise with one decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 % 1_024 {
            0 => format!("{} KiB", self.0 / 1_024),
            #[expect(clippy::cast_precision_loss, reason = "a size for people")]
            _ => format!("{:.1} KiB", self.0 as f64 / 1_024.0),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_shown_in_kib() {
        for (bytes, expected) in [
            (0, "0 KiB"),
            (100, "0.1 KiB"),
            (1_024, "1 KiB"),
            (1_536, "1.5 KiB"),
            (64 << 20, "65536 KiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), expected);
        }
        assert_eq!(format!("{:>8}", Size(1_024)), "   1 KiB");
    }
}
