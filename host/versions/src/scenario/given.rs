//! The failure of a scenario, built from layers: the file's, the scenario's, the attempt's. Each layer replaces the fields that it sets.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;

use super::values::{Duration, Fraction, Moment, Named};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp, random};
use backstop_files::only_tables;

/// One layer. Absent fields keep their values.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Layer {
    preset: Option<Named>,
    code: Option<String>,
    message: Option<String>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    #[serde(default)]
    details: BTreeMap<String, String>,
    attempt: Option<NonZeroU32>,
    age: Option<Duration>,
    failed_at: Option<Moment>,
    previous_delay: Option<Duration>,
    message_id: Option<String>,
    source: Option<String>,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    random: Option<Fraction>,
}

only_tables! {
    Layer: "a table that describes the failure, such as { code = \"HTTP 503\", attempt = 2 }";
}

/// A failure. Its random number is fixed, or derived from the message's id and the attempt as in production.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    failure: Failure,
    random: Option<f64>,
}

/// The failure of a scenario that sets nothing: a first attempt with `HTTP 503` on 2026-01-01.
pub fn plain_failure() -> Failure {
    let id = "m-1";
    Failure {
        message_id: id.to_owned(),
        source: "local:test".to_owned(),
        attempt: NonZeroU32::MIN,
        age: Milliseconds(0),
        failed_at: Timestamp(1_767_225_600_000),
        previous_delay: None,
        error: Error::new("HTTP 503", ""),
        attributes: Vec::new(),
        random: random(id, NonZeroU32::MIN),
    }
}

impl Default for Given {
    fn default() -> Self {
        Self {
            failure: plain_failure(),
            random: None,
        }
    }
}

impl Given {
    /// Applies a layer. A preset replaces the complete error; the layer's own fields replace the preset's.
    #[must_use]
    pub fn with(&self, layer: &Layer) -> Self {
        let mut given = self.clone();
        let failure = &mut given.failure;
        if let Some(Named(preset)) = layer.preset {
            failure.error = preset.error();
        }
        let error = &mut failure.error;
        replace(&mut error.code, layer.code.clone());
        replace(&mut error.message, layer.message.clone());
        error.status = layer.status.or(error.status);
        error.retry_after = layer
            .retry_after
            .map(|Duration(it)| it)
            .or(error.retry_after);
        put(&mut error.details, &layer.details);
        replace(&mut failure.attempt, layer.attempt);
        replace(&mut failure.age, layer.age.map(|Duration(age)| age));
        replace(&mut failure.failed_at, layer.failed_at.map(|Moment(at)| at));
        let previous = layer.previous_delay.map(|Duration(delay)| delay);
        failure.previous_delay = previous.or(failure.previous_delay);
        replace(&mut failure.message_id, layer.message_id.clone());
        replace(&mut failure.source, layer.source.clone());
        put(&mut failure.attributes, &layer.attributes);
        given.failure = given.failure.within_bounds().into_owned();
        given.random = layer.random.map(|Fraction(it)| it).or(given.random);
        given
    }

    /// The failure.
    pub fn failure(&self) -> Failure {
        let derived = || random(&self.failure.message_id, self.failure.attempt);
        Failure {
            random: self.random.unwrap_or_else(derived),
            ..self.failure.clone()
        }
    }

    /// The same failure with this random number.
    pub fn failure_with(&self, random: f64) -> Failure {
        Failure {
            random,
            ..self.failure.clone()
        }
    }

    /// Whether its random number is fixed.
    pub fn has_random(&self) -> bool {
        self.random.is_some()
    }

    /// The failure of the next attempt, which started after `delay` and lasted `took`.
    #[must_use]
    pub fn next(&self, delay: Milliseconds, took: Milliseconds) -> Self {
        let later = Milliseconds(delay.0.saturating_add(took.0));
        let failure = &self.failure;
        Self {
            failure: Failure {
                attempt: failure.attempt.saturating_add(1),
                age: Milliseconds(failure.age.0.saturating_add(later.0)),
                failed_at: failure.failed_at.plus(later.as_duration()),
                previous_delay: Some(delay),
                ..failure.clone()
            },
            random: self.random,
        }
    }
}

fn replace<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Sets each value by its name.
fn put(pairs: &mut Vec<(String, String)>, named: &BTreeMap<String, String>) {
    pairs.retain(|(name, _)| !named.contains_key(name));
    pairs.extend(named.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str) -> Layer {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_layer_changes_only_the_fields_that_it_sets() {
        let given = Given::default()
            .with(&layer(
                "preset = 'http-429'\nage = '1m'\nattributes = { a = '1', b = '2' }",
            ))
            .with(&layer("status = 420\nattributes = { b = '3' }\nrandom = 0"));
        let failure = given.failure();
        assert_eq!(failure.error.code, "HTTP 429");
        assert_eq!(failure.error.status, Some(420));
        assert_eq!(failure.error.retry_after, Some(Milliseconds(30_000)));
        assert_eq!((failure.age, failure.random), (Milliseconds(60_000), 0.0));
        let attributes = [("a", "1"), ("b", "3")];
        assert_eq!(
            failure.attributes,
            attributes.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let again = given.with(&layer("preset = 'dns'")).failure();
        assert_eq!(
            again.error.status, None,
            "a preset replaces the complete error"
        );
    }

    #[test]
    fn the_next_attempt_is_later_by_the_delay_and_the_attempt_s_duration() {
        let given = Given::default();
        let next = given.next(Milliseconds(2_000), Milliseconds(500));
        let (first, second) = (given.failure(), next.failure());
        assert_eq!(second.attempt.get(), 2);
        assert_eq!(second.age, Milliseconds(2_500));
        assert_eq!(second.failed_at.0 - first.failed_at.0, 2_500);
        assert_eq!(second.previous_delay, Some(Milliseconds(2_000)));
        assert_eq!(second.random, random("m-1", second.attempt));
        let fixed = given.with(&layer("random = 0.25"));
        assert_eq!(
            fixed
                .next(Milliseconds(1), Milliseconds(0))
                .failure()
                .random,
            0.25
        );
    }
}
