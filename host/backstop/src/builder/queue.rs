//! The values of a queue: its policy, its shadow, its limits and how messages are received.

use std::path::Path;
use std::time::Duration;

use super::Backstop;
use crate::config::raw::{Bytes, Part, Parts, Policy, SettingsTable, Span};
use crate::hold::HoldMode;

/// The policy of a queue, and its shadow.
impl Backstop {
    /// The policy: the name of a built-in one, the path of a file or a directory, `s3://BUCKET/KEY` or `oci://REGISTRY/REPOSITORY:TAG`. The default is `full-jitter`. New versions are fetched and activated while the host runs.
    pub fn policy(self, policy: impl Into<String>) -> Self {
        let policy = policy.into();
        self.value("policy", |queue| {
            queue.policy = Some(Policy::Single(policy.clone()))
        })
    }

    /// A setting of the policy.
    pub fn set(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let pair = (name.into(), value.into());
        self.value("settings", |queue| add_setting(&mut queue.settings, &pair))
    }

    /// The part of a composed policy that classifies errors, with its settings. Parts replace [`policy`](Self::policy).
    pub fn classifier<N: Into<String>, V: Into<String>>(
        self,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.part("classifier", policy, settings, |parts, part| {
            parts.classifier = Some(part)
        })
    }

    /// The part of a composed policy that decides between another attempt, dead-lettering and discarding, with its settings.
    pub fn dead_lettering<N: Into<String>, V: Into<String>>(
        self,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.part("dead-lettering", policy, settings, |parts, part| {
            parts.dead_lettering = Some(part);
        })
    }

    /// The part of a composed policy that computes delays, with its settings.
    pub fn backoff<N: Into<String>, V: Into<String>>(
        self,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.part("backoff", policy, settings, |parts, part| {
            parts.backoff = Some(part)
        })
    }

    fn part<N: Into<String>, V: Into<String>>(
        self,
        role: &str,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
        fill: impl Fn(&mut Parts, Part),
    ) -> Self {
        let part = Part {
            name: policy.into(),
            settings: SettingsTable(settings.into_iter().collect()),
        };
        self.value(&format!("policy.{role}"), |queue| {
            let mut parts = match queue.policy.take() {
                Some(Policy::Parts(parts)) => parts,
                Some(Policy::Single(_)) | None => Box::default(),
            };
            fill(&mut parts, part.clone());
            queue.policy = Some(Policy::Parts(parts));
        })
    }

    /// Scenarios that every version of the policy has to pass before it is activated (`host/docs/scenarios.md`).
    pub fn scenarios(self, path: impl AsRef<Path>) -> Self {
        let path = self.in_working_directory(path.as_ref());
        self.value("scenarios", |queue| queue.scenarios = Some(path.clone()))
    }

    /// The name of the policy that every version has to be signed for, with a time that is not before that of a version that was active. It requires [`require_signature`](Backstop::require_signature).
    pub fn signed_for(self, policy: impl Into<String>) -> Self {
        let policy = policy.into();
        self.value("signed-for", |queue| {
            queue.signed_for = Some(policy.clone())
        })
    }

    /// A shadow: a second policy that is evaluated for every failure and compared with the first one. It has no effect on messages.
    pub fn shadow(self, policy: impl Into<String>) -> Self {
        let policy = policy.into();
        self.value("shadow", |queue| {
            queue.shadow = Some(Policy::Single(policy.clone()))
        })
    }

    /// A setting of the shadow. Without any, it has those of the policy.
    pub fn set_shadow(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let pair = (name.into(), value.into());
        self.value("shadow-settings", |queue| {
            add_setting(&mut queue.shadow_settings, &pair)
        })
    }
}

/// The limits of a queue, and how its messages are received.
impl Backstop {
    /// The dead-letter queue. The default is the one of the queue's redrive policy.
    pub fn dead_letter_queue(self, url: impl Into<String>) -> Self {
        let url = url.into();
        self.value("dead-letter-queue", |queue| {
            let queues = queue.dead_letter_queue.get_or_insert_default();
            queues.set(None, url.clone());
        })
    }

