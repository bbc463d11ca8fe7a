//! The name that a misspelt one was meant to be.

/// The candidate that is at most two changes of a character away: one that is missing, too many, another, or swapped with the next. Upper and lower case are the same.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let of = |candidate: &'a str| (distance(word, candidate), candidate);
    let (distance, found) = candidates.into_iter().map(of).min()?;
    (distance <= 2).then_some(found)
}

/// The number of changes from one word to the other.
fn distance(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.to_lowercase().chars().collect::<Vec<_>>();
    let (one, other) = (letters(one), letters(other));
    // The distances of the last two beginnings of `one` to every beginning of `other`.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, there) in other.iter().enumerate() {
            let at =
                |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&last, column) + usize::from(letter != there);
            let mut least = replaced
                .min(at(&last, column + 1) + 1)
                .min(at(&next, column) + 1);
            let previous = |word: &[char], index: usize| word.get(index.wrapping_sub(1)).copied();
            let is_swapped =
                previous(&one, row) == Some(*there) && previous(&other, column) == Some(*letter);
            if is_swapped && row > 0 && column > 0 {
                least = least.min(at(&before, column - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_has_a_nearest_one() {
        let classes = ["permanent", "throttled", "transient"];
        for (word, expected) in [
            ("permanent", Some("permanent")),
            ("Permanent", Some("permanent")),
            ("permanant", Some("permanent")),
            ("permenant", Some("permanent")),
            ("transeint", Some("transient")),
            ("trottled", Some("throttled")),
            ("throtteld", Some("throttled")),
            ("transients", Some("transient")),
            ("perm", None),
            ("card-declined", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, classes), expected, "{word}");
        }
        assert_eq!(nearest("permanent", []), None);
    }

    #[test]
    fn a_swap_is_one_change() {
        for (one, other, expected) in [
            ("on", "no", 1),
            ("abcd", "abdc", 1),
            ("abc", "", 3),
            ("", "", 0),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
