//! Cutting text without breaking it, showing it without harm, and telling an error with its causes.

/// Shortens `text` to at most `bytes` bytes, at the boundary of a character.
pub(crate) fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}

/// The last `bytes` bytes of `text` at most, from the boundary of a character.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    text.get(start..).unwrap_or_default()
}

/// A text as one line that does nothing to a terminal, whatever a policy put into it.
pub(crate) fn one_line(text: &str) -> String {
    let escaped = |c: char| -> String {
        match c.is_control() {
            true => c.escape_default().collect(),
            false => c.to_string(),
        }
    };
    text.chars().map(escaped).collect()
}

/// An error and its causes, each once, for people: `{:#}` of an error that is no `anyhow::Error`.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        for (bytes, start, end) in [
            (0, "", ""),
            (1, "", ""),
            (2, "é", "é"),
            (3, "é", "é"),
            (4, "éé", "éé"),
            (9, "éé", "éé"),
        ] {
            let mut text = "éé".to_owned();
            assert_eq!(tail(&text, bytes), end);
            cut(&mut text, bytes);
            assert_eq!(text, start);
        }
    }
}
