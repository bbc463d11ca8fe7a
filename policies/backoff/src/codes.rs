//! The codes that an operator has classified: the settings `permanent`, `transient` and `throttled`.

use crate::classify::last_part;
use crate::pattern::matches;
use crate::{Class, SettingsError};

/// The settings, in the order of the documentation.
pub(crate) const NAMES: [(&str, Class); 3] = [
    ("permanent", Class::Permanent),
    ("transient", Class::Transient),
    ("throttled", Class::Throttled),
];

const EXPECTED: &str = "codes, separated by commas, such as `CardDeclined, HTTP 4*`";

/// Lists of codes by class, in which `*` stands for any text. They precede the policy's own classification.
///
/// A code that is written out precedes patterns, and of several patterns the one with the most characters besides `*` counts. Of equally long ones, a transient one precedes a throttled one, and both a permanent one: a needless retry costs less than a lost message. A code of several parts (`com.example.CardDeclined`) is looked up by its last part if no pattern fits the complete code. Empty lists fit no code.
///
/// ```
/// use backstop_backoff::{Class, Settings};
///
/// let settings = Settings::parse([("permanent", "*"), ("transient", "HTTP 5*, CardLocked")]).unwrap();
/// for (code, class) in [
///     ("HTTP 503", Class::Transient),
///     ("com.example.CardLocked", Class::Permanent),
///     ("ThrottlingException", Class::Permanent),
/// ] {
///     assert_eq!(settings.classify(code, None), class);
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes(Vec<Listed>);

/// One code of a list. Counted once, since a policy looks at it for each error.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    class: Class,
    code: String,
    stars: usize,
}

impl Codes {
    /// No lists: no code is classified.
    pub const NONE: Self = Self(Vec::new());

    /// Adds codes of this class. [`validate`](Self::validate) reports invalid ones.
    pub fn extend(&mut self, class: Class, codes: impl IntoIterator<Item = impl Into<String>>) {
        self.0.extend(codes.into_iter().map(|code| {
            let code = code.into();
            let stars = code.bytes().filter(|byte| *byte == b'*').count();
            Listed { class, code, stars }
        }));
    }

    /// Reads a list from the text of its setting. `None` if this is the name of another setting.
    pub(crate) fn read(&mut self, name: &str, text: &str) -> Option<Result<(), SettingsError>> {
        let (name, class) = *NAMES.iter().find(|(known, _)| *known == name)?;
        if text.trim().is_empty() {
            return Some(Ok(()));
        }
        if text.split(',').any(|code| code.trim().is_empty()) {
            return Some(Err(SettingsError::Invalid {
                name,
                value: text.to_owned(),
                expected: EXPECTED,
            }));
        }
        self.extend(class, text.split(',').map(str::trim));
        Some(Ok(()))
    }

    /// Whether each code can be read back from the text of its setting, and none is in two lists.
    pub fn validate(&self) -> Result<(), SettingsError> {
        for (index, listed) in self.0.iter().enumerate() {
            let Listed { class, code, .. } = listed;
            if code.trim() != code || code.is_empty() || code.contains(',') {
                return Err(SettingsError::Invalid {
                    name: name_of(*class),
                    value: code.clone(),
                    expected: EXPECTED,
                });
            }
            let mut before = self.0.iter().take(index);
            let is_same = |other: &&Listed| other.class != *class && other.code == *code;
            if let Some(other) = before.find(is_same) {
                return Err(SettingsError::TwoLists {
                    code: code.clone(),
                    first: name_of(other.class),
                    second: name_of(*class),
                });
            }
        }
        Ok(())
    }

    /// The class of the list that has this code.
    pub fn class_of(&self, code: &str) -> Option<Class> {
        if self.0.is_empty() {
            return None;
        }
        let last = last_part(code);
        let of_last = || {
            if last == code {
                None
            } else {
                self.look_up(last)
            }
        };
        self.look_up(code).or_else(of_last)
    }

    fn look_up(&self, code: &str) -> Option<Class> {
        let fitting = self.0.iter().filter(|listed| listed.fits(code));
        fitting
            .max_by_key(|listed| listed.precedence())
            .map(|listed| listed.class)
    }

    /// The lists that have codes, as their settings.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (&'static str, String)> {
        NAMES.into_iter().filter_map(|(name, class)| {
            let codes = self.0.iter().filter(|listed| listed.class == class);
            let codes: Vec<_> = codes.map(|listed| listed.code.as_str()).collect();
            (!codes.is_empty()).then(|| (name, codes.join(",")))
        })
    }
}

impl Listed {
    fn fits(&self, code: &str) -> bool {
        match self.stars {
            0 => self.code == code,
            _ => matches(&self.code, code),
        }
    }

