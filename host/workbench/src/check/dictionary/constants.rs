//! What the code of a module compares with: numbers, texts in its data, and short texts that the compiler has turned into numbers.

use std::collections::VecDeque;

use wasmparser::{FunctionBody, MemArg, Operator};

use super::{LONGEST, SHORTEST, Segment};

/// The most of each kind.
const MOST: usize = 20_000;

/// How many instructions an address and its length may be apart: the two arguments of a call, or two stores.
const NEAR: usize = 3;

/// How many parts of one text may be in code before another part of it.
const PARTS: usize = 12;

/// A part of a text that is compared as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// The first byte of it, from the start of the text.
    from: u64,
    bytes: Vec<u8>,
}

impl Part {
    /// These two as one, if the other goes on after this one or overlaps it.
    fn and(&self, other: &Self) -> Option<Self> {
        let overlap = (self.from + self.bytes.len() as u64).checked_sub(other.from)?;
        let overlap = usize::try_from(overlap).ok()?;
        let starts_within = other.from > self.from;
        let (same, new) = other.bytes.split_at_checked(overlap)?;
        (starts_within && !new.is_empty() && self.bytes.ends_with(same)).then(|| Self {
            from: self.from,
            bytes: [&self.bytes, new].concat(),
        })
    }
}

/// The constants of one module's code.
#[derive(Debug, Default)]
pub(super) struct Constants {
    /// Two numbers that are near each other: perhaps an address and a length.
    pairs: Vec<(u32, u32)>,
    /// The parts of texts, and where a function ends.
    parts: Vec<Option<Part>>,
    compared: Vec<u32>,
}

impl Constants {
    /// Reads a function.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::wildcard_enum_match_arm,
        reason = "one half of a number after the other; all other instructions say nothing"
    )]
    pub(super) fn read(&mut self, body: &FunctionBody<'_>) -> wasmparser::Result<()> {
        let mut before: VecDeque<(usize, u32)> = VecDeque::new();
        let (mut loaded, mut constant, mut added) = (None, None, None);
        for (at, operator) in body.get_operators_reader()?.into_iter().enumerate() {
            let operator = operator?;
            if let (Some(number), true) = (constant, is_comparison(&operator)) {
                self.compared.extend(u32::try_from(number).ok());
            }
            // The start of a load is in it, or was added before.
            let base = match operator {
                Operator::I32Add => constant,
                _ => None,
            };
            constant = constant_of(&operator);
            if let (Some(number), Some((from, width))) = (constant, loaded) {
                self.parts.extend(part(from, width, number).map(Some));
            }
            let start = std::mem::replace(&mut added, base).unwrap_or_default();
            loaded = load_of(&operator).map(|(from, width)| (from.saturating_add(start), width));
            if let Operator::I64Const { value } = operator {
                // Both in one number, to be stored at once.
                let (address, length) = (
                    value.cast_unsigned() as u32,
                    (value.cast_unsigned() >> 32) as u32,
                );
                self.pairs
                    .extend(is_length(length).then_some((address, length)));
            }
            if let Operator::I32Const { value } = operator {
                let value = value.cast_unsigned();
                before.retain(|(since, _)| at - since <= NEAR);
                let with = before
                    .iter()
                    .flat_map(|(_, it)| [(*it, value), (value, *it)]);
                self.pairs
                    .extend(with.filter(|(_, length)| is_length(*length)));
                before.push_back((at, value));
            }
        }
        self.parts.push(None);
        self.pairs.truncate(MOST);
        self.parts.truncate(MOST);
        self.compared.truncate(MOST);
        Ok(())
    }

    /// The numbers that something is compared with.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.compared.iter().copied()
    }

    /// The texts: those in the data, and those in the code.
    pub(super) fn words(&self, segments: &[Segment<'_>]) -> Vec<String> {
        let in_data = self.pairs.iter().filter_map(|(address, length)| {
            let mut found = segments.iter().filter_map(|it| it.at(*address, *length));
            word(found.next()?)
        });
        let in_code = self.parts.split(Option::is_none).flat_map(texts);
        in_data.chain(in_code).collect()
    }
}

/// The texts that start with one of the parts of a function.
fn texts(parts: &[Option<Part>]) -> Vec<String> {
    let mut texts = Vec::new();
    let parts: Vec<&Part> = parts.iter().flatten().collect();
    for (at, first) in parts.iter().enumerate() {
        if first.from != 0 {
            continue;
        }
        let mut text = (*first).clone();
        texts.extend(word(&text.bytes));
        let near = parts.get(at.saturating_sub(PARTS)..).unwrap_or_default();
        while let Some(longer) = near.iter().take(2 * PARTS).find_map(|part| text.and(part)) {
            text = longer;
            texts.extend(word(&text.bytes));
        }
    }
    texts
}

fn word(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_plain = !text.contains(char::is_control) && text.contains(char::is_alphabetic);
    (is_plain && text.len() >= SHORTEST).then(|| text.to_owned())
}

fn is_length(number: u32) -> bool {
    (SHORTEST..=LONGEST).contains(&(number as usize))
}

/// The part of a text that a number of this many bytes is, if it is text.
fn part(from: u64, width: usize, number: u64) -> Option<Part> {
    let bytes = number.to_le_bytes().get(..width)?.to_vec();
    let is_text = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_text.then_some(Part { from, bytes })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is no constant")]
fn constant_of(operator: &Operator<'_>) -> Option<u64> {
    match operator {
        Operator::I32Const { value } => Some(u64::from(value.cast_unsigned())),
        Operator::I64Const { value } => Some(value.cast_unsigned()),
        _ => None,
    }
}

/// Where a load starts, from the start of the text, and its bytes.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest loads nothing")]
fn load_of(operator: &Operator<'_>) -> Option<(u64, usize)> {
    let of = |memarg: &MemArg, width| Some((memarg.offset, width));
    match operator {
        Operator::I32Load8U { memarg }
        | Operator::I32Load8S { memarg }
        | Operator::I64Load8U { memarg } => of(memarg, 1),
        Operator::I32Load16U { memarg } | Operator::I64Load16U { memarg } => of(memarg, 2),
        Operator::I32Load { memarg } | Operator::I64Load32U { memarg } => of(memarg, 4),
        Operator::I64Load { memarg } => of(memarg, 8),
        _ => None,
    }
}

fn is_comparison(operator: &Operator<'_>) -> bool {
    use Operator::{
        I32Eq, I32GeS, I32GeU, I32GtS, I32GtU, I32LeS, I32LeU, I32LtS, I32LtU, I32Ne, I64Eq,
        I64GeS, I64GeU, I64GtS, I64GtU, I64LeS, I64LeU, I64LtS, I64LtU, I64Ne,
    };
    matches!(
        operator,
        I32Eq
            | I32Ne
            | I32LtS
            | I32LtU
            | I32GtS
            | I32GtU
            | I32LeS
            | I32LeU
            | I32GeS
            | I32GeU
            | I64Eq
            | I64Ne
            | I64LtS
            | I64LtU
            | I64GtS
            | I64GtU
            | I64LeS
            | I64LeU
            | I64GeS
            | I64GeU
    )
}
