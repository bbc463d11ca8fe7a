//! Messages stay invisible while they are handled, and no longer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_queue::{Message, Queue, VisibilityTimeout};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::trial::{Trial, unavailable};

#[tokio::test(start_paused = true)]
async fn a_heartbeat_never_undoes_the_outcome_of_its_attempt() {
    let trial = Trial::new("orders").set("base", "2s");
    trial.send(&["long"]).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let (noted, started) = (Arc::clone(&times), Instant::now());
    // The visibility timeout is 30 s: heartbeats come at 10, 20, 30 and 40 s, and the attempt fails at the time of the fourth.
    trial
        .run(move |message| {
            noted.lock().unwrap().push(started.elapsed().as_secs());
            async move {
                if message.receive_count.get() > 1 {
                    return Ok(());
                }
                sleep(Duration::from_secs(40)).await;
                Err(unavailable())
            }
        })
        .await;
    assert_eq!(*times.lock().unwrap(), [0, 42]);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_keeps_the_unfinished_messages_of_a_receive_and_no_others() {
    let trial = Trial::new("orders").set("base", "100s");
    trial.send(&["fails", "long"]).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let (noted, started) = (Arc::clone(&times), Instant::now());
    trial
        .run(move |message| {
            let attempt = (message.body.to_string(), started.elapsed().as_secs());
            noted.lock().unwrap().push(attempt);
            async move {
                match (message.body.as_ref(), message.receive_count.get()) {
                    ("fails", 1) => return Err(unavailable()),
                    ("fails", _) => {}
                    _ => sleep(Duration::from_secs(200)).await,
                }
                Ok(())
            }
        })
        .await;
    let expected = [("fails", 0), ("long", 0), ("fails", 100)];
    let expected = expected.map(|(body, seconds)| (body.to_owned(), seconds));
    let mut times = times.lock().unwrap();
    times.sort_by_key(|(body, seconds)| (*seconds, body.clone()));
    assert_eq!(*times, expected);
}

#[tokio::test(start_paused = true)]
async fn a_long_linger_does_not_cause_a_second_delivery_during_an_attempt() {
    let mut trial = Trial::new("orders").set("base", "20s");
    trial.options.linger = Duration::from_secs(5);
    trial.options.visibility_timeout = Some(VisibilityTimeout::from_seconds(3));
    trial.send(&["long"]).await;
    let summary = trial
        .run(|message| async move {
            sleep(Duration::from_secs(10)).await;
            match message.receive_count.get() {
                1 => Err(unavailable()),
                _ => Ok(()),
            }
        })
        .await;
    assert_eq!((summary.received, summary.succeeded), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_invisible_while_the_consumer_drains() {
    let mut trial = Trial::new("orders");
    trial.options.grace = Duration::from_secs(120);
    trial.send(&["long"]).await;
    let stop = CancellationToken::new();
    let work = |_| async {
        sleep(Duration::from_secs(100)).await;
        Ok(())
    };
    let run = trial.start(work, &stop).await;
    sleep(Duration::from_secs(1)).await;
    // All heartbeats come after it: at 10 s, 20 s, and so on.
    stop.cancel();
    for _ in 0..9 {
        sleep(Duration::from_secs(10)).await;
        assert!(visible(&trial).await.is_empty());
    }
    assert_eq!(run.await.unwrap().succeeded, 1);
}

#[tokio::test(start_paused = true)]
async fn each_receive_is_kept_invisible_whenever_it_begins_and_whatever_was_handled_before() {
    let trial = Trial::new("orders");
    let stop = CancellationToken::new();
    let work = |message: Arc<Message>| async move {
        let seconds = message.body.parse().unwrap();
        sleep(Duration::from_secs(seconds)).await;
        Ok(())
    };
    let run = trial.start(work, &stop).await;
    // The heartbeat waits for the first renewal of a receive that is handled long before it, then for those of others.
    for seconds in ["3", "80", "75", "1", "60"] {
        trial.send(&[seconds]).await;
        sleep(Duration::from_secs(4)).await;
    }
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        assert!(visible(&trial).await.is_empty());
    }
    trial.queue.emptied().await;
    stop.cancel();
    let summary = run.await.unwrap();
    assert_eq!((summary.received, summary.succeeded), (5, 5));
}

/// What another consumer would receive now.
async fn visible(trial: &Trial) -> Vec<Message> {
    let received = trial
        .queue
        .receive(10, Duration::ZERO, VisibilityTimeout::ZERO);
    received.await.unwrap()
}
