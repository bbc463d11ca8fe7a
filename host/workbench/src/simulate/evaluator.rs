//! Evaluates policies for simulations: in a reused instance if it gives the same answers as fresh ones, otherwise in a fresh instance for each failure.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;

use backstop_core::decision::Answer;
use backstop_core::failure::{Failure, Milliseconds, random};
use backstop_engine::{EvaluationError, Payload, Policy, Session};

/// The number of failures on which a reused instance is compared with fresh ones.
const SAMPLE: u32 = 64;

/// A reused instance is replaced after this many answers, before one that never frees memory runs out of it.
const MAX_ANSWERS: u32 = 1_000;

/// The kind of instance in which a policy is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evaluation {
    /// One instance, reused: several times faster.
    Live,
    /// A fresh instance for each failure, as in a host.
    Fresh,
}

/// Decides whether an instance can be reused: it can if it answers a sample of failures like `example` as fresh instances do. A policy that keeps state between answers needs fresh instances.
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

/// The failures of the sample: early and late attempts alternate, with and without a previous delay.
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

/// Evaluates one policy for one failure after the other. If [`instance_kind`] chose the kind of instance, the answers are those of fresh instances.
#[derive(Debug)]
pub struct Evaluator<'a> {
    policy: &'a Policy,
    payload: &'a Arc<Payload>,
    kind: Evaluation,
    live: Option<(Session<'a>, u32)>,
}

impl<'a> Evaluator<'a> {
    /// Evaluates `policy` for failures of messages with this body.
    pub fn new(policy: &'a Policy, payload: &'a Arc<Payload>, kind: Evaluation) -> Self {
        Self {
            policy,
            payload,
            kind,
            live: None,
        }
    }

    /// The answer, or how the policy broke. If a reused instance breaks, it is dropped and the failure is evaluated again in a fresh one, so that earlier failures never break a later one.
    pub fn evaluate(&mut self, failure: &Failure) -> Result<Answer, EvaluationError> {
        if self.kind == Evaluation::Live
            && let Ok(answer) = self.evaluate_live(failure)
        {
            return Ok(answer);
        }
        self.policy.evaluate(failure, self.payload).answer
    }

    fn evaluate_live(&mut self, failure: &Failure) -> Result<Answer, EvaluationError> {
        let (mut session, answers) = self
            .live
            .take()
            .unwrap_or_else(|| (self.policy.session(self.payload), 0));
        let answer = session.evaluate(failure)?;
        if answers + 1 < MAX_ANSWERS {
            self.live = Some((session, answers + 1));
        }
        Ok(answer)
    }
}
