//! The width of the terminal, and lines that fit it. In a pipe or a file, lines are neither broken nor cut: other programs read them.

use std::io::{IsTerminal as _, stdout};

use backstop_core::text::one_line;

/// The narrowest terminal for which lines are made to fit.
const NARROWEST: usize = 40;

/// The columns of the terminal that standard output is, or that `COLUMNS` says it has. `None` for a pipe or a file.
pub(crate) fn columns() -> Option<usize> {
    let stdout = stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let of_variable = std::env::var("COLUMNS").ok();
    let of_variable = of_variable.and_then(|it| it.parse::<u16>().ok());
    let of_terminal = || Some(rustix::termios::tcgetwinsize(stdout).ok()?.ws_col);
    let columns = of_variable.filter(|columns| *columns > 0);
    let columns = columns.or_else(of_terminal).filter(|columns| *columns > 0);
    columns.map(|columns| usize::from(columns).max(NARROWEST))
}

/// The text with line breaks between words, so that no line is longer than `columns`. It is printed after `indent` characters, and its further lines are indented by as many. A longer word, such as a URL, is not broken.
pub(crate) fn wrapped(text: &str, indent: usize, columns: Option<usize>) -> String {
    let Some(columns) = columns else {
        return text.to_owned();
    };
    let room = columns.saturating_sub(indent).max(NARROWEST / 2);
    let (mut lines, mut line, mut length) = (Vec::new(), String::new(), 0);
    for word in text.split(' ') {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > room {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += more;
    }
    lines.push(line);
    lines.join(&format!("\n{:indent$}", ""))
}

/// The text, cut to this many characters with an ellipsis.
pub(crate) fn cut(text: &str, columns: Option<usize>) -> String {
    match columns {
        Some(columns) if text.chars().count() > columns => {
            let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
        Some(_) | None => text.to_owned(),
    }
}

/// At most this many characters of a text, as one line.
pub(crate) fn short(text: &str, characters: usize) -> String {
    let mut shown: String = text.chars().take(characters).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    one_line(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_for_a_terminal_only() {
        let text = "queue orders: a message that keeps failing waits for 466ms";
        assert_eq!(wrapped(text, 10, None), text);
        assert_eq!(
            wrapped(text, 10, Some(40)),
            "queue orders: a message that\n          keeps failing waits for 466ms"
        );
        let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders";
        assert_eq!(
            wrapped(&format!("see {url} now"), 2, Some(40)),
            format!("see\n  {url}\n  now")
        );
        assert_eq!(wrapped("", 4, Some(40)), "");
    }

    #[test]
    fn a_text_is_cut_for_a_terminal_only() {
        assert_eq!(cut("a long text", None), "a long text");
        assert_eq!(cut("a long text", Some(11)), "a long text");
        assert_eq!(cut("a long text", Some(8)), "a long…");
        assert_eq!(cut("äöüß", Some(3)), "äö…");
    }

    #[test]
    fn a_long_text_is_cut_and_has_one_line() {
        assert_eq!(short("a\nb", 9), "a\\nb");
        assert_eq!(short("äöü", 2), "äö…");
    }
}
