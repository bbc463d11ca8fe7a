//! Puts words and numbers of the dictionary into a generated failure.

use std::num::NonZeroU32;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};
use serde_json::{Value, json};

use super::super::generate::Case;
use super::Dictionary;
use backstop_core::failure::Milliseconds;

/// How far apart two words may be that belong together, such as a name and its value: half of them one, a quarter two.
const APART: u32 = 4;

/// The most changes of one failure.
const CHANGES: u32 = 3;

/// The most attributes that one change adds.
const PAIRS: usize = 10;

impl Dictionary {
    /// Changes up to three parts of a failure. Attributes and details come first: nothing but their values are as often compared with a text.
    pub(in super::super) fn insert(&self, case: &mut Case, random: &mut impl Rng) {
        for _ in 0..random.random_range(1..=CHANGES) {
            match random.random_range(0..10) {
                0..=3 => self.pairs(&mut case.failure.attributes, random),
                4 => self.pairs(&mut case.failure.error.details, random),
                5 => self.code(case, random),
                6 => self.message(case, random),
                7 => self.body(case, random),
                _ => self.number(case, random),
            }
        }
        case.failure = case.failure.within_bounds().into_owned();
    }

    fn word(&self, random: &mut impl Rng) -> Option<&String> {
        let (first, second) = if random.random_ratio(1, 4) {
            (&self.others, &self.words)
        } else {
            (&self.words, &self.others)
        };
        first.choose(random).or_else(|| second.choose(random))
    }

    /// A word, and mostly one that is near it: a name is rather before its value than after it.
    fn neighbours(&self, random: &mut impl Rng) -> Option<(&String, &String)> {
        let words = if self.words.is_empty() {
            &self.others
        } else {
            &self.words
        };
        let at = random.random_range(0..words.len().max(1));
        let apart = random.random::<u32>().trailing_zeros() % APART + 1;
        let apart = apart as usize;
        let near = match random.random_range(0..5) {
            0 => None,
            1 => at.checked_sub(apart),
            _ => at.checked_add(apart),
        };
        let near = near.and_then(|near| words.get(near));
        Some((words.get(at)?, near.or_else(|| self.word(random))?))
    }

    /// A number, or one that is next to it.
    fn near(&self, random: &mut impl Rng) -> Option<u32> {
        let number = self.numbers.choose(random)?;
        let off = random.random_range(0..3_u32);
        Some(number.saturating_add(off).saturating_sub(1))
    }

    fn value(&self, random: &mut impl Rng) -> Option<String> {
        if random.random_ratio(1, 5) {
            return self.near(random).map(|number| number.to_string());
        }
        self.word(random).cloned()
    }

    /// Other values for names that are there, and names with values.
    fn pairs(&self, pairs: &mut Vec<(String, String)>, random: &mut impl Rng) {
        for _ in 0..random.random_range(1..=PAIRS) {
            let known = pairs.choose(random).map(|(name, _)| name.clone());
            let pair = match known {
                Some(name) if random.random_ratio(1, 3) => {
                    self.value(random).map(|value| (name, value))
                }
                _ => {
                    let pair = self.neighbours(random);
                    pair.map(|(name, value)| (name.clone(), value.clone()))
                }
            };
            let Some((name, value)) = pair else { return };
            match pairs.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => pairs.push((name, value)),
            }
        }
    }

    fn code(&self, case: &mut Case, random: &mut impl Rng) {
        if let Some(word) = self.word(random) {
            case.failure.error.code.clone_from(word);
        }
    }

    fn message(&self, case: &mut Case, random: &mut impl Rng) {
        let Some(word) = self.word(random) else {
            return;
        };
        let message = &mut case.failure.error.message;
        *message = match random.random_range(0..3) {
            0 => word.clone(),
            1 => format!("{word}{message}"),
            _ => format!("{message} {word}"),
        };
    }

    /// A body with a value at a pointer, if the policy has one; otherwise with a word as a name.
    fn body(&self, case: &mut Case, random: &mut impl Rng) {
        let all = self.words.iter().chain(&self.others);
        let pointers = all.filter(|word| word.starts_with('/'));
        let pointers: Vec<_> = pointers.map(String::as_str).collect();
        let Some((name, text)) = self.neighbours(random) else {
            return;
        };
        let value = match (random.random_range(0..4), self.near(random)) {
            (0, Some(number)) => json!(number),
            (1, _) => json!(null),
            _ => json!(text),
        };
        let pointer = pointers.choose(random).copied().unwrap_or(name);
        let tokens = pointer.trim_start_matches('/').rsplit('/');
        let body = tokens.fold(value, |value, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            Value::Object([(token, value)].into_iter().collect())
        });
        case.body = body.to_string();
    }

    fn number(&self, case: &mut Case, random: &mut impl Rng) {
        let Some(number) = self.near(random) else {
            return;
        };
        let failure = &mut case.failure;
        match random.random_range(0..6) {
            0 | 1 => failure.attempt = NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN),
            2 => failure.age = Milliseconds(number),
            3 => failure.error.status = u16::try_from(number).ok(),
            4 => failure.error.retry_after = Some(Milliseconds(number)),
            _ => failure.previous_delay = Some(Milliseconds(number)),
        }
    }
}
