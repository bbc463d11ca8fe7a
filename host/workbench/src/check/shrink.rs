//! Minimises a failure that a policy does not handle: resets fields to those of a plain failure, shortens lists and texts, and lowers numbers.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use super::generate::Case;
use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp, random};
use backstop_versions::scenario::plain_failure;

/// The limit of evaluations for one failure. It is a number and not a time, so that the result is the same on every machine.
const MAX_TRIES: u32 = 2_000;

/// The time limit, for a policy that uses up its limits each time.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The smallest case for which `fails` returns something, and what it returns.
pub(super) fn smallest<T>(found: (Case, T), fails: &dyn Fn(&Case) -> Option<T>) -> (Case, T) {
    let mut search = Search {
        found,
        fails,
        tries: 0,
        started: clock::instant(),
    };
    // One step may enable another, so this repeats until nothing changes.
    loop {
        let before = search.found.0.clone();
        search.make_plain();
        search.shorten_lists();
        search.shorten_texts();
        search.lower_numbers();
        search.round_random();
        if search.found.0 == before || search.is_over() {
            return search.found;
        }
    }
}

/// Changes one field.
type Change = fn(&mut Case);

/// Each resets one field to its value in a plain failure.
const PLAIN: [Change; 14] = [
    |case| case.body = String::new(),
    |case| case.failure.error = plain_failure().error,
    |case| case.failure.error.code = plain_failure().error.code,
    |case| case.failure.error.message = String::new(),
    |case| case.failure.error.status = None,
    |case| case.failure.error.retry_after = None,
    |case| case.failure.error.details = Vec::new(),
    |case| case.failure.attributes = Vec::new(),
    |case| case.failure.source = plain_failure().source,
    |case| case.failure.message_id = plain_failure().message_id,
    |case| case.failure.failed_at = plain_failure().failed_at,
    |case| case.failure.previous_delay = None,
    |case| case.failure.age = plain_failure().age,
    |case| case.failure.attempt = plain_failure().attempt,
];

/// The names and values of a case.
type List = fn(&mut Case) -> &mut Vec<(String, String)>;

const LISTS: [List; 2] = [
    |case| &mut case.failure.error.details,
    |case| &mut case.failure.attributes,
];

/// A text of a case.
type Text = fn(&mut Case) -> &mut String;

const TEXTS: [Text; 5] = [
    |case| &mut case.failure.error.code,
    |case| &mut case.failure.error.message,
    |case| &mut case.failure.message_id,
    |case| &mut case.failure.source,
    |case| &mut case.body,
];

/// A text of a case: a field, or a name or value in a list.
#[derive(Clone, Copy)]
enum TextField {
    Of(Text),
    Name(List, usize),
    Value(List, usize),
}

impl TextField {
    fn text(self, case: &mut Case) -> Option<&mut String> {
        match self {
            Self::Of(text) => Some(text(case)),
            Self::Name(list, index) => list(case).get_mut(index).map(|(name, _)| name),
            Self::Value(list, index) => list(case).get_mut(index).map(|(_, value)| value),
        }
    }
}

/// Gets and sets a number of a case. It may be absent.
type Number = (fn(&Case) -> Option<u64>, fn(&mut Case, u64));

const NUMBERS: [Number; 6] = [
    (
        |case| Some(u64::from(case.failure.attempt.get())),
        |case, number| {
            let attempt = NonZeroU32::new(clamped(number)).unwrap_or(NonZeroU32::MIN);
            case.failure.attempt = attempt;
        },
    ),
    (
        |case| Some(case.failure.age.0.into()),
        |case, number| case.failure.age = Milliseconds(clamped(number)),
    ),
    (
        |case| case.failure.previous_delay.map(|delay| delay.0.into()),
        |case, number| case.failure.previous_delay = Some(Milliseconds(clamped(number))),
    ),
    (
        |case| case.failure.error.retry_after.map(|delay| delay.0.into()),
        |case, number| case.failure.error.retry_after = Some(Milliseconds(clamped(number))),
    ),
    (
        |case| case.failure.error.status.map(u64::from),
        |case, number| {
            case.failure.error.status = Some(u16::try_from(number).unwrap_or(u16::MAX));
        },
    ),
    (
        |case| Some(case.failure.failed_at.0),
        |case, number| case.failure.failed_at = Timestamp(number),
    ),
];

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

