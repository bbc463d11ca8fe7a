//! The last failures that a shadow decided otherwise, for people.

use std::collections::VecDeque;
use std::sync::Mutex;

use backstop_core::lock::lock;
use backstop_core::text::{cut, one_line};
use serde::{Deserialize, Serialize};

use crate::decision::{Action, Decision};
use crate::failure::Timestamp;
use crate::policy::PolicyDigest;
use crate::record::{Aspect, DecisionRecord, PartName, ShadowOutcome, Shadowed};

/// The most samples that are kept: the last ones.
const MOST: usize = 20;

/// The most bytes of a text in a sample.
const TEXT_BYTES: usize = 200;

/// A failure that the shadow decided otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    /// When the live policy decided.
    pub time: Timestamp,
    /// The message.
    pub message_id: String,
    /// The code of the error.
    pub code: String,
    /// The failed attempts.
    pub attempt: u32,
    /// What the live policy decided.
    pub live: String,
    /// What the shadow would have decided, or how it broke.
    pub shadow: String,
    /// What differs; nothing if the shadow broke.
    pub differs: Vec<Aspect>,
}

/// How often a shadow agreed since it and the live policy have these versions, and the last failures that it decided otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Compared {
    /// Decisions where the shadow would have done the same.
    pub agreed: u64,
    /// Decisions where it would not.
    pub differed: u64,
    /// Decisions with another verdict.
    pub differed_in_verdict: u64,
    /// Decisions with another class.
    pub differed_in_class: u64,
    /// Decisions with another delay.
    pub differed_in_delay: u64,
    /// Decisions where the shadow broke.
    pub broken: u64,
    /// The last failures that it decided otherwise, the newest first; 20 at most.
    pub differences: VecDeque<Difference>,
}

/// What is kept since the last swap of one of the two.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<(Versions, Compared)>);

/// The digests of the live policy and of the shadow.
type Versions = (Vec<PolicyDigest>, Vec<PolicyDigest>);

fn digests(parts: &[PartName]) -> Vec<PolicyDigest> {
    parts.iter().map(|part| part.digest).collect()
}

impl Samples {
    /// Counts a comparison, and keeps the failure if the shadow decided otherwise or broke. What was counted for other versions is forgotten.
    pub(super) fn add(&self, record: &DecisionRecord, shadowed: &Shadowed) {
        let mut kept = lock(&self.0);
        let (versions, compared) = &mut *kept;
        let (shadow, differs) = match &shadowed.outcome {
            ShadowOutcome::Skipped { .. } => return,
            ShadowOutcome::Compared {
                agrees,
                decision,
                differs,
                ..
            } => ((!agrees).then(|| words(decision)), differs.clone()),
            ShadowOutcome::Broken { broken, .. } => (Some(short(broken)), Vec::new()),
        };
        let now = (digests(&record.policy), digests(&shadowed.policy));
        if *versions != now {
            (*versions, *compared) = (now, Compared::default());
        }
        for (aspect, count) in [
            (Aspect::Verdict, &mut compared.differed_in_verdict),
            (Aspect::Class, &mut compared.differed_in_class),
            (Aspect::Delay, &mut compared.differed_in_delay),
        ] {
            *count += u64::from(differs.contains(&aspect));
        }
        let is_broken = matches!(shadowed.outcome, ShadowOutcome::Broken { .. });
        let Some(shadow) = shadow else {
            compared.agreed += 1;
            return;
        };
        *(if is_broken {
            &mut compared.broken
        } else {
            &mut compared.differed
        }) += 1;
        let failure = &record.failure;
        compared.differences.truncate(MOST - 1);
        compared.differences.push_front(Difference {
            time: record.time,
            message_id: failure.message_id.clone(),
            code: short(&failure.error.code),
            attempt: failure.attempt.get(),
            live: words(&record.decision),
            shadow,
            differs,
        });
    }

    /// What is kept.
    pub(super) fn now(&self) -> Compared {
        lock(&self.0).1.clone()
    }
}

/// A decision in a few words.
fn words(decision: &Decision) -> String {
    let class = &decision.class;
    short(&match &decision.action {
        Action::Retry { delay } => format!("{class}: retry in {delay}"),
        Action::DeadLetter { reason } => format!("{class}: dead-letter, {reason}"),
        Action::Discard { reason } => format!("{class}: discard, {reason}"),
    })
}

fn short(text: &str) -> String {
    let mut text = one_line(text);
    cut(&mut text, TEXT_BYTES);
    text
}
