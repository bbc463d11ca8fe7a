//! Messages whose key is down: made invisible without an attempt, and brought back when one of them may probe, and when the key is up again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Shared;
use super::breaker::HeldBack;
use super::heartbeat::Heartbeat;
use super::requests::hand_back;
use crate::failure::Milliseconds;
use crate::queue::{Message, VisibilityTimeout};
use crate::waiting::{Filter, Wake};

/// How long a message is held back at least. It is brought back sooner if a probe is due: so few receives are spent on it.
const LEAST: Duration = Duration::from_secs(600);

/// How often probes are looked for.
const CHECK: Duration = Duration::from_millis(500);

/// The time over which the messages of a key that is up again come back: a second for each this many, at least so many seconds.
const EACH_SECOND: u64 = 100;
const LEAST_RAMP: u32 = 5_000;

/// Holds a message back whose attempt is not worthwhile now. That is no attempt.
pub(super) async fn hold_back(
    shared: &Arc<Shared>,
    message: &Arc<Message>,
    HeldBack { key, wait }: HeldBack,
    heartbeat: &Heartbeat,
) {
    heartbeat.release(message).await;
    if key.is_empty() {
        return hand_back(shared, [Arc::clone(message)]).await;
    }
    shared.history.skipped(message);
    let longest = message.max_delay().as_duration();
    let jitter = LEAST.mul_f64(rand::random::<f64>() / 10.0);
    let timeout = VisibilityTimeout::rounded_up(wait.max(LEAST + jitter).min(longest));
    let since = Instant::now();
    if shared.settler.take(message).hide(timeout).await.is_err() {
        shared.stats.unsettled.add(1);
        return;
    }
    let attempts = shared.history.known_attempts(message);
    shared
        .waiting
        .held_back(message, since, timeout, &code(&key), attempts);
    shared.copies.held(message, timeout.as_duration());
}

/// Brings messages back, until the consumer stops.
pub(super) async fn bring_back(shared: &Shared) {
    if !shared.breaker.has_keys() {
        return;
    }
    let bringing = async {
        loop {
            sleep(CHECK).await;
            if shared.gate.is_closed() || shared.controls.is_paused() {
                continue;
            }
            for (key, messages) in shared.breaker.wanted() {
                shared.waiting.wake_some(&code(&key), messages).await;
            }
            for key in shared.breaker.recovered() {
                wake_all(shared, &key).await;
            }
        }
    };
    tokio::select! {
        () = bringing => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Brings the messages of a key back in a ramp.
async fn wake_all(shared: &Shared, key: &str) {
    let mut wake = Wake {
        filter: Filter {
            code: vec![code(key)],
            ..Filter::default()
        },
        dry_run: true,
        ..Wake::default()
    };
    let held_back = shared.waiting.wake(&wake).await.matched;
    if held_back > 0 {
        let seconds = u32::try_from(held_back / EACH_SECOND).unwrap_or(u32::MAX);
        wake.spread = Milliseconds(seconds.saturating_mul(1_000).max(LEAST_RAMP));
        wake.dry_run = false;
        shared.waiting.wake(&wake).await;
        tracing::info!(queue = shared.name, key, messages = held_back, over = %wake.spread, "the messages that were held back come again");
    }
}

/// What `backstop waiting` shows as the cause. A `*` would stand for any text.
fn code(key: &str) -> String {
    format!("HeldBack {}", key.replace('*', "?"))
}