struct Search<'a, T> {
    found: (Case, T),
    fails: &'a dyn Fn(&Case) -> Option<T>,
    tries: u32,
    started: std::time::Instant,
}

/// Whether a name occurs twice.
fn repeats(pairs: &[(String, String)]) -> bool {
    let names: BTreeSet<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
    names.len() < pairs.len()
}

impl<T> Search<'_, T> {
    fn is_over(&self) -> bool {
        self.tries >= MAX_TRIES || self.started.elapsed() >= TIME_LIMIT
    }

    /// Applies the change if the case still fails.
    fn accepts(&mut self, change: impl FnOnce(&mut Case)) -> bool {
        let mut case = self.found.0.clone();
        let is_default_random = case.failure.random == random_of(&case);
        change(&mut case);
        if is_default_random {
            case.failure.random = random_of(&case);
        }
        if case == self.found.0 {
            return true;
        }
        // Hosts pass no name twice, and scenarios can't express it.
        if repeats(&case.failure.attributes)
            || repeats(&case.failure.error.details)
            || self.is_over()
        {
            return false;
        }
        self.tries += 1;
        let Some(result) = (self.fails)(&case) else {
            return false;
        };
        self.found = (case, result);
        true
    }

    fn make_plain(&mut self) {
        for make_plain in PLAIN {
            self.accepts(make_plain);
        }
        self.accepts(|case| case.failure.random = random_of(case));
    }

    /// Removes entries of each list, first halves and finally single ones, and then shortens the texts in it.
    fn shorten_lists(&mut self) {
        for list in LISTS {
            let original = list(&mut self.found.0).clone();
            let pairs = shortest(original, |pairs| {
                self.accepts(|case| *list(case) = pairs.to_vec())
            });
            for index in 0..pairs.len() {
                self.shorten(TextField::Name(list, index));
                self.shorten(TextField::Value(list, index));
            }
        }
    }

    fn shorten_texts(&mut self) {
        for text in TEXTS {
            // A plain text is not shortened.
            let mut plain = Case {
                failure: plain_failure(),
                body: String::new(),
            };
            if text(&mut self.found.0) != text(&mut plain) {
                self.shorten(TextField::Of(text));
            }
        }
    }

    /// Removes characters of a text, then replaces each of the others by `a`.
    fn shorten(&mut self, field: TextField) {
        let set = |case: &mut Case, letters: &[char]| {
            if let Some(text) = field.text(case) {
                *text = letters.iter().collect();
            }
        };
        let original = field.text(&mut self.found.0);
        let original = original.map(|text| text.chars().collect::<Vec<_>>());
        let mut letters = shortest(original.unwrap_or_default(), |letters| {
            self.accepts(|case| set(case, letters))
        });
        for index in 0..letters.len() {
            let mut simpler = letters.clone();
            if let Some(letter) = simpler.get_mut(index) {
                *letter = 'a';
            }
            if self.accepts(|case| set(case, &simpler)) {
                letters = simpler;
            }
        }
    }

    /// Lowers each number by binary search.
    fn lower_numbers(&mut self) {
        for (get, set) in NUMBERS {
            let (mut low, Some(mut high)) = (0, get(&self.found.0)) else {
                continue;
            };
            // A plain number is not lowered.
            let plain = Case {
                failure: plain_failure(),
                body: String::new(),
            };
            if get(&plain) == Some(high) {
                continue;
            }
            while low < high {
                let middle = low.midpoint(high);
                if self.accepts(|case| set(case, middle)) {
                    high = middle
                } else {
                    low = middle + 1
                }
            }
        }
    }

    /// Rounds the random number, unless it follows from the message and the attempt.
    fn round_random(&mut self) {
        if self.found.0.failure.random == random_of(&self.found.0) {
            return;
        }
        let exact = self.found.0.failure.random;
        for rounding in [1.0, 2.0, 10.0, 100.0, 1_000.0] {
            let rounded = (exact * rounding).floor() / rounding;
            if self.accepts(|case| case.failure.random = rounded) {
                return;
            }
        }
    }
}

