//! Dead letters: those that hosts write, and those that operators move back.

use std::time::Duration;

use super::{Checker, Rule};

impl Checker<'_> {
    pub(super) fn letter(&mut self, at: Duration, number: u32, reason: Option<&str>) {
        let known = self.known(number);
        known.letters += 1;
        let letters = known.letters - known.sent_back.min(known.letters);
        let unsure = known.letter_unsure || known.may(at);
        // At a hop, nobody decides.
        let is_hop = |it: &str| known.copies > 0 && unsure && it.starts_with("it can't be sent");
        let is_decided = reason.is_some_and(|it| known.reasons.contains(it) || is_hop(it));
        self.rule(Rule::ReasonDecided, false, is_decided, at, || {
            format!("message {number} is dead for {reason:?}, and nobody has decided so")
        });
        self.rule(Rule::OneLetter, unsure, letters <= 1, at, || {
            format!("message {number} has {letters} letters, and no request was in doubt")
        });
    }

    /// The message lives again.
    pub(super) fn sent_back(&mut self, at: Duration, number: u32) {
        let retention = self.plan.retention;
        let known = self.known(number);
        known.sent_back += 1;
        let (sent_back, letters) = (known.sent_back, known.letters);
        let unsure = known.letter_unsure || known.excused || at < known.doubt;
        // There may be another one of it.
        let is_other = known.in_queue > 0 || known.letters > known.letters_deleted + 1;
        known.duplicated |= is_other || sent_back > letters;
        known.succeeded = false;
        known.in_queue += 1;
        known.gone = false;
        if !is_other {
            known.receives = 0;
        }
        known.attempts = 0;
        known.pending = None;
        known.idle.clear();
        known.attempted_by.clear();
        known.count = 0;
        known.code = None;
        known.due = None;
        known.dropped = at + retention;
        known.visible = Duration::ZERO;
        known.wake = None;
        self.sent.retain(|it| *it != number);
        self.sent.push(number);
        self.rule(Rule::SentBackOnce, unsure, sent_back <= letters, at, || {
            format!("message {number} had {letters} letters, and is sent back {sent_back} times")
        });
    }

    pub(super) fn letter_deleted(&mut self, at: Duration, number: u32) {
        let known = self.known(number);
        known.letters_deleted += 1;
        let (deleted, sent_back) = (known.letters_deleted, known.sent_back);
        self.rule(
            Rule::LetterSentBack,
            false,
            deleted <= sent_back,
            at,
            || {
                format!(
                    "{deleted} letters of message {number} are deleted, and {sent_back} sent back"
                )
            },
        );
    }
}
