//! The values of a queue that take more than one argument or several calls. `config/raw` has the others.

use std::time::Duration;

use super::Backstop;
use crate::config::raw::{Part, Parts, Policy, SettingsTable, Span, Window};

/// The policy of a queue, and its shadow.
impl Backstop {
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
        self.part("classifier", policy, settings, |parts| {
            &mut parts.classifier
        })
    }

    /// The part of a composed policy that decides between another attempt, dead-lettering and discarding, with its settings.
    pub fn dead_lettering<N: Into<String>, V: Into<String>>(
        self,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.part("dead-lettering", policy, settings, |parts| {
            &mut parts.dead_lettering
        })
    }

    /// The part of a composed policy that computes delays, with its settings.
    pub fn backoff<N: Into<String>, V: Into<String>>(
        self,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.part("backoff", policy, settings, |parts| &mut parts.backoff)
    }

    /// The part of a composed policy that says that what is behind a message is down, with its settings.
    pub fn outage<N: Into<String>, V: Into<String>>(
        self,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.part("outage", policy, settings, |parts| &mut parts.outage)
    }

    fn part<N: Into<String>, V: Into<String>>(
        self,
        role: &str,
        policy: impl Into<String>,
        settings: impl IntoIterator<Item = (N, V)>,
        of: impl Fn(&mut Parts) -> &mut Option<Part>,
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
            *of(&mut parts) = Some(part.clone());
            queue.policy = Some(Policy::Parts(parts));
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

/// When a queue is not polled.
impl Backstop {
    /// A maintenance window: the queue is not polled for a time that begins whenever a pattern of cron falls due in a time zone, such as `0 2 * * SUN` in `Europe/Berlin`. It may be called several times.
    pub fn maintenance_window(
        self,
        at: impl Into<String>,
        zone: impl Into<String>,
        over: Duration,
    ) -> Self {
        let window = Window {
            at: at.into(),
            zone: zone.into(),
            over: Span(over),
            why: None,
        };
        self.value("pause", |queue| {
            let windows = queue.pause.get_or_insert_default();
            windows.push(window.clone());
        })
    }
}

/// The dead-letter queues of a queue.
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
}

pub(super) fn add_setting(settings: &mut Option<SettingsTable>, (name, value): &(String, String)) {
    let settings = settings.get_or_insert_default();
    let pairs = settings.0.iter().cloned();
    settings.0 = pairs.chain([(name.clone(), value.clone())]).collect();
}
