//! Changes an input in one way: bytes, words of other inputs, lines, and the sections and names of WebAssembly.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

/// Bytes at the limits of lengths, counts, opcodes, numbers and strings.
const EDGES: [u8; 16] = [
    0, 1, 0x0b, b'\n', b'"', b'\\', 0x3f, 0x40, 0x60, 0x7f, 0x80, 0xc0, 0xef, b'9', 0xfe, 0xff,
];

/// What breaks readers: numbers, nesting, escapes, marks of other notations.
const ODD: [&str; 32] = [
    "-1",
    "0",
    "1e400",
    "-0.0",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "18446744073709551616",
    "1e-7",
    "NaN",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "[[[[",
    "\\ud83d",
    "\\u0000",
    "\u{0}",
    "\u{202e}",
    "\u{feff}",
    "é",
    "😀",
    "\r\n",
    "..",
    "/",
    "%00",
    "@sha256:",
    ":",
    "=",
    ",",
    "`",
];

/// The shortest and the longest piece that counts as a word, in bytes.
const WORD: std::ops::RangeInclusive<usize> = 2..=40;

/// The words of the kept inputs.
#[derive(Debug)]
pub(crate) struct Words(Vec<Vec<u8>>);

impl Words {
    pub(crate) fn of(inputs: &[Vec<u8>]) -> Self {
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let mut words: Vec<_> = inputs
            .iter()
            .flat_map(|input| input.split(|byte| !is_of_word(byte)))
            .filter(|word| WORD.contains(&word.len()))
            .map(<[u8]>::to_vec)
            .collect();
        words.sort();
        words.dedup();
        Self(words)
    }

    fn any(&self, rng: &mut ChaCha8Rng) -> Vec<u8> {
        if self.0.is_empty() || rng.random() {
            ODD[rng.random_range(0..ODD.len())].into()
        } else {
            self.0[rng.random_range(0..self.0.len())].clone()
        }
    }
}

/// Changes an input in one way.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], words: &Words, rng: &mut ChaCha8Rng) {
    if input.is_empty() {
        *input = words.any(rng);
        return;
    }
    let at = rng.random_range(0..input.len());
    let length = rng.random_range(1..=64.min(input.len() - at));
    let is_binary = input.starts_with(b"\0asm");
    match rng.random_range(0..12) {
        0 => input[at] ^= 1 << rng.random_range(0..8),
        1 => input[at] = EDGES[rng.random_range(0..EDGES.len())],
        2 => drop(input.drain(at..at + length)),
        // Bytes of this or another input, put in or in place of others.
        3 | 4 => {
            let from = if rng.random() {
                input.clone()
            } else {
                other.to_vec()
            };
            if from.is_empty() {
                return;
            }
            let start = rng.random_range(0..from.len());
            let end = (start + length * rng.random_range(1..8)).min(from.len());
            let replaced = if rng.random() {
                at..at
            } else {
                at..at + length
            };
            drop(input.splice(replaced, from[start..end].iter().copied()));
        }
        5 => {
            let start = rng.random_range(0..=input.len() - length);
            let to = at.min(input.len() - length);
            input.copy_within(start..start + length, to);
        }
        6 => drop(input.drain(at..)),
        7 if is_binary => rename(input, rng),
        8 | 9 if is_binary => rearrange(input, rng),
        // A number of seven bits becomes a longer one.
        10 if is_binary => {
            let bytes = [0xff, 0xff, 0xff, 0xff, 0x0f];
            let most = rng.random_range(1..5);
            drop(input.splice(at..=at, bytes[5 - most..].iter().copied()));
        }
        7 => drop(input.splice(at..at, words.any(rng))),
        8 | 9 => replace_word(input, at, &words.any(rng)),
        10 => repeat(input, at, length, rng),
        _ => swap_lines(input, rng),
    }
}

/// Replaces the word or number at this place.
fn replace_word(input: &mut Vec<u8>, at: usize, by: &[u8]) {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let start = input[..at]
        .iter()
        .rposition(|it| !is_of_word(it))
        .map_or(0, |it| it + 1);
    let end = input[at..]
        .iter()
        .position(|it| !is_of_word(it))
        .map_or(input.len(), |it| at + it);
    drop(input.splice(start..end.max(start), by.iter().copied()));
}

/// Repeats a piece many times: nesting, long names, long numbers.
fn repeat(input: &mut Vec<u8>, at: usize, length: usize, rng: &mut ChaCha8Rng) {
    let piece = input[at..at + length.min(4)].to_vec();
    let times = 1 << rng.random_range(1..9);
    drop(input.splice(at..at, piece.repeat(times)));
}

/// Moves a line.
fn swap_lines(input: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    let mut lines: Vec<_> = input
        .split_inclusive(|it| *it == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let (from, to) = (
        rng.random_range(0..lines.len()),
        rng.random_range(0..lines.len()),
    );
    if rng.random() {
        let line = lines[from].clone();
        lines.insert(to, line);
    } else {
        lines.swap(from, to);
    }
    *input = lines.concat();
}

/// Changes a letter of a name, or replaces a name by another of the file.
fn rename(file: &mut [u8], rng: &mut ChaCha8Rng) {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-:/@.#_".contains(&byte);
    let mut names = Vec::new();
    let mut start = 0;
    for at in 0..=file.len() {
        if file.get(at).is_some_and(|byte| is_of_name(*byte)) {
            continue;
        }
        if at - start >= 4 {
            names.push(start..at);
        }
        start = at + 1;
    }
    let Some(last) = names.len().checked_sub(1) else {
        return;
    };
    let name = names[rng.random_range(0..=last)].clone();
    if rng.random() {
        let at = rng.random_range(name);
        file[at] = b"abiklmz09-:/@.#_\0\x80"[rng.random_range(0..18)];
    } else {
        let other = file[names[rng.random_range(0..=last)].clone()].to_vec();
        let most = other.len().min(name.len());
        file[name.start..name.start + most].copy_from_slice(&other[..most]);
    }
}

/// Doubles, swaps, drops or lengthens a section.
fn rearrange(file: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    let mut sections = Vec::new();
    let mut at = 8;
    while at < file.len() {
        let (mut size, mut shift, mut next) = (0_usize, 0, at + 1);
        while let Some(byte) = file.get(next) {
            size |= usize::from(byte & 0x7f) << shift;
            (shift, next) = (shift + 7, next + 1);
            if byte & 0x80 == 0 || shift > 28 {
                break;
            }
        }
        let end = next.saturating_add(size).min(file.len());
        sections.push((at, next, end));
        at = end.max(at + 1);
    }
    let Some(last) = sections.len().checked_sub(1) else {
        return;
    };
    let (start, content, end) = sections[rng.random_range(0..=last)];
    let (to, _, _) = sections[rng.random_range(0..=last)];
    let section = file[start..end].to_vec();
    match rng.random_range(0..5) {
        0 => drop(file.splice(to..to, section)),
        1 => drop(file.drain(start..end)),
        2 => file[start] = rng.random_range(0..16),
        // The count at the start of most sections.
        3 if content < file.len() => {
            let counts: [&[u8]; 4] = [
                &[0],
                &[0x7f],
                &[0xff, 0x7f],
                &[0xff, 0xff, 0xff, 0xff, 0x0f],
            ];
            let count = counts[rng.random_range(0..4)];
            drop(file.splice(content..=content, count.iter().copied()));
        }
        _ => {
            let inner = file[content.min(end)..end].to_vec();
            drop(file.splice(end..end, inner));
        }
    }
}
