//! What the value of a key may be at least and at most: `bounds` of its entry, such as `1 to 100`, `at least 1m` or `0s or 5s to 1h`. After a comma or a colon, an entry says why.

use std::ops::RangeInclusive;

use super::{Key, RawValue};

/// The sizes that a value may have, read from such a text. None if the text says nothing.
pub(in crate::config) fn ranges<T: RawValue>(bounds: &str) -> Option<Vec<RangeInclusive<u128>>> {
    let size = |text: &str| T::of_text(text.trim()).ok()?.size();
    let range = |part: &str| {
        if let Some(least) = part.strip_prefix("at least ") {
            return Some(size(least)?..=u128::MAX);
        }
        if let Some(most) = part.strip_prefix("at most ") {
            return Some(0..=size(most)?);
        }
        match part.split_once(" to ") {
            Some((least, most)) => Some(size(least)?..=size(most)?),
            None => Some(size(part)?..=size(part)?),
        }
    };
    numbers(bounds).split(" or ").map(range).collect()
}

/// The bounds without the reason.
pub(super) fn numbers(bounds: &str) -> &str {
    bounds.split([',', ':']).next().unwrap_or_default().trim()
}

impl Key {
    /// Checks the size of a value, if there are bounds.
    pub(in crate::config) fn check_bounds<T: RawValue>(&self, value: &T) -> Result<(), String> {
        let Some(size) = value.size().filter(|_| !self.bounds.is_empty()) else {
            return Ok(());
        };
        let ranges = ranges::<T>(self.bounds).unwrap_or_default();
        let is_within = ranges.iter().any(|range| range.contains(&size));
        is_within.then_some(()).ok_or_else(|| self.expected())
    }

    /// A value that was read from a text, if it is within the bounds.
    pub(in crate::config) fn checked<T: RawValue>(
        &self,
        read: Result<T, String>,
    ) -> Result<T, String> {
        let value = read.map_err(|error| {
            if self.is_number() {
                self.expected()
            } else {
                error
            }
        })?;
        self.check_bounds(&value).map(|()| value)
    }

    /// What an error expects.
    fn expected(&self) -> String {
        let what = if self.is_number() {
            "a whole number from "
        } else {
            ""
        };
        format!("expected {what}{}", self.bounds)
    }

    /// Whether the bounds are numbers without a unit.
    fn is_number(&self) -> bool {
        let last = numbers(self.bounds).rsplit(' ').next();
        last.is_some_and(|it| it.parse::<u64>().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;
    use crate::config::raw::{Bytes, Span};

    #[test]
    fn bounds_are_read_in_the_unit_of_the_value() {
        assert_eq!(ranges::<u32>("1 to 100"), Some(vec![1..=100]));
        assert_eq!(
            ranges::<Span>("0s or 5s to 1h"),
            Some(vec![0..=0, 5_000..=3_600_000])
        );
        assert_eq!(
            ranges::<Span>("at most 5s: messages stay in flight for that long"),
            Some(vec![0..=5_000])
        );
        assert_eq!(
            ranges::<Bytes>("at least 1MiB, the size of the largest message"),
            Some(vec![1 << 20..=u128::MAX])
        );
        for wrong in ["", "1 to", "few", "1s to 2s", "at least"] {
            assert_eq!(ranges::<u32>(wrong), None, "{wrong}");
        }
    }

    /// A mistake in an entry would refuse all values, or none.
    #[test]
    fn the_bounds_of_every_key_can_be_read_and_its_default_is_within() {
        let with_bounds = || keys().filter(|key| !key.bounds.is_empty());
        assert!(with_bounds().count() > 15);
        for key in with_bounds() {
            let ranges = (key.ranges)(key.bounds);
            let ranges = ranges.unwrap_or_else(|| panic!("{}: {}", key.path(), key.bounds));
            assert!(ranges.iter().all(|it| !it.is_empty()), "{}", key.path());
            if !key.default.is_empty() {
                key.check(key.default).unwrap();
            }
        }
    }
}
