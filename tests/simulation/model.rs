//! The model is what an emulator of SQS is: the same short histories on both, at the same time, in real time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_queue::{
    Connections, LocalSettings, Message, Outgoing, Queue, ReceiptHandle, VisibilityTimeout,
};
use backstop_tests::aws::{Queues, config};
use backstop_tests::emulator::{Emulator, fauxqs, ministack};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep_until};

/// The visibility timeout of receives.
const VISIBILITY: u32 = 2;

/// Between two times at which something becomes visible, whatever is hidden for 2 or 5 seconds.
const STEP: Duration = Duration::from_millis(1_400);

/// How long after a step its requests may come: later, they could meet the time at which something becomes visible.
const LATE: Duration = Duration::from_millis(400);

/// One of the two queues, with the last handle of each message.
struct Side {
    queue: Arc<dyn Queue>,
    handles: BTreeMap<String, ReceiptHandle>,
}

impl Side {
    /// What a receive brings: bodies with their counts.
    async fn receive(&mut self) -> Vec<(String, u32)> {
        let visibility = VisibilityTimeout::from_seconds(VISIBILITY);
        let received = self.queue.receive(10, Duration::ZERO, visibility).await;
        let received: Vec<Message> = received.unwrap();
        let mut seen = Vec::new();
        for message in received {
            let body = message.body.to_string();
            self.handles.insert(body.clone(), message.receipt_handle);
            seen.push((body, message.receive_count.get()));
        }
        seen
    }

    async fn delete(&mut self, body: &str) -> bool {
        let handle = self.handles.remove(body).unwrap();
        self.queue.delete(&[handle]).await.unwrap()[0].is_ok()
    }

    async fn hide(&mut self, body: &str, seconds: u32) -> bool {
        let handle = self.handles[body].clone();
        let change = (handle, VisibilityTimeout::from_seconds(seconds));
        self.queue.change_visibility(&[change]).await.unwrap()[0].is_ok()
    }
}

/// Does the same on both queues, as a seed says, and compares what they answer. Returns how many messages were received.
async fn compare(seed: u64, fifo: bool, mut sides: [Side; 2]) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // From when on each message in hand is visible again, in steps.
    let mut held = BTreeMap::<String, u32>::new();
    let (mut now, mut sent, mut received) = (0, 0, 0);
    let mut history = Vec::new();
    let started = Instant::now();
    for _ in 0..30 {
        // A busy machine compares less.
        if Instant::now() > started + STEP * now + LATE {
            break;
        }
        let in_hand: Vec<_> = held
            .iter()
            .filter(|(_, until)| **until > now)
            .map(|(body, _)| body.clone())
            .collect();
        let steps = |seconds: u32| {
            if seconds == 0 {
                0
            } else {
                seconds.div_ceil(2) + 1
            }
        };
        let chosen = (!in_hand.is_empty()).then(|| random.random_range(0..in_hand.len()));
        match (random.random_range(0..6), chosen) {
            (0, _) => {
                sent += 1;
                let outgoing = Outgoing {
                    group: fifo.then(|| format!("group-{}", sent % 2)),
                    ..Outgoing::new(format!("message {sent}"))
                };
                for side in &sides {
                    side.queue
                        .send(std::slice::from_ref(&outgoing))
                        .await
                        .unwrap();
                }
                history.push(format!("send {sent}"));
            }
            (1, Some(at)) => {
                let body = &in_hand[at];
                held.remove(body);
                history.push(format!("delete {body}"));
                let [one, other] = &mut sides;
                assert_eq!(
                    one.delete(body).await,
                    other.delete(body).await,
                    "{history:#?}"
                );
            }
            (2, Some(at)) => {
                let (body, seconds) = (&in_hand[at], [0, 2, 5][random.random_range(0..3)]);
                held.insert(body.clone(), now + steps(seconds));
                history.push(format!("hide {body} for {seconds} s"));
                let [one, other] = &mut sides;
                let both = [
                    one.hide(body, seconds).await,
                    other.hide(body, seconds).await,
                ];
                assert_eq!(both[0], both[1], "{history:#?}");
            }
            (3 | 4, _) => {
                let [one, other] = &mut sides;
                let (mut one, mut other) = (one.receive().await, other.receive().await);
                history.push(format!("receive {one:?}"));
                if !fifo {
                    one.sort();
                    other.sort();
                }
                let of_group = |all: &[(String, u32)], group: usize| -> Vec<(String, u32)> {
                    let number = |body: &str| body.rsplit(' ').next().unwrap().parse::<usize>();
                    let its = all.iter().filter(|it| number(&it.0).unwrap() % 2 == group);
                    its.cloned().collect()
                };
                for group in 0..2 {
                    let both = [of_group(&one, group), of_group(&other, group)];
                    assert_eq!(both[0], both[1], "{history:#?}");
                }
                received += one.len();
                for (body, _) in one {
                    held.insert(body, now + 2);
                }
            }
            _ => {
                now += 1;
                history.push("wait".to_owned());
                sleep_until(started + STEP * now).await;
            }
        }
    }
    received
}

/// A queue of the model and one of an emulator.
async fn both(emulator: &Emulator, fifo: bool) -> [Side; 2] {
    let queues = if fifo {
        Queues::fifo(&emulator.endpoint, &[]).await
    } else {
        Queues::standard(&emulator.endpoint, &[]).await
    };
    let emulator = Connections::with_sdk(config(&queues.endpoint).await);
    let name = if fifo { "model.fifo" } else { "model" };
    let model = Connections::default();
    let sides: [Arc<dyn Queue>; 2] = [
        model.local.set_up(name, LocalSettings::default()),
        emulator.by_url(&queues.url).await,
    ];
    sides.map(|queue| Side {
        queue,
        handles: BTreeMap::new(),
    })
}

#[tokio::test]
async fn the_model_answers_as_an_emulator_does() {
    let mut all = tokio::task::JoinSet::new();
    for seed in 0..24 {
        let fifo = seed % 2 == 1;
        let sides = both(ministack(), fifo).await;
        all.spawn(compare(seed, fifo, sides));
    }
    let received: usize = all.join_all().await.into_iter().sum();
    assert!(received > 20, "{received}");
}

#[tokio::test]
async fn the_model_answers_as_another_emulator_does() {
    let mut all = tokio::task::JoinSet::new();
    for seed in 100..112 {
        let sides = both(fauxqs(), false).await;
        all.spawn(compare(seed, false, sides));
    }
    let received: usize = all.join_all().await.into_iter().sum();
    assert!(received > 20, "{received}");
}
