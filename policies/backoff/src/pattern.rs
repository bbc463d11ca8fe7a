//! Texts in which `*` stands for any text.

/// Whether the whole of `text` is as the pattern says. `*` stands for any text, also none.
///
/// ```
/// use backstop_backoff::pattern::matches;
///
/// assert!(matches("HTTP 5*", "HTTP 503"));
/// assert!(!matches("HTTP 5*", "HTTP 404"));
/// ```
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // What follows the last star, and where in the text that was tried last.
    let mut star = None;
    while let Some(byte) = text.get(from) {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                at += 1;
                star = Some((at, from));
            }
            (Some(expected), _) if expected == byte => {
                at += 1;
                from += 1;
            }
            (_, Some((after, tried))) => {
                at = after;
                from = tried + 1;
                star = Some((after, from));
            }
            (_, None) => return false,
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*b", "ab", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
            ("*b*", "abc", true),
            ("ax*xa", "axa", false),
            ("*.fifo", "orders.fifo", true),
            ("*.fifo", "a.fifo.fifo", true),
            ("*aab", "aaaab", true),
            ("a**", "a", true),
            ("", "", true),
            ("", "a", false),
            ("é*", "éa", true),
            ("*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern}");
        }
    }
}
