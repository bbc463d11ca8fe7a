//! Text: cutting it at character boundaries, escaping it for terminals, and formatting an error with its causes.

use std::fmt::{self, Write};

/// Shortens `text` to at most `bytes` bytes, at a character boundary.
pub fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}

/// At most the last `bytes` bytes of `text`, from a character boundary.
pub fn tail(text: &str, bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    text.get(start..).unwrap_or_default()
}

/// A text as one line that is safe to print on a terminal. Control characters from messages, policies and workers become escapes such as `\n` or `\u{1b}`.
pub fn one_line(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let _ = Escaping(&mut escaped).write_str(text);
    escaped
}

/// Like [`one_line`], but keeps line breaks.
pub fn harmless(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(one_line).collect();
    lines.join("\n")
}

/// A writer that escapes like [`one_line`].
pub struct Escaping<W>(pub W);

impl<W: Write> Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, odd)) = rest.char_indices().find(|(_, c)| is_harmful(*c)) {
            self.0.write_str(rest.get(..at).unwrap_or_default())?;
            write!(self.0, "{}", odd.escape_default())?;
            rest = rest.get(at + odd.len_utf8()..).unwrap_or_default();
        }
        self.0.write_str(rest)
    }
}

/// Whether the character controls a terminal (C0, DEL, C1), ends a line, or changes the direction of the text around it (the bidirectional controls of UAX #9).
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An error and its causes, each once: `{:#}` for an error that is not an `anyhow::Error`.
pub fn chain(error: &dyn std::error::Error) -> String {
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
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("plain: é, 漢, 👩\u{200d}🚀", "plain: é, 漢, 👩\u{200d}🚀"),
            ("a\r\nb\tc\0", "a\\r\\nb\\tc\\u{0}"),
            ("\u{1b}[2J\u{7}\u{7f}", "\\u{1b}[2J\\u{7}\\u{7f}"),
            ("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}"),
            (
                "\u{202e}txt\u{2066}\u{2028}",
                "\\u{202e}txt\\u{2066}\\u{2028}",
            ),
        ] {
            assert_eq!(one_line(text), shown);
        }
        assert_eq!(harmless("a\u{1b}\nb\r\n"), "a\\u{1b}\nb\\r\n");
    }

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
