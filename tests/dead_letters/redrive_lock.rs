//! Two operators and one dead-letter queue: a run has a lock that runs on other machines see.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::text;
use backstop_tests::emulator::{fauxqs, ministack};
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use crate::redrive::letter;
use crate::world::{World, failed, succeeded};

/// A redrive of somebody on another machine: with a folder of runs of its own.
fn redrive(world: &World, who: &str, more: &[&str]) -> Command {
    let state = world.path(who);
    let all = [
        "--to",
        &world.queues.url,
        "--who",
        who,
        "--state",
        state.to_str().unwrap(),
        "--wait",
        "2s",
    ];
    world.command("redrive", &[&all[..], more].concat())
}

async fn fill(world: &World, letters: usize) {
    for number in 0..letters {
        world.put(letter(&format!("letter-{number}"))).await;
    }
}

/// The tag of the dead-letter queue.
async fn tag(world: &World) -> Option<String> {
    let list = world.queues.client.list_queue_tags();
    let listed = list.queue_url(&world.queues.dead_letters).send().await;
    let tags = listed.unwrap().tags.unwrap_or_default();
    tags.get("backstop-redrive").cloned()
}

async fn set_tag(world: &World, value: &str) {
    let set = world.queues.client.tag_queue();
    let set = set.queue_url(&world.queues.dead_letters);
    set.tags("backstop-redrive", value).send().await.unwrap();
}

async fn moved(queues: &Queues) -> usize {
    let read = queues.client.get_queue_attributes().queue_url(&queues.url);
    let read = read.attribute_names(Q::ApproximateNumberOfMessages).send();
    let attributes = read.await.unwrap().attributes.unwrap();
    attributes[&Q::ApproximateNumberOfMessages].parse().unwrap()
}

#[tokio::test]
async fn a_second_operator_waits_for_the_first_ones_run() {
    let world = World::standard(&ministack().endpoint).await;
    fill(&world, 40).await;
    let ramp = ["--ramp", "10,all", "--watch-for", "60s"];
    let first = redrive(&world, "ana", &ramp).spawn().unwrap();
    eventually("the first step is done", async || {
        moved(&world.queues).await == 10
    })
    .await;
    let held = tag(&world).await.unwrap();
    assert!(held.ends_with(" ana"), "{held}");
    let run = held.split(' ').next().unwrap();

    for more in [&["--dry-run"][..], &[]] {
        let (code, errors) = failed(&redrive(&world, "ben", more).output().await.unwrap());
        assert_eq!(code, 2, "{errors}");
        let expected = format!("the run {run} of ana moves letters of this queue");
        assert!(errors.contains(&expected), "{errors}");
    }
    assert!(!world.path("ben").exists(), "no run of Ben has started");
    assert_eq!(tag(&world).await.unwrap().split(' ').next(), Some(run));

    let id = Pid::from_raw(first.id().unwrap().cast_signed()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let ended = first.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(9), "{}", text(&ended.stderr));
    assert_eq!(tag(&world).await, None);
    succeeded(&redrive(&world, "ben", &[]).output().await.unwrap());
    assert_eq!(moved(&world.queues).await, 40);
    assert_eq!(tag(&world).await, None);
}

#[tokio::test]
async fn of_several_runs_that_start_at_once_one_moves_letters() {
    let world = World::standard(&fauxqs().endpoint).await;
    for round in 0..4 {
        fill(&world, 30).await;
        let world = &world;
        let runs = ["ana", "ben", "cem"].map(|who| async move {
            let who = format!("{who}-{round}");
            redrive(world, &who, &["--ramp", "all", "--watch-for", "3s"])
                .output()
                .await
                .unwrap()
        });
        let ended = join_all(runs).await;
        let codes: Vec<_> = ended.iter().map(|it| it.status.code().unwrap()).collect();
        let moving = codes.iter().filter(|code| **code == 0).count();
        assert_eq!(moving, 1, "{ended:?}");
        for refused in ended.iter().filter(|it| !it.status.success()) {
            let errors = text(&refused.stderr);
            assert!(errors.contains("moves letters of this queue"), "{errors}");
        }
        assert_eq!(tag(world).await, None);
        let taken = world.queues.take_left().await;
        assert_eq!(taken.len(), 30, "each letter once");
    }
}

