//! Keeps messages invisible while something takes its time with them.

use std::future::Future;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::Shared;

use super::lane::room;
use crate::queue::{GaveUp, Message, VisibilityTimeout};

/// For how long one renewal is tried; the next comes soon enough.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The heartbeat of one lane: a renewal at each third of the visibility timeout, counted from the receive.
pub(super) struct Heartbeat {
    ticks: Interval,
}

impl Heartbeat {
    pub(super) fn new(visibility: VisibilityTimeout, received: Instant) -> Self {
        let third = visibility.as_duration() / 3;
        let mut ticks = interval_at(received + third, third);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks }
    }

    /// Runs `work` while `messages` are kept invisible. When this returns no renewal is under way, so that none can undo what comes next.
    pub(super) async fn during<T>(
        &mut self,
        shared: &Shared,
        messages: &[&Message],
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = self.ticks.tick() => {}
            }
            let renewal = renew(shared, messages);
            tokio::pin!(renewal);
            tokio::select! {
                biased;
                done = &mut work => {
                    renewal.await;
                    return done;
                }
                () = &mut renewal => {}
            }
        }
    }
}

/// Keeps messages invisible for another visibility timeout, as far as SQS's 12 hours from their receive allow.
async fn renew(shared: &Shared, messages: &[&Message]) {
    let patience = REQUEST_TIMEOUT.min(shared.visibility.as_duration() / 3);
    let until = Instant::now() + patience;
    let renewals = messages.iter().map(|message| async move {
        let left = VisibilityTimeout::rounded_up(room(message).as_duration());
        let timeout = shared.visibility.min(left);
        if timeout == VisibilityTimeout::ZERO {
            return;
        }
        match shared.applier.hide_now(message, timeout, until).await {
            Ok(()) => {}
            // Deleted in the meantime, or received by somebody else.
            Err(GaveUp::Entry(error)) if !error.retryable => {
                tracing::debug!(id = message.id, %error, "nothing left to keep invisible");
            }
            Err(error) => tracing::warn!(
                id = message.id,
                %error,
                "a heartbeat failed: the message may be delivered again while it is handled"
            ),
        }
    });
    join_all(renewals).await;
}
