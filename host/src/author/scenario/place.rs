//! Where in a file something is wrong, shown with the line itself.

use std::fmt;
use std::ops::Range;

/// A place in a text, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    line: usize,
    column: usize,
    shown: String,
    marked: usize,
    message: String,
}

impl Wrong {
    /// What is wrong with the bytes `span` of `text`.
    pub(super) fn new(text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = text.floor_char_boundary(span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let shown = rest.lines().next().unwrap_or_default();
        let column = chars(text.get(line_start..start).unwrap_or_default());
        let end = span.end.min(line_start + shown.len());
        let marked = chars(
            text.get(start..text.floor_char_boundary(end))
                .unwrap_or_default(),
        );
        Self {
            line: line_of(text, start),
            column: column + 1,
            shown: shown.to_owned(),
            marked: marked.max(1),
            message: message.into(),
        }
    }
}

/// The line that a byte stands in, from 1.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    before.filter(|byte| **byte == b'\n').count() + 1
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let margin = " ".repeat(self.line.to_string().len());
        let indent = " ".repeat(self.column - 1);
        let marks = "^".repeat(self.marked);
        write!(
            f,
            "line {}, column {}: {}\n{margin} |\n{} | {}\n{margin} | {indent}{marks}",
            self.line, self.column, self.message, self.line, self.shown
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_shown_with_its_line() {
        let text = "a = 1\né = \"zwei\"\nlast = 3";
        let start = text.find('"').unwrap();
        for (span, expected) in [
            (0..1, "line 1, column 1: odd\n  |\n1 | a = 1\n  | ^"),
            (
                start..start + 6,
                "line 2, column 5: odd\n  |\n2 | é = \"zwei\"\n  |     ^^^^^^",
            ),
            (
                start..text.len(),
                "line 2, column 5: odd\n  |\n2 | é = \"zwei\"\n  |     ^^^^^^",
            ),
            (
                text.len()..text.len(),
                "line 3, column 9: odd\n  |\n3 | last = 3\n  |         ^",
            ),
        ] {
            assert_eq!(Wrong::new(text, span, "odd").to_string(), expected);
        }
    }
}
