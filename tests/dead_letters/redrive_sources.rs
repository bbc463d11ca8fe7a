//! `backstop dlq redrive` of letters that name targets which they should not, and of FIFO queues whose consumers keep no attempts.

use backstop_tests::emulator::ministack;
use serde_json::json;

use crate::redrive::{command, letter, redrive, runs};
use crate::world::{World, failed, string};

#[tokio::test]
async fn a_letter_that_names_a_wrong_target_is_refused_and_stops_no_other() {
    let world = World::standard(&ministack().endpoint).await;
    let dead = backstop_tests::aws::Queues {
        url: world.queues.dead_letters.clone(),
        ..world.queues.clone()
    };
    let (own, dead) = (world.queues.arn().await, dead.arn().await);
    // A queue of this name exists, in another region than the letter says.
    let elsewhere = own.replace("us-east-1", "eu-north-1");
    assert_ne!(own, elsewhere);
    for (number, source) in [own.as_str(), &dead, "x", "arn:aws:sqs:::", &elsewhere]
        .into_iter()
        .enumerate()
    {
        let body = format!("{number}");
        let mut given = letter(&body);
        given
            .attributes
            .push(("BackstopSource".to_owned(), string(source)));
        world.put(given).await;
    }
    let (code, result) = redrive(&world, &[]).await;
    assert_eq!(
        (code, result["moved"].as_u64(), result["refused"].as_u64()),
        (9, Some(1), Some(4)),
        "{result}"
    );
    let detail = runs(&world, &[result["run"].as_str().unwrap()])
        .await
        .remove(0);
    let why = detail["refusals"].to_string();
    for expected in [
        "is the dead-letter queue itself",
        "can't use the target x",
        "can't use the target arn:aws:sqs:::",
        "the queue with this name here is arn:aws:sqs:us-east-1",
    ] {
        assert!(why.contains(expected), "{expected}: {why}");
    }
    // A target that the operator names has to be right.
    let to = ["--to", &world.queues.dead_letters];
    let (code, said) = failed(&command(&world, &to).output().await.unwrap());
    assert!(
        code == 2 && said.contains("dead-letter queue itself"),
        "{code}: {said}"
    );
    assert_eq!(world.queues.dead().await, 4);
}

#[tokio::test]
async fn attempts_do_not_go_on_in_a_fifo_queue_and_the_command_says_so() {
    let fifo = World::fifo(&ministack().endpoint).await;
    let mut given = letter("00");
    given.group = Some("g");
    fifo.put(given).await;
    let keep = ["--keep-attempts", "--to", &fifo.queues.url];
    let (code, said) = failed(&command(&fifo, &keep).output().await.unwrap());
    assert!(
        code == 2 && said.contains("--keep-attempts has no effect on a FIFO queue"),
        "{code}: {said}"
    );
    assert!(runs(&fifo, &[]).await.is_empty());
    // From a standard queue to a FIFO queue, only the letter's target shows it.
    let world = World::standard(&ministack().endpoint).await;
    world.put(letter("00")).await;
    let (code, result) = redrive(&world, &keep).await;
    assert_eq!((code, result["refused"].as_u64()), (9, Some(1)), "{result}");
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run]).await.remove(0);
    let why = detail["refusals"][0]["reason"].as_str().unwrap();
    assert!(why.contains("FIFO queue"), "{why}");
    assert_eq!(detail["plan"]["attempts"], json!("keep"));
}
