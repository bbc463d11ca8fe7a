//! Messages whose key is down or at a limit: made invisible without an attempt, and brought back when one of them may probe, when the key is up again, and when they have their turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Shared;
use super::heartbeat::Heartbeat;
use super::not_now::{HeldBack, NotNow};
use super::requests::{self, hand_back};
use crate::failure::Milliseconds;
use crate::queue::{Message, VisibilityTimeout};

/// How long a message is held back at least. It is brought back sooner if a probe or its turn is due: so few receives are spent on it.
const LEAST: Duration = Duration::from_secs(600);

/// The shortest visibility timeout that keeps a message invisible.
const SHORTEST: Duration = Duration::from_secs(1);

/// How often probes and turns are looked for.
const CHECK: Duration = Duration::from_millis(500);

/// The shortest time after which turns are looked for again.
const SHORTEST_CHECK: Duration = Duration::from_millis(50);

/// How many messages of keys that are up again come back each second.
const EACH_SECOND: u64 = 100;

/// The shortest time over which they come.
const SHORTEST_RAMP: Duration = Duration::from_secs(5);

/// Holds a message back whose attempt is not worthwhile now. That is no attempt.
pub(super) async fn hold_back(
    shared: &Arc<Shared>,
    message: &Arc<Message>,
    HeldBack { why, wait }: HeldBack,
    heartbeat: &Heartbeat,
) {
    heartbeat.release(message).await;
    let Some(code) = why.code() else {
        return hand_back(shared, [Arc::clone(message)]).await;
    };
    shared.history.handed_back(message);
    let longest = longest(shared, message);
    let jitter = LEAST.mul_f64(rand::random::<f64>() / 10.0);
    let timeout = VisibilityTimeout::rounded_up(wait.max(LEAST + jitter).min(longest));
    let since = Instant::now();
    let (later, hidden) = requests::hide(shared, message, timeout).await;
    let message = later.as_ref().unwrap_or(message);
    if hidden.is_err() {
        shared.stats.unsettled.add(1);
        return;
    }
    let attempts = shared.history.known_attempts(message);
    shared
        .waiting
        .held_back(message, since, timeout, &code, attempts);
    shared.copies.held(message, timeout.as_duration());
}

/// The longest time for which a message is held back: SQS allows 12 hours, and half of the time that its queue still keeps it is left for its attempts, also if this host stops.
fn longest(shared: &Shared, message: &Message) -> Duration {
    let longest = message.max_delay().as_duration();
    let Some(retention) = shared.decider.bounds().retention else {
        return longest;
    };
    let age = shared.queue.now().since(message.kept_since);
    let left = retention.as_duration().saturating_sub(age);
    longest.min((left / 2).max(SHORTEST))
}

/// Brings messages back, until the consumer stops.
pub(super) async fn bring_back(shared: &Shared) {
    let each = &shared.controls.each;
    if !shared.breaker.has_keys() && !each.is_set() {
        return;
    }
    let bringing = async {
        loop {
            sleep(SHORTEST_CHECK).await;
            tokio::select! {
                biased;
                () = sleep(CHECK) => {}
                () = each.freed() => {}
            }
            if !shared.gate.is_closed() && !shared.controls.is_paused() {
                bring_wanted(shared).await;
                bring_recovered(shared).await;
            }
        }
    };
    tokio::select! {
        biased;
        () = bringing => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Brings back the messages that may probe, and those that have their turn.
async fn bring_wanted(shared: &Shared) {
    let each = &shared.controls.each;
    let probes = shared.breaker.wanted();
    if probes.is_empty() && !each.is_set() {
        return;
    }
    let allot = |held: &HashMap<String, usize>| {
        let mut allotted = HashMap::new();
        let mut limited = Vec::new();
        for code in held.keys() {
            match NotNow::of_code(code) {
                Some(NotNow::Down(key)) => {
                    let room = probes.get(&key).copied().unwrap_or_default();
                    allotted.insert(code.clone(), room);
                }
                Some(NotNow::Limited(key)) => limited.push((code, key)),
                Some(NotNow::QueueDown) | None => {}
            }
        }
        let keys: Vec<_> = limited.iter().map(|(_, key)| key.as_str()).collect();
        let wanted = each.wanted(&keys);
        let limited = limited.iter().zip(wanted);
        allotted.extend(limited.map(|((code, _), wanted)| ((*code).clone(), wanted)));
        allotted
    };
    let brought = shared.waiting.bring_back(allot, |_| Duration::ZERO).await;
    each.brought(
        brought
            .codes
            .iter()
            .filter_map(|(code, of)| match NotNow::of_code(code) {
                Some(NotNow::Limited(key)) => Some((key, *of)),
                Some(NotNow::Down(_) | NotNow::QueueDown) | None => None,
            }),
    );
}

/// Brings back the messages of keys that are up again.
async fn bring_recovered(shared: &Shared) {
    let recovered = shared.breaker.recovered();
    if recovered.is_empty() {
        return;
    }
    let codes = recovered.into_iter().map(NotNow::Down);
    let all: HashMap<_, _> = codes
        .filter_map(|it| Some((it.code()?, usize::MAX)))
        .collect();
    let messages = shared.waiting.bring_back(|_| all, ramp).await.messages;
    if messages > 0 {
        let (queue, over) = (&shared.name, Milliseconds::from_duration(ramp(messages)));
        tracing::info!(queue, messages, %over, "messages that were held back come again");
    }
}

/// The time over which so many messages come back.
fn ramp(messages: u64) -> Duration {
    Duration::from_secs(messages / EACH_SECOND).max(SHORTEST_RAMP)
}
