//! Letters of a survey that are kept with their bodies: a few of each cause.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::failure::{Timestamp, bounded_id};
use backstop_core::text::cut;
use backstop_dead_letters::Letter;
use serde::{Deserialize, Serialize};

/// The most letters with bodies, of all and of one cause.
const MOST: usize = 300;
const MOST_OF_CAUSE: usize = 3;

/// The most bytes that are kept of a body, and of an attribute.
const BODY_BYTES: usize = 16 << 10;
const ATTRIBUTE_BYTES: usize = 1 << 10;

/// A letter with its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LetterSample {
    /// Its id in the dead-letter queue.
    pub id: String,
    /// The id of its message, which records know.
    pub original_id: String,
    /// The URL of the dead-letter queue.
    pub queue: String,
    /// When it died, or else the latest time at which it is known to have lived.
    pub died: Timestamp,
    /// Why it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The class of its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Where it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The digests of the policy that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What the policy of the survey would do.
    pub would: String,
    /// The body, as far as it is kept.
    pub body: String,
    /// Whether the end of the body is missing.
    pub is_cut: bool,
    /// The attributes, each cut.
    pub attributes: Vec<(String, String)>,
}

/// The letters that are kept.
#[derive(Debug, Default)]
pub(super) struct Samples {
    of_cause: HashMap<[Option<Arc<str>>; 3], usize>,
    kept: Vec<LetterSample>,
}

impl Samples {
    /// Keeps a letter, unless enough of its cause are kept.
    pub(super) fn add(
        &mut self,
        letter: &Letter,
        queue: &str,
        cause: [Option<Arc<str>>; 3],
        would: &str,
    ) {
        let of_cause = self.of_cause.entry(cause).or_default();
        if self.kept.len() >= MOST || *of_cause >= MOST_OF_CAUSE {
            return;
        }
        *of_cause += 1;
        let short = |text: &str| {
            let mut text = text.to_owned();
            cut(&mut text, ATTRIBUTE_BYTES);
            text
        };
        let mut body = letter.message.body.to_string();
        let length = body.len();
        cut(&mut body, BODY_BYTES);
        let attributes = letter.message.attribute_texts();
        let error = letter.error.as_ref().map(ToString::to_string);
        self.kept.push(LetterSample {
            id: letter.message.id.clone(),
            original_id: bounded_id(&letter.original_id).into_owned(),
            queue: queue.to_owned(),
            died: letter.last_alive(),
            reason: letter.reason.as_deref().map(short),
            class: letter.class.as_deref().map(short),
            error: error.as_deref().map(short),
            attempt: letter.attempt,
            source: letter.source.as_ref().map(|it| short(it.arn())),
            policy: letter.policy.as_deref().map(short),
            would: short(would),
            is_cut: body.len() < length,
            body,
            attributes: attributes
                .into_iter()
                .map(|(name, value)| (name, short(&value)))
                .collect(),
        });
    }

    /// Those with this id, in the dead-letter queue or of the message.
    pub(super) fn with(&self, id: &str) -> impl Iterator<Item = &LetterSample> {
        let is_it = move |it: &&LetterSample| it.id == id || it.original_id == id;
        self.kept.iter().filter(is_it)
    }
}