#[tokio::test]
async fn a_run_that_was_killed_is_named_until_it_is_resumed_or_given_up() {
    let world = World::standard(&ministack().endpoint).await;
    fill(&world, 30).await;
    let ramp = ["--ramp", "10,all", "--watch-for", "60s"];
    let mut first = redrive(&world, "ana", &ramp).spawn().unwrap();
    eventually("the first step is done", async || {
        moved(&world.queues).await == 10
    })
    .await;
    first.kill().await.unwrap();
    let held = tag(&world).await.unwrap();
    let run = held.split(' ').next().unwrap().to_owned();
    let (code, errors) = failed(&redrive(&world, "ben", &[]).output().await.unwrap());
    assert_eq!(code, 2);
    assert!(errors.contains("its lock counts until"), "{errors}");

    // Nothing goes past a lock that counts.
    let despite = redrive(&world, "ben", &["--despite", &run]);
    let (_, errors) = failed(&{ despite }.output().await.unwrap());
    assert!(errors.contains("its lock counts until"), "{errors}");

    // Five minutes later.
    set_tag(&world, &format!("{run} 1700000000000 ana")).await;
    let (code, errors) = failed(&redrive(&world, "ben", &[]).output().await.unwrap());
    assert_eq!(code, 2);
    let expected = format!("the run {run} of ana has not ended well");
    assert!(errors.contains(&expected), "{errors}");
    assert!(errors.contains(&format!("--despite {run}")), "{errors}");
    let another = redrive(&world, "ben", &["--despite", "another-run"]);
    failed(&{ another }.output().await.unwrap());

    // Ana resumes it where its folder is.
    let state = world.path("ana");
    let resume = [
        "dlq",
        "redrive",
        "--resume",
        &run,
        "--state",
        state.to_str().unwrap(),
    ];
    let mut resume = world.plain(&resume);
    let mut resumed = resume.spawn().unwrap();
    eventually("the lock is renewed", async || {
        let held = tag(&world).await.unwrap_or_default();
        held.starts_with(&run) && !held.contains("1700000000000")
    })
    .await;
    resumed.kill().await.unwrap();

    set_tag(&world, &format!("{run} 1700000000000 ana")).await;
    let despite = redrive(&world, "ben", &["--despite", &run]);
    succeeded(&{ despite }.output().await.unwrap());
    assert_eq!(tag(&world).await, None);
}

#[tokio::test]
async fn without_permission_for_tags_a_run_says_so_and_moves_its_letters() {
    let emulator = ministack();
    let proxy = Proxy::start(&emulator.endpoint, |operation, _| match operation {
        "ListQueueTags" | "TagQueue" => Fault::Denied,
        _ => Fault::None,
    })
    .await;
    let mut world = World::standard(&emulator.endpoint).await;
    fill(&world, 5).await;
    world.queues = world.queues.behind(&proxy.endpoint);
    let output = redrive(&world, "ana", &[]).output().await.unwrap();
    succeeded(&output);
    let errors = text(&output.stderr);
    assert!(errors.contains("the queue can't be locked"), "{errors}");
    assert!(errors.contains("AccessDeniedException"), "{errors}");
}

#[tokio::test]
async fn a_run_whose_tag_was_slow_gives_others_the_time_to_notice() {
    let emulator = ministack();
    let is_first = AtomicBool::new(true);
    let proxy = Proxy::start(&emulator.endpoint, move |operation, _| {
        let is_slow = operation == "TagQueue" && is_first.swap(false, Relaxed);
        if is_slow { Fault::Slow } else { Fault::None }
    })
    .await;
    let mut world = World::standard(&emulator.endpoint).await;
    fill(&world, 5).await;
    world.queues = world.queues.behind(&proxy.endpoint);
    let started = clock::instant();
    let mut run = redrive(&world, "ana", &[]).spawn().unwrap();
    eventually("the slow tag is set", async || tag(&world).await.is_some()).await;
    eventually("and removed", async || tag(&world).await.is_none()).await;
    assert_eq!(moved(&world.queues).await, 0);
    assert!(run.wait().await.unwrap().success());
    assert!(started.elapsed() > Duration::from_secs(30));
    assert_eq!(moved(&world.queues).await, 5);
    assert_eq!(tag(&world).await, None);
}