    /// The dead-letter queue for messages whose last failure has this class: `transient`, `throttled`, `permanent`, or one that the policy defines. All others go to [`dead_letter_queue`](Self::dead_letter_queue).
    pub fn dead_letter_queue_of(self, class: impl Into<String>, url: impl Into<String>) -> Self {
        let (class, url) = (class.into(), url.into());
        self.value("dead-letter-queue", |queue| {
            let queues = queue.dead_letter_queue.get_or_insert_default();
            queues.set(Some(&class), url.clone());
        })
    }

    /// The most attempts of a message, whatever the policy decides.
    pub fn max_attempts(self, most: u32) -> Self {
        self.value("max-attempts", |queue| queue.max_attempts = Some(most))
    }

    /// The age from which a message is not retried, whatever the policy decides.
    pub fn max_age(self, age: Duration) -> Self {
        self.value("max-age", |queue| queue.max_age = Some(Span(age)))
    }

    /// Whether the policy may discard messages. If not, they are dead-lettered. The default is `true`.
    pub fn allow_discard(self, allow: bool) -> Self {
        self.value("allow-discard", |queue| queue.allow_discard = Some(allow))
    }

    /// How many messages are in flight at once. The default is 100.
    pub fn max_in_flight(self, most: usize) -> Self {
        self.value("max-in-flight", |queue| queue.max_in_flight = Some(most))
    }

    /// The most polls at the same time: there are as many as the queue has work for. The default is 10.
    pub fn max_polls(self, most: usize) -> Self {
        self.value("max-polls", |queue| queue.max_polls = Some(most))
    }

    /// The bytes of messages in flight at which no more are received. The default is 256 MiB.
    pub fn max_bytes_in_flight(self, most: usize) -> Self {
        self.value("max-bytes-in-flight", |queue| {
            queue.max_bytes_in_flight = Some(Bytes(most))
        })
    }

    /// How failed messages are held until their next attempt. The default is [`HoldMode::Auto`].
    pub fn hold(self, mode: HoldMode) -> Self {
        self.value("hold", |queue| queue.hold = Some(mode))
    }

    /// A file with the secret keys by which the hosts of a fleet know the envelopes of messages that were sent again, one in each line (`host/docs/holding.md`). Without it, each host knows those that it made itself since its start.
    pub fn envelope_key_file(self, path: impl AsRef<Path>) -> Self {
        let path = self.in_working_directory(path.as_ref());
        self.value("envelope-key-file", |queue| {
            queue.envelope_key_file = Some(path.clone());
        })
    }

    /// How long a received message stays invisible; a heartbeat renews it. The default is the queue's.
    pub fn visibility_timeout(self, timeout: Duration) -> Self {
        self.value("visibility-timeout", |queue| {
            queue.visibility_timeout = Some(Span(timeout))
        })
    }

    /// The longest duration of one attempt. The default is 15 minutes.
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        self.value("attempt-timeout", |queue| {
            queue.attempt_timeout = Some(Span(timeout))
        })
    }

    /// How long a request to SQS waits for others to be batched with it. The default is 100 ms.
    pub fn linger(self, linger: Duration) -> Self {
        self.value("linger", |queue| queue.linger = Some(Span(linger)))
    }

    /// How long attempts may go on after the host was stopped. The default is 25 seconds.
    pub fn grace(self, grace: Duration) -> Self {
        self.value("grace", |queue| queue.grace = Some(Span(grace)))
    }
}

fn add_setting(settings: &mut Option<SettingsTable>, (name, value): &(String, String)) {
    let settings = settings.get_or_insert_default();
    let pairs = settings.0.iter().cloned();
    settings.0 = pairs.chain([(name.clone(), value.clone())]).collect();
}
