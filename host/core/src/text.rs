//! Text: cutting it at character boundaries, escaping text from outside for lines and terminals, and formatting an error with its causes.

use std::borrow::Cow;
use std::fmt::{self, Write};

pub use backstop_backoff::pattern::matches;

/// Shortens `text` to at most `bytes` bytes, at a character boundary.
pub fn cut(text: &mut String, bytes: usize) {
    text.truncate(head(text, bytes).len());
}

/// At most the first `bytes` bytes of `text`, to a character boundary.
pub fn head(text: &str, bytes: usize) -> &str {
    let mut ends = (0..=bytes.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or_default()
}

/// At most the last `bytes` bytes of `text`, from a character boundary.
pub fn tail(text: &str, bytes: usize) -> &str {
    let mut starts = text.len().saturating_sub(bytes)..=text.len();
    let tail = starts.find_map(|start| text.get(start..));
    tail.unwrap_or_default()
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

/// A text in which every character shows: those that control a terminal, change the direction of text or have no width become `\u202e` and the like. Line breaks and tabs stay.
///
/// JSON escapes in the same way, so JSON with these characters in its strings stays valid and means the same.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_harmful(c) && !matches!(c, '\n' | '\t');
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_plain) || !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
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

/// Whether the character controls a terminal (C0, DEL, C1), ends a line, changes the direction of the text around it (the bidirectional controls of UAX #9), or shows nothing at all (the default-ignorable characters of UAX #44, except the variation selectors that emoji need).
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
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

/// In words, if it says that a path is a folder: `Is a directory (os error 21)` says what it is, but not what was expected.
pub fn of_folder(error: std::io::Error) -> std::io::Error {
    if error.kind() == std::io::ErrorKind::IsADirectory {
        return std::io::Error::new(error.kind(), "it is a folder; expected a file");
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("plain: é, 漢, ❤\u{fe0f}", "plain: é, 漢, ❤\u{fe0f}"),
            ("e\u{200b}r\u{feff}r\u{ad}", "e\\u{200b}r\\u{feff}r\\u{ad}"),
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
    fn json_means_the_same_when_all_its_characters_show() {
        let hostile = "a\u{7f}\u{9b}2J\u{85}\u{202e}\u{200b}\u{feff}\u{e0041}é漢\n\t\"";
        let json = serde_json::to_string_pretty(&[hostile]).unwrap();
        let shown = visible(&json);
        assert_eq!(
            shown.trim(),
            "[\n  \"a\\u007f\\u009b2J\\u0085\\u202e\\u200b\\ufeff\\udb40\\udc41é漢\\n\\t\\\"\"\n]"
        );
        let read: Vec<String> = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, [hostile]);
        for plain in ["", "a\nb\tc", "é漢 ❤\u{fe0f}"] {
            assert!(matches!(visible(plain), Cow::Borrowed(same) if same == plain));
        }
        assert_eq!(visible("\u{1b}[2J\r"), "\\u001b[2J\\u000d");
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
