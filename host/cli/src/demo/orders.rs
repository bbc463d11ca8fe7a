//! The demo's hundred orders: how each fails, and the decisions about it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::lock::lock;

use super::timeline::{TOTAL, Timeline};
use backstop_core::failure::{Error, Milliseconds};
use backstop_handlers::Handler;
use backstop_queue::{Message, Outgoing};
use backstop_records::{DecisionRecord, Observer};

/// Why an order fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// It does not fail.
    None,
    /// The network fails for this many attempts.
    Network(u32),
    /// The payment service throttles this many attempts.
    Throttled(u32),
    /// The order itself is invalid.
    Invalid,
    /// The service fails every attempt.
    Outage,
}

impl Cause {
    fn of(order: u32) -> Self {
        match order % 20 {
            0..=8 => Self::None,
            9..=12 => Self::Network(1 + order % 2),
            13..=16 => Self::Throttled(1 + order % 3),
            17 | 18 => Self::Invalid,
            _ => Self::Outage,
        }
    }

    fn error(self, attempt: u32) -> Option<Error> {
        match self {
            Self::Network(failures) if attempt <= failures => {
                Some(Error::new("ECONNRESET", "socket hang up"))
            }
            Self::Throttled(failures) if attempt <= failures => Some(
                Error::new("ThrottlingException", "Rate exceeded")
                    .status(429)
                    .retry_after(Milliseconds(1_000)),
            ),
            Self::Invalid => Some(Error::new("ValidationException", "no such article").status(400)),
            Self::Outage => Some(Error::new("HTTP 503", "Service Unavailable").status(503)),
            Self::None | Self::Network(_) | Self::Throttled(_) => None,
        }
    }
}

/// The orders that the timeline shows: one of each cause.
const FOLLOWED: [u32; 4] = [11, 14, 17, 19];

/// Handles the orders, and observes the decisions about them.
#[derive(Debug)]
pub(super) struct Orders {
    timeline: Arc<Timeline>,
    /// The number of each followed order, by message id.
    followed: Mutex<BTreeMap<String, u32>>,
    /// Decisions by version of the policy.
    versions: Mutex<BTreeMap<String, u32>>,
}

impl Orders {
    pub(super) fn new(timeline: Arc<Timeline>) -> Self {
        Self {
            timeline,
            followed: Mutex::default(),
            versions: Mutex::default(),
        }
    }

    pub(super) fn messages(&self) -> Vec<Outgoing> {
        (0..TOTAL)
            .map(|order| Outgoing::new(format!(r#"{{"order": {order}}}"#)))
            .collect()
    }

    pub(super) fn handler(self: &Arc<Self>) -> Arc<dyn Handler> {
        Arc::clone(self) as _
    }

    /// The number of decisions of each version of the policy, by its short digest.
    pub(super) fn versions(&self) -> BTreeMap<String, u32> {
        lock(&self.versions).clone()
    }
}

#[async_trait]
impl Handler for Orders {
    /// Waits a moment, then succeeds or fails with the order's error.
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        tokio::time::sleep(Duration::from_millis(40)).await;
        let body: BTreeMap<String, u32> = serde_json::from_str(&message.body).unwrap_or_default();
        let order = body.get("order").copied().unwrap_or_default();
        let attempt = message.receive_count.get();
        let is_followed = FOLLOWED.contains(&order);
        if is_followed {
            lock(&self.followed).insert(message.id.clone(), order);
        }
        match Cause::of(order).error(attempt) {
            Some(error) => Err(error),
            None => {
                if is_followed {
                    self.timeline.succeeded(order, attempt);
                }
                Ok(())
            }
        }
    }
}

impl Observer for Orders {
    fn decided(&self, record: &DecisionRecord) {
        let version = record
            .policy
            .first()
            .map(|part| part.digest.short())
            .unwrap_or_default();
        *lock(&self.versions).entry(version).or_default() += 1;
        let followed = lock(&self.followed)
            .get(&record.failure.message_id)
            .copied();
        if let Some(order) = followed {
            self.timeline.decided(order, record);
        }
    }
}
