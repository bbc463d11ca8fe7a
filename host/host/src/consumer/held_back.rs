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

/// How long a message is held back at least. It is brought back sooner if a probe is due: so few receives are spent on it.
const LEAST: Duration = Duration::from_secs(600);

/// How often probes are looked for.
const CHECK: Duration = Duration::from_millis(500);

/// How many messages of keys that are up again come back each second.
const EACH_SECOND: u64 = 100;

/// The shortest time over which they come.
const SHORTEST_RAMP: Duration = Duration::from_secs(5);

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
    shared.history.handed_back(message);
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
            let waiting = &shared.waiting;
            let wanted = shared.breaker.wanted().into_iter();
            let wanted = wanted.map(|(key, messages)| (code(&key), messages));
            waiting
                .bring_back(wanted.collect(), |_| Duration::ZERO)
                .await;
            let recovered = shared.breaker.recovered().into_iter();
            let recovered = recovered.map(|key| (code(&key), usize::MAX));
            let messages = waiting.bring_back(recovered.collect(), ramp).await;
            if messages > 0 {
                let (queue, over) = (&shared.name, Milliseconds::from_duration(ramp(messages)));
                tracing::info!(queue, messages, %over, "messages that were held back come again");
            }
        }
    };
    tokio::select! {
        () = bringing => {}
        () = shared.stop.cancelled() => {}
    }
}

/// The time over which so many messages come back.
fn ramp(messages: u64) -> Duration {
    Duration::from_secs(messages / EACH_SECOND).max(SHORTEST_RAMP)
}

/// What `backstop waiting` shows as the cause.
fn code(key: &str) -> String {
    format!("HeldBack {key}")
}