/// The random number that follows from the case's message and attempt.
fn random_of(case: &Case) -> f64 {
    random(&case.failure.message_id, case.failure.attempt)
}

/// The fewest items for which `fails` still holds: removes halves, quarters, and so on to single items.
fn shortest<I: Clone>(mut items: Vec<I>, mut fails: impl FnMut(&[I]) -> bool) -> Vec<I> {
    let mut size = items.len();
    while size > 0 {
        let mut from = 0;
        while from < items.len() {
            let to = (from + size).min(items.len());
            let mut fewer = items.clone();
            fewer.drain(from..to);
            if fails(&fewer) {
                items = fewer
            } else {
                from = to
            }
        }
        size /= 2;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::generate::{Vocabulary, cases};
    use super::*;

    /// Minimised generated cases for which `fails` is true.
    fn minimised(fails: fn(&Case) -> bool) -> Vec<Case> {
        let small = |case: Case| smallest((case, ()), &|case| fails(case).then_some(())).0;
        let found = cases(1, &Vocabulary::of(&[])).take(3_000).filter(fails);
        found.take(20).map(small).collect()
    }

    #[test]
    fn only_the_cause_remains() {
        type Fails = fn(&Case) -> bool;
        let plain = || Case {
            failure: plain_failure(),
            body: String::new(),
        };
        let with = |change: Change| {
            let mut case = plain();
            change(&mut case);
            case.failure.random = random_of(&case);
            case
        };
        let tables: [(Fails, Case); 8] = [
            (|_| true, plain()),
            (
                |case| case.failure.attempt.get() >= 37 && case.failure.age.0 >= 100_000,
                with(|case| {
                    case.failure.attempt = NonZeroU32::MIN.saturating_add(36);
                    case.failure.age = Milliseconds(100_000);
                }),
            ),
            (
                |case| case.failure.error.message.contains('é'),
                with(|case| case.failure.error.message = "é".to_owned()),
            ),
            (
                |case| case.failure.attributes.len() >= 2,
                with(|case| {
                    let named = |name: &str| (name.to_owned(), String::new());
                    case.failure.attributes = vec![named(""), named("a")];
                }),
            ),
            (
                |case| {
                    case.failure
                        .attributes
                        .iter()
                        .any(|(_, value)| value.chars().count() > 3)
                },
                with(|case| case.failure.attributes = vec![(String::new(), "aaaa".to_owned())]),
            ),
            (
                |case| case.failure.error.code.is_empty(),
                with(|case| case.failure.error.code = String::new()),
            ),
            (
                |case| case.failure.message_id.chars().count() > 5,
                with(|case| case.failure.message_id = "aaaaaa".to_owned()),
            ),
            (
                |case| case.failure.error.status >= Some(430),
                with(|case| case.failure.error.status = Some(430)),
            ),
        ];
        for (fails, expected) in tables {
            let small = minimised(fails);
            assert!(
                !small.is_empty(),
                "none of the failures is like {expected:#?}"
            );
            for small in small {
                assert_eq!(small, expected);
            }
        }
        for small in minimised(|case| case.failure.random > 0.75) {
            assert!(small.failure.random.to_string().len() <= "0.999".len());
        }
    }

    #[test]
    fn the_fewest_items_are_found_wherever_they_are() {
        let needed = |items: &[i32]| [3, 17, 90].iter().all(|it| items.contains(it));
        assert_eq!(shortest((0..100).collect(), needed), [3, 17, 90]);
        assert_eq!(shortest((0..100).collect(), |_| true), Vec::<i32>::new());
    }
}
