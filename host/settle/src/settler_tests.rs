use std::sync::atomic::{AtomicU32, Ordering};

use backstop_core::examples::ordinary_failure;
use futures_util::FutureExt;
use tokio::time::sleep;

use super::*;
use crate::dead_letter::known;
use crate::decision::{Action, DecidedBy, Decision, ErrorClass, Hold};
use crate::failure::{Failure, Timestamp};
use crate::hold::{HoldMode, HoldSettings};
use crate::queue::{LocalQueue, LocalSettings, QueueError, ordinary_message};
use backstop_decider::Decided;

const MINUTE: Duration = Duration::from_secs(60);

/// A queue for so many bytes, which keeps messages for a day.
fn queue(name: &str, max_bytes: usize) -> Arc<dyn Queue> {
    LocalQueue::new(
        name,
        LocalSettings {
            max_bytes,
            retention: MINUTE * 60 * 24,
            ..LocalSettings::default()
        },
    )
}

async fn settler(queue: &Arc<dyn Queue>, find: Find) -> Settler {
    let (requests, linger) = (Arc::default(), Duration::ZERO);
    let settings = HoldSettings {
        mode: HoldMode::Auto,
        keys: None,
        max_age: None,
    };
    let description = queue.describe().await.unwrap();
    let holds = Holds::start(settings, "q", queue, &description, linger, &requests);
    let of_queue = (queue, description.arn);
    Settler::start(of_queue, linger.into(), &requests, holds, find, [])
}

async fn found(queue: &Arc<dyn Queue>) -> Find {
    known(Some((Arc::clone(queue), queue.describe().await.unwrap())))
}

fn decided(action: Action, hold: Hold) -> Decided {
    Decided {
        decision: Decision {
            class: ErrorClass::Transient,
            action,
            decided_by: DecidedBy::Policy,
            hold,
            down_for: None,
        },
        policy: "sha256:00".to_owned(),
        payload: None,
    }
}

/// What became of a message that its queue has kept for so long, after this decision.
async fn settled(settler: &Settler, kept: Duration, action: Action, hold: Hold) -> String {
    let now = settler.queue.now();
    let message = Message {
        kept_since: Timestamp(now.0 - u64::try_from(kept.as_millis()).unwrap()),
        ..ordinary_message()
    };
    let left = match &action {
        Action::Retry { delay } => delay.as_duration(),
        Action::DeadLetter { .. } | Action::Discard { .. } => Duration::ZERO,
    };
    let failure = Failure {
        failed_at: now,
        ..ordinary_failure()
    };
    let decided = decided(action, hold);
    let in_hand = settler.take(&message);
    match in_hand.settle(&failure, &decided, left, None).await {
        Settled::Discarded => "discarded".to_owned(),
        Settled::DeadLettered => "dead-lettered".to_owned(),
        Settled::SentAgain { envelope, hop, .. } => {
            format!(
                "sent again for {} of {}",
                Milliseconds::from_duration(hop),
                envelope.delay
            )
        }
        Settled::Waits(timeout) => format!("waits for {} s", timeout.seconds()),
        Settled::NoDeadLetterQueue => "stays".to_owned(),
        Settled::Refused(letter, _) => {
            format!("refused: {}", letter.attributes["BackstopReason"].to_text())
        }
    }
}

fn retry(minutes: u32) -> Action {
    Action::Retry {
        delay: Milliseconds(minutes * 60_000),
    }
}

fn dead_letter() -> Action {
    Action::DeadLetter {
        reason: "no hope".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn each_decision_is_applied_and_says_what_became_of_its_message() {
    let (orders, dead) = (queue("orders", 1 << 20), queue("dead", 1 << 20));
    let settler = settler(&orders, found(&dead).await).await;
    let reason = "late".to_owned();
    for (action, hold, expected) in [
        (Action::Discard { reason }, Hold::Visibility, "discarded"),
        (dead_letter(), Hold::Visibility, "dead-lettered"),
        (retry(2), Hold::Visibility, "waits for 120 s"),
        (retry(13 * 60), Hold::Visibility, "waits for 43140 s"),
        (retry(20), Hold::Resend, "sent again for 15m of 20m"),
    ] {
        let became = settled(&settler, Duration::ZERO, action, hold).await;
        assert_eq!(became, expected);
    }
    let letters = dead.receive(10, Duration::ZERO, VisibilityTimeout::ZERO);
    assert_eq!(letters.await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_if_its_dead_letter_queue_is_missing_or_refuses_it() {
    let (orders, full) = (queue("orders", 1 << 20), queue("full", 0));
    for (find, expected) in [
        (known(None), "stays"),
        (found(&full).await, "refused: no hope"),
    ] {
        let settler = settler(&orders, find).await;
        let became = settled(&settler, Duration::ZERO, dead_letter(), Hold::Visibility).await;
        assert_eq!(became, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_t_be_sent_again_waits_unless_its_queue_would_drop_it_soon_after() {
    let (orders, dead) = (queue("orders", 0), queue("dead", 1 << 20));
    let settler = settler(&orders, found(&dead).await).await;
    let left = MINUTE * 60;
    for (spare, expected) in [(20, "waits"), (6, "waits"), (4, "dead-lettered")] {
        let kept = MINUTE * 60 * 24 - left - MINUTE * spare;
        let became = settled(&settler, kept, retry(60), Hold::Resend).await;
        assert!(became.starts_with(expected), "{spare}: {became}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_queue_that_was_not_found_is_looked_up_again_some_seconds_later() {
    let (orders, looked_up) = (queue("orders", 1 << 20), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&looked_up);
    let find: Find = Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Err(QueueError::new("GetQueueAttributes", "timeout", ""))).boxed()
    });
    let settler = settler(&orders, find).await;
    for (seconds, expected) in [(0, 1), (1, 1), (5, 2)] {
        sleep(Duration::from_secs(seconds)).await;
        let became = settled(&settler, Duration::ZERO, dead_letter(), Hold::Visibility).await;
        assert_eq!(
            (became.as_str(), looked_up.load(Ordering::Relaxed)),
            ("stays", expected)
        );
    }
}
