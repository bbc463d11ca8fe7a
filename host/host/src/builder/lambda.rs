//! The values of the Lambda retry handler that take more than one argument or several calls. `config/raw` has the others.

use super::queue::add_setting;
use super::{Backstop, Change};
use crate::config::raw::Lambda;

/// The Lambda retry handler, as the table `[lambda]` of a file configures it.
impl Backstop {
    /// A setting of the policy of the Lambda retry handler.
    pub fn lambda_set(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let pair = (name.into(), value.into());
        Lambda::change(self, "settings", |it| add_setting(&mut it.settings, &pair))
    }

    /// A setting of the shadow of the Lambda retry handler. Without any, it has those of the policy.
    pub fn lambda_set_shadow(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let pair = (name.into(), value.into());
        Lambda::change(self, "shadow-settings", |it| {
            add_setting(&mut it.shadow_settings, &pair)
        })
    }

    /// The dead-letter queue of the Lambda retry handler. The default is the one of the retry queue's redrive policy.
    pub fn lambda_dead_letter_queue(self, url: impl Into<String>) -> Self {
        let url = url.into();
        Lambda::change(self, "dead-letter-queue", |it| {
            let queues = it.dead_letter_queue.get_or_insert_default();
            queues.set(None, url.clone());
        })
    }

    /// The dead-letter queue for events whose last failure has this class.
    pub fn lambda_dead_letter_queue_of(
        self,
        class: impl Into<String>,
        url: impl Into<String>,
    ) -> Self {
        let (class, url) = (class.into(), url.into());
        Lambda::change(self, "dead-letter-queue", |it| {
            let queues = it.dead_letter_queue.get_or_insert_default();
            queues.set(Some(&class), url.clone());
        })
    }
}
