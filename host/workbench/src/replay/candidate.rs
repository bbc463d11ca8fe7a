//! The policy that is evaluated for recorded failures, and its settings for each record.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::subject::Subject;
use backstop_core::decision::Bounds;
use backstop_core::settings::Settings;
use backstop_engine::{PartName, Policy, PolicyDigest};
use backstop_records::DecisionRecord;

/// The policy to evaluate for records.
#[expect(clippy::large_enum_variant, reason = "a replay has a few of them")]
#[derive(Debug)]
pub enum Candidate {
    /// A policy with its own settings; those in the records are ignored.
    Configured(Policy),
    /// One component, with the settings of each record.
    AsRecorded(Subject),
    /// What is configured for each record's queue, by the queue's name.
    Queues(BTreeMap<String, QueuePolicy>),
}

/// The policy of a configured queue.
#[derive(Debug)]
pub struct QueuePolicy {
    /// The policy.
    pub policy: Policy,
    /// The limits of the queue.
    pub bounds: Bounds,
}

/// An evaluated policy, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct EvaluatedPolicy {
    /// The queue whose records it is evaluated for. `None` for all queues.
    pub queue: Option<String>,
    /// Whether it gets the settings of each record.
    pub settings_as_recorded: bool,
    /// Its parts, with the settings that are the same for every record.
    pub parts: Vec<PartName>,
}

impl Candidate {
    /// The policy for a record. `None` if the record's queue has no policy.
    pub(super) fn policy_for(&self, record: &DecisionRecord) -> Option<Cow<'_, Policy>> {
        match self {
            Self::Configured(policy) => Some(Cow::Borrowed(policy)),
            Self::AsRecorded(subject) => {
                let settings = if subject.component().takes_settings() {
                    settings_for(subject.component().digest(), &record.policy)
                } else {
                    Settings::new()
                };
                Some(Cow::Owned(subject.policy(&settings)))
            }
            Self::Queues(policies) => policies
                .get(&record.queue)
                .map(|it| Cow::Borrowed(&it.policy)),
        }
    }

    /// The limits of the record's queue, if they are known.
    pub(super) fn bounds_for(&self, record: &DecisionRecord) -> Option<&Bounds> {
        match self {
            Self::Configured(_) | Self::AsRecorded(_) => None,
            Self::Queues(policies) => policies.get(&record.queue).map(|it| &it.bounds),
        }
    }

    /// The evaluated policies.
    pub fn evaluated(&self) -> Vec<EvaluatedPolicy> {
        let evaluated =
            |queue: Option<&String>, settings_as_recorded, policy: &Policy| EvaluatedPolicy {
                queue: queue.cloned(),
                settings_as_recorded,
                parts: policy.parts().collect(),
            };
        match self {
            Self::Configured(policy) => vec![evaluated(None, false, policy)],
            Self::AsRecorded(subject) => {
                vec![evaluated(None, true, &subject.policy(&Settings::new()))]
            }
            Self::Queues(policies) => policies
                .iter()
                .map(|(queue, it)| evaluated(Some(queue), false, &it.policy))
                .collect(),
        }
    }
}

/// The recorded settings for the component with this digest: those of its own part. If no part has this digest, the settings of all parts are merged; later parts override earlier ones.
fn settings_for(digest: PolicyDigest, parts: &[PartName]) -> Settings {
    if let Some(itself) = parts.iter().find(|part| part.digest == digest) {
        return itself.settings.clone();
    }
    let all = parts.iter().map(|part| &part.settings);
    all.fold(Settings::new(), |below, above| below.merge(above))
}

/// What to replay. `run` replays all records, `replay` a single one.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// The new policy.
    pub new: &'a Candidate,
    /// The policy to compare with. Without it, the recorded decisions are compared.
    pub old: Option<&'a Candidate>,
    /// Replays only the records of this queue.
    pub queue: Option<&'a str>,
    /// The number of samples for each kind of difference.
    pub samples: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_gets_its_own_recorded_settings_or_those_of_all_parts() {
        let settings = |pairs: &[(&str, &str)]| -> Settings {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let part = |file: &str, pairs| PartName {
            name: file.to_owned(),
            digest: PolicyDigest::of(file.as_bytes()),
            settings: settings(pairs),
        };
        let classifier = part("classifier", &[("codes", "cart"), ("base", "1s")]);
        let backoff = part("backoff", &[("base", "2s")]);
        let parts = [classifier, backoff];
        for (file, parts, expected) in [
            ("backoff", &parts[..], settings(&[("base", "2s")])),
            (
                "new",
                &parts,
                settings(&[("codes", "cart"), ("base", "2s")]),
            ),
            ("new", &parts[1..], settings(&[("base", "2s")])),
            ("new", &[], settings(&[])),
        ] {
            let found = settings_for(PolicyDigest::of(file.as_bytes()), parts);
            assert_eq!(found, expected, "{file}");
        }
    }
}
