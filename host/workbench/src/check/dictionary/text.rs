//! Words in the data of a module.

use super::{LONGEST, SHORTEST};

/// Adds the words of these bytes: the literals in quotation marks to `quoted`, other runs of text to `others`.
pub(super) fn words(bytes: &[u8], quoted: &mut Vec<String>, others: &mut Vec<String>) {
    for run in bytes.split(|byte| !is_text(*byte)) {
        // Half a character may be at either end.
        for run in run.utf8_chunks().map(|chunk| chunk.valid()) {
            literals(run, quoted);
            let run = run.trim();
            if run.len() <= LONGEST {
                add(run, others);
            } else {
                run.split(|letter: char| !is_of_word(letter))
                    .for_each(|word| add(word, others));
            }
        }
    }
}

fn add(word: &str, to: &mut Vec<String>) {
    if (SHORTEST..=LONGEST).contains(&word.len()) && word.contains(char::is_alphabetic) {
        to.push(word.to_owned());
    }
}

/// Those of a source text in most languages. They are on one line, and without escapes.
fn literals(text: &str, to: &mut Vec<String>) {
    let mut rest = text;
    while let Some(start) = rest.find(['\'', '"', '`']) {
        let (mark, after) = rest.split_at(start).1.split_at(1);
        rest = after;
        let end = after.find([mark.chars().next().unwrap_or('"'), '\n']);
        if let Some((literal, remaining)) = end.map(|end| after.split_at(end))
            && remaining.starts_with(mark)
            && literal.len() <= LONGEST
        {
            add(literal, to);
            rest = remaining.get(1..).unwrap_or_default();
        }
    }
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b' '..=b'~' | 0x80..)
}

/// What is part of a name, a code or a path.
fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/' | ':')
}
