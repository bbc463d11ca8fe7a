//! A redrive of a queue that others read, and that grows.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_tests::aws::Queues;
use backstop_tests::backstop::text;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use serde_json::{Value, json};

use crate::redrive::{command, letter, resume};
use crate::world::World;

/// Receives this many letters, for so long. Later ones are left alone.
async fn hold(queues: &Queues, count: usize, seconds: i32) -> HashSet<String> {
    let mut held = HashSet::new();
    while held.len() < count {
        let left = i32::try_from(count - held.len()).unwrap();
        let receive = queues.client.receive_message();
        let receive = receive.queue_url(&queues.dead_letters);
        let received = receive
            .max_number_of_messages(left.min(10))
            .visibility_timeout(seconds)
            .send()
            .await
            .unwrap();
        let messages = received.messages.unwrap_or_default();
        held.extend(messages.into_iter().map(|it| it.receipt_handle.unwrap()));
    }
    held
}

#[tokio::test]
async fn letters_that_others_hold_are_waited_for_within_a_bound_while_the_queue_grows() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..20 {
        world.put(letter(&format!("{number:02}"))).await;
    }
    let to = &world.queues.url;
    let steps = ["--ramp", "5,all", "--watch-for", "2s", "--wait", "4s"];
    let mut running = command(&world, &[&["--to", to][..], &steps].concat());
    let running = running.spawn().unwrap();
    eventually("the first step is done", || async {
        world.queues.held().await == 5
    })
    .await;
    // Another listing has these for a while, and somebody these for long.
    hold(&world.queues, 8, 6).await;
    let kept = hold(&world.queues, 2, 600).await;
    let is_over = AtomicBool::new(false);
    let growth = async {
        let mut number = 0;
        while !is_over.load(Ordering::Relaxed) {
            world.put(letter(&format!("later-{number}"))).await;
            number += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let run = async {
        let limit = Duration::from_secs(90);
        let output = tokio::time::timeout(limit, running.wait_with_output()).await;
        is_over.store(true, Ordering::Relaxed);
        output.expect("the run ends").unwrap()
    };
    let (output, ()) = tokio::join!(run, growth);
    let result: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(
        (output.status.code(), &result["outcome"]),
        (Some(9), &json!("done")),
        "{result} {}",
        text(&output.stderr)
    );
    let counts = ["letters", "moved", "missing"].map(|it| result[it].as_u64());
    assert_eq!(counts, [Some(20), Some(18), Some(2)], "{result}");
    assert!(result["later"].as_u64() > Some(0), "{result}");
    // They are there again.
    for handle in kept {
        let change = world.queues.client.change_message_visibility();
        let change = change.queue_url(&world.queues.dead_letters);
        let change = change.receipt_handle(handle).visibility_timeout(0);
        change.send().await.unwrap();
    }
    let (code, result) = resume(&world, result["run"].as_str().unwrap()).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(20)), "{result}");
}
