//! Checks the sources of policies for updates while the host runs.

use std::sync::Arc;

use crate::consumer::Consumer;
use crate::policy::{Purpose, WatchError, Watcher, log_reload};
use crate::text::chain;

/// Checks the sources of all live policies for updates.
pub(super) fn live(consumers: &[(String, Consumer)]) -> Result<Watcher, WatchError> {
    let policy = |(_, consumer): &(String, Consumer)| Arc::clone(consumer.decider().policy());
    let mut policies: Vec<_> = consumers.iter().map(policy).collect();
    // Queues with the same policy share it.
    policies.sort_by_key(Arc::as_ptr);
    policies.dedup_by_key(|policy| Arc::as_ptr(policy));
    Watcher::start(policies, |policy, reload| {
        log_reload(Purpose::Live, policy, reload);
    })
}

/// Checks the sources of a queue's shadow for updates, on a thread of its own, so that live policies do not wait while a shadow is compiled. If that fails, the shadow stays as it is.
pub(super) fn shadow((queue, consumer): &(String, Consumer)) -> Option<Watcher> {
    let shadow = consumer.decider().shadow()?;
    Watcher::start(vec![Arc::clone(shadow.policy())], |policy, reload| {
        log_reload(Purpose::Shadow, policy, reload);
    })
    .inspect_err(|error| {
        tracing::error!(
            queue,
            "the shadow can't be checked for updates: {}",
            chain(error)
        );
    })
    .ok()
}
