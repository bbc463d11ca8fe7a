//! What is kept of a letter: what it is grouped by, and what would become of it.

use std::collections::HashSet;
use std::sync::Arc;

use backstop_core::failure::{Milliseconds, Timestamp, bounded_id};
use backstop_core::text::cut;
use backstop_dead_letters::{By, Letter, Origin};

use super::classify::{Verdict, Would};

/// The longest text that is kept, in bytes.
const TEXT_BYTES: usize = 300;

/// A letter of a survey.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The number of its dead-letter queue.
    pub(super) queue: usize,
    /// The URL of that.
    pub(super) queue_name: Arc<str>,
    /// Its id there.
    pub(super) id: Box<str>,
    /// The id of its message, which records know.
    pub(super) original: Box<str>,
    pub(super) died: Timestamp,
    pub(super) reason: Option<Arc<str>>,
    pub(super) code: Option<Arc<str>>,
    pub(super) policy: Option<Arc<str>>,
    pub(super) fingerprint: Option<Arc<str>>,
    pub(super) origin: Option<Arc<str>>,
    pub(super) source: Option<Arc<str>>,
    /// What its body has at the pointer of the survey.
    pub(super) value: Option<Arc<str>>,
    /// Whether it comes from another queue, or from a function or a topic.
    pub(super) is_foreign: bool,
    pub(super) verdict: Verdict,
    /// The class and the reason that the policy gives.
    pub(super) answer: Arc<str>,
    pub(super) delay: Option<Milliseconds>,
}

/// Texts, each once: letters have few different ones.
#[derive(Debug, Default)]
pub(super) struct Texts(HashSet<Arc<str>>);

impl Texts {
    pub(super) fn get(&mut self, mut text: String) -> Arc<str> {
        cut(&mut text, TEXT_BYTES);
        if let Some(known) = self.0.get(text.as_str()) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

impl Row {
    /// What is kept of a letter of the queue with this number. `home` is the ARN of the queue whose dead letters these are.
    pub(super) fn of(
        letter: &Letter,
        would: Would,
        (queue, url, home): (usize, &str, &str),
        pointer: Option<&str>,
        texts: &mut Texts,
    ) -> Self {
        let queue_name = texts.get(url.to_owned());
        let mut by = |by: By| by.of(letter).map(|text| texts.get(text));
        let source = letter.source.as_ref().map(|source| source.arn());
        let mut row = Self {
            queue,
            queue_name,
            id: letter.message.id.as_str().into(),
            // As records and logs have it: its sender may have chosen a long one.
            original: bounded_id(&letter.original_id).as_ref().into(),
            died: letter.last_alive(),
            reason: by(By::Reason),
            code: by(By::Code),
            policy: by(By::Policy),
            fingerprint: by(By::Fingerprint),
            origin: by(By::Origin),
            source: by(By::Source),
            value: pointer.and_then(|pointer| by(By::Pointer(pointer.to_owned()))),
            // A function's dead-letter configuration does not say which function it was.
            is_foreign: source.map_or(letter.origin == Origin::LambdaDeadLetter, |it| it != home),
            verdict: would.verdict,
            answer: Arc::from(""),
            delay: would.delay,
        };
        let words = [would.class, would.reason];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        row.answer = texts.get(words.join(", "));
        row
    }
}