    /// Of those that fit a code, the largest counts.
    fn precedence(&self) -> (bool, usize, u8) {
        let caution = match self.class {
            Class::Transient => 2,
            Class::Throttled => 1,
            Class::Permanent => 0,
        };
        (self.stars == 0, self.code.len() - self.stars, caution)
    }
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::Permanent => "permanent",
        Class::Transient => "transient",
        Class::Throttled => "throttled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lists: &[(&str, &str)]) -> Result<Codes, SettingsError> {
        let mut codes = Codes::NONE;
        for (name, text) in lists {
            codes.read(name, text).unwrap()?;
        }
        codes.validate().map(|()| codes)
    }

    #[test]
    fn the_names_are_those_of_the_classes() {
        for (name, class) in NAMES {
            assert_eq!(name_of(class), name);
        }
    }

    #[test]
    fn a_code_has_the_class_of_its_list() {
        let codes = read(&[
            ("permanent", "CardDeclined, HTTP 4*,exit 3"),
            ("throttled", "HTTP 42* , HTTP 409, *Busy*"),
            ("transient", ""),
        ]);
        let codes = codes.unwrap();
        for (code, expected) in [
            ("CardDeclined", Some(Class::Permanent)),
            ("com.example.CardDeclined", Some(Class::Permanent)),
            (
                "ns#CardDeclined:http://internal.example/",
                Some(Class::Permanent),
            ),
            ("carddeclined", None),
            ("CardDeclinedNow", None),
            ("exit 3", Some(Class::Permanent)),
            ("exit 33", None),
            ("HTTP 404", Some(Class::Permanent)),
            // More characters.
            ("HTTP 423", Some(Class::Throttled)),
            // Written out.
            ("HTTP 409", Some(Class::Throttled)),
            ("HTTP 400 Busy", Some(Class::Permanent)),
            ("TooBusyNow", Some(Class::Throttled)),
            ("", None),
        ] {
            assert_eq!(codes.class_of(code), expected, "{code}");
        }
        let changed: Vec<_> = codes.changed().collect();
        assert_eq!(
            changed,
            [
                ("permanent", "CardDeclined,HTTP 4*,exit 3".to_owned()),
                ("throttled", "HTTP 42*,HTTP 409,*Busy*".to_owned()),
            ]
        );
        let pairs: Vec<_> = changed
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        assert_eq!(read(&pairs), Ok(codes));
    }

    #[test]
    fn empty_lists_choose_nothing_and_a_star_everything() {
        let none = read(&[("permanent", ""), ("transient", " "), ("throttled", "")]).unwrap();
        assert_eq!(none, Codes::NONE);
        let all = read(&[("permanent", "*")]).unwrap();
        for code in ["", "ECONNRESET", "a.b"] {
            assert_eq!(none.class_of(code), None);
            assert_eq!(all.class_of(code), Some(Class::Permanent));
        }
    }

    #[test]
    fn of_equally_long_patterns_the_most_cautious_counts() {
        let codes = read(&[
            ("permanent", "*NotFound*,a*"),
            ("throttled", "*b"),
            ("transient", "*TimedOut*"),
        ]);
        let codes = codes.unwrap();
        for (code, class) in [
            ("NotFoundAndTimedOut", Class::Transient),
            ("ItemNotFound", Class::Permanent),
            ("ab", Class::Throttled),
        ] {
            assert_eq!(codes.class_of(code), Some(class), "{code}");
        }
    }

    #[test]
    fn a_code_in_two_lists_is_an_error_that_names_both() {
        for (one, other, code) in [
            (
                ("permanent", "A,OutOfStock"),
                ("transient", "B,OutOfStock"),
                Some("OutOfStock"),
            ),
            (("throttled", "a*"), ("permanent", "*, a*"), Some("a*")),
            (("permanent", "a*"), ("throttled", "ab"), None),
            (("permanent", "a"), ("throttled", "a*"), None),
            (("permanent", "A"), ("throttled", "a"), None),
            // Twice in one list is the same.
            (("permanent", "A,A"), ("throttled", "*"), None),
        ] {
            let found = read(&[one, other]).err().map(|error| error.to_string());
            let expected = code.map(|code| {
                format!(
                    "`{code}` is in `{}` and in `{}`: expected a code in one list",
                    one.0, other.0
                )
            });
            assert_eq!(found, expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_list_that_is_malformed_is_rejected() {
        for text in [",", "A,", ",A", "A,,B", "A, ,B"] {
            assert_eq!(
                read(&[("throttled", text)]).unwrap_err().to_string(),
                format!(
                    "setting `throttled` is `{text}`: expected codes, separated by commas, such as `CardDeclined, HTTP 4*`"
                )
            );
        }
        for code in ["", " A", "A,B"] {
            let mut codes = Codes::NONE;
            codes.extend(Class::Permanent, [code]);
            assert!(codes.validate().is_err(), "{code:?}");
        }
    }
}
