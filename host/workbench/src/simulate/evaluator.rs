//! How a simulation asks a policy: in a live instance where that answers as a fresh one does, and in a fresh one for each failure where it does not.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;

use backstop::policy::{EvaluationError, Payload, Policy, Session};
use backstop_core::decision::Answer;
use backstop_core::failure::{Failure, Milliseconds, random};

/// Failures that a live instance and fresh ones are compared on.
const SAMPLE: u32 = 64;

/// Answers of one live instance before it is replaced: one that never gives memory back must not run out of it.
const RENEWED_AFTER: u32 = 1_000;

/// In what kind of instance a policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evaluation {
    /// The same instance again and again: several times faster.
    Live,
    /// A fresh one for each failure, as a host asks.
    Fresh,
}

/// Whether a live instance will do: it does where it answers a sample of failures like `example` as fresh instances do. A policy that keeps something from one answer to the next has to be asked in fresh ones.
pub fn instance_kind(policy: &Policy, payload: &Arc<Payload>, example: &Failure) -> Evaluation {
    let mut live = Evaluator::new(policy, payload, Evaluation::Live);
    let is_same = |number| {
        let failure = sample(example, number);
        live.evaluate(&failure) == policy.evaluate(&failure, payload).answer
    };
    if (0..SAMPLE).all(is_same) {
        Evaluation::Live
    } else {
        Evaluation::Fresh
    }
}

/// The failures of the sample: early and late attempts in turns, with and without a delay before.
fn sample(example: &Failure, number: u32) -> Failure {
    let attempt = NonZeroU32::MIN.saturating_add(number * 7 % 20);
    let message_id = format!("sample-{number}");
    Failure {
        attempt,
        random: random(&message_id, attempt),
        age: Milliseconds(example.age.0.saturating_add(number * number * 250)),
        previous_delay: (attempt.get() > 1).then_some(Milliseconds(5 + number * 31)),
        message_id,
        ..example.clone()
    }
}

/// Asks one policy about one failure after the other. Its answers are those of fresh instances, if [`instance_kind`] said so of the policy.
#[derive(Debug)]
pub struct Evaluator<'a> {
    policy: &'a Policy,
    payload: &'a Arc<Payload>,
    how: Evaluation,
    live: Option<(Session<'a>, u32)>,
}

impl<'a> Evaluator<'a> {
    /// Asks `policy` about failures of messages with this body.
    pub fn new(policy: &'a Policy, payload: &'a Arc<Payload>, how: Evaluation) -> Self {
        Self {
            policy,
            payload,
            how,
            live: None,
        }
    }

    /// The answer, or how the policy broke. A live instance that breaks is thrown away and the failure put before a fresh one, so that it is never broken for what came before.
    pub fn evaluate(&mut self, failure: &Failure) -> Result<Answer, EvaluationError> {
        if self.how == Evaluation::Live
            && let Ok(answer) = self.ask_live(failure)
        {
            return Ok(answer);
        }
        self.policy.evaluate(failure, self.payload).answer
    }

    fn ask_live(&mut self, failure: &Failure) -> Result<Answer, EvaluationError> {
        let (mut session, answers) = self
            .live
            .take()
            .unwrap_or_else(|| (self.policy.session(self.payload), 0));
        let answer = session.evaluate(failure)?;
        if answers + 1 < RENEWED_AFTER {
            self.live = Some((session, answers + 1));
        }
        Ok(answer)
    }
}
