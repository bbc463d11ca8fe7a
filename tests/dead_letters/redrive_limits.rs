//! `backstop dlq redrive`: how a run is limited, stopped, edited and refused.

use std::time::{Duration, Instant};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::text;
use backstop_tests::emulator::{fauxqs, ministack};
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::redrive::{command, letter, redrive, resume, runs};
use crate::world::{Given, World, failed, of_backstop, string};

#[tokio::test]
async fn a_run_moves_no_more_than_its_steps() {
    let world = World::standard(&fauxqs().endpoint).await;
    for number in 0..12 {
        world.put(letter(&format!("{number:02}"))).await;
    }
    let arguments = [
        "--to",
        &world.queues.url,
        "--ramp",
        "2,3",
        "--watch-for",
        "0s",
    ];
    let (code, result) = redrive(&world, &arguments).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(5)), "{result}");
    assert_eq!(
        (result["letters"].as_u64(), &result["missing"]),
        (Some(12), &json!(null))
    );
    // Of more letters than it may read, it says so.
    let (code, result) = redrive(&world, &["--to", &world.queues.url, "--limit", "3"]).await;
    assert_eq!((code, &result["partial"]), (0, &json!(true)), "{result}");
    assert!(
        (3..7).contains(&result["moved"].as_u64().unwrap()),
        "{result}"
    );
}

#[tokio::test]
async fn a_rate_is_kept_and_ctrl_c_loses_nothing() {
    let world = World::standard(&fauxqs().endpoint).await;
    for number in 0..40 {
        world.put(letter(&format!("{number:02}"))).await;
    }
    let started: Instant = clock::instant();
    let arguments = ["--to", &world.queues.url, "--rate", "10/s"];
    let running = command(&world, &arguments).spawn().unwrap();
    eventually("a part is moved", || async {
        world.queues.held().await >= 15
    })
    .await;
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(1_200), "{elapsed:?}");
    let id = i32::try_from(running.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    let output = running.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(9));
    let result: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(result["outcome"], "interrupted");
    let moved = result["moved"].as_u64().unwrap();
    assert!((15..40).contains(&moved), "{result}");
    // Visible again at once.
    assert_eq!(
        world.json("list", &[]).await["queues"][0]["seen"],
        40 - moved
    );
    let (code, result) = resume(&world, result["run"].as_str().unwrap()).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(40)));
    assert_eq!(result["uncertain"].as_u64(), Some(0));
    assert_eq!(world.queues.take_left().await.len(), 40);
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn bodies_are_edited_one_letter_at_a_time() {
    let world = World::standard(&ministack().endpoint).await;
    for (body, class) in [
        (r#"{"amount": -5}"#, "permanent"),
        (r#"{"amount": -7}"#, "permanent"),
        ("leave me", "transient"),
        (r#"{"amount": "break me"}"#, "permanent"),
        ("skip me", "permanent"),
    ] {
        world
            .put(of_backstop(body, "invalid", class, "Invalid: amount"))
            .await;
    }
    let script = world.path("editor.sh");
    std::fs::write(
        &script,
        "#!/bin/sh\ngrep -q skip \"$1\" && exit 1\ngrep -q break \"$1\" && echo '{' > \"$1\"\nsed -i 's/-//' \"$1\"\n",
    )
    .unwrap();
    let editor = format!("sh {}", script.display());
    let arguments = ["--to", &world.queues.url, "--class", "permanent", "--edit"];
    let output = command(&world, &arguments)
        .env("EDITOR", editor)
        .env_remove("VISUAL")
        .output();
    let output = output.await.unwrap();
    let result: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    assert_eq!(
        (result["moved"].as_u64(), result["edited"].as_u64()),
        (Some(2), Some(2)),
        "{result}"
    );
    let bodies: Vec<_> = world.queues.take_left().await.into_keys().collect();
    assert_eq!(bodies, [r#"{"amount": 5}"#, r#"{"amount": 7}"#]);
    let left = world.queues.take_dead().await;
    assert_eq!(left.len(), 3);
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run]).await.remove(0);
    let whys = detail["refusals"].to_string();
    assert!(
        whys.contains("it was JSON, and is none now") && whys.contains("the editor ended"),
        "{whys}"
    );
}

#[tokio::test]
async fn what_can_t_be_done_is_refused_before_anything_is_moved() {
    let world = World::standard(&ministack().endpoint).await;
    world.put(letter("one")).await;
    let url = &world.queues.url;
    let dead = &world.queues.dead_letters;
    let nowhere = format!("{}/000000000000/nowhere", world.queues.endpoint);
    for (arguments, code, part) in [
        (vec!["--to", dead], 2, "is the dead-letter queue itself"),
        (vec!["--to", &nowhere], 5, "can't use the target"),
        (vec!["--to", "orders"], 2, "neither a queue nor a function"),
        (vec!["--to", url, "--ramp", "all,10"], 2, "has no steps"),
        (
            vec!["--to", url, "--stop-at", "5%"],
            2,
            "--stop-at needs --ramp",
        ),
        (
            vec!["--to", url, "--native", "--code", "x"],
            2,
            "SQS can't choose",
        ),
        (vec!["--resume", "no-such-run"], 2, "cannot be used with"),
    ] {
        let output = command(&world, &arguments).output().await.unwrap();
        let (actual, errors) = failed(&output);
        assert!(errors.contains(part), "{part:?} is not in:\n{errors}");
        assert_eq!(actual, code, "{errors}");
        // The dry run is refused for the same reason.
        if !arguments.contains(&"--native") {
            let dry = [&arguments[..], &["--dry-run"]].concat();
            let output = command(&world, &dry).output().await.unwrap();
            let (actual, errors) = failed(&output);
            assert!(errors.contains(part), "{part:?} is not in:\n{errors}");
            assert_eq!(actual, code, "{errors}");
        }
    }
    let state = world.path("runs");
    let resume = [
        "dlq",
        "redrive",
        "--resume",
        "20200101-000000-0000",
        "--state",
        state.to_str().unwrap(),
    ];
    let (code, errors) = failed(&world.plain(&resume).output().await.unwrap());
    assert!(
        code == 2 && errors.contains("there is no run") && errors.contains("dlq runs"),
        "{errors}"
    );
    assert_eq!(world.queues.dead().await, 1);
}

#[tokio::test]
async fn the_numbers_of_a_dry_run_are_those_of_the_run() {
    let world = World::standard(&ministack().endpoint).await;
    let target = world.queues.client.set_queue_attributes();
    let target = target.queue_url(&world.queues.url);
    let target = target.attributes(Q::MaximumMessageSize, "1024");
    target.send().await.unwrap();
    let arn = world.queues.arn().await;
    let nowhere = arn.replace("orders", "nowhere") + "-nowhere";
    for number in 0..16 {
        let body = match number % 4 {
            0 => format!("\"{number}{}\"", "x".repeat(1_024)),
            _ => number.to_string(),
        };
        let source = if number % 4 == 1 { &nowhere } else { &arn };
        let mut given = letter(&body);
        given
            .attributes
            .push(("BackstopSource".to_owned(), string(source)));
        world.put(given).await;
    }
    let (code, dry) = redrive(&world, &["--dry-run"]).await;
    assert_eq!(code, 9, "{dry}");
    let targets = json!({ &arn: 8 });
    assert_eq!((&dry["would-move"], &dry["targets"]), (&json!(8), &targets));
    assert_eq!((&dry["letters"], &dry["refused"]), (&json!(16), &json!(8)));
    let whys = dry["refusals"].to_string();
    assert!(
        whys.contains("accepts only 1024") && whys.contains("can't use the target"),
        "{whys}"
    );
    assert_eq!(runs(&world, &[]).await.len(), 0);
    let (code, result) = redrive(&world, &[]).await;
    let counts = ["letters", "moved", "refused"].map(|it| result[it].as_u64());
    assert_eq!((code, counts), (9, [Some(16), Some(8), Some(8)]));
    // A function that does not exist takes none.
    let gone = ["--to", "lambda:no-such-function", "--text", "x"];
    for more in [&["--dry-run"][..], &[]] {
        let output = command(&world, &[&gone[..], more].concat()).output();
        let (code, errors) = failed(&output.await.unwrap());
        assert_eq!(code, 5, "{more:?} {errors}");
        assert!(
            errors.contains("no-such-function accepts no letters"),
            "{errors}"
        );
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_moves_no_other_letters_of_a_fifo_queue() {
    for shift in [600, -600] {
        let queues = Queues::fifo(&ministack().endpoint, &[]).await;
        let proxy = Proxy::start(&queues.endpoint, move |_, _| Fault::Shifted(shift)).await;
        let world = World {
            queues: queues.behind(&proxy.endpoint),
            folder: tempfile::tempdir().unwrap(),
        };
        let put = async |body: &'static str| {
            let given = Given {
                group: Some(body),
                ..letter(body)
            };
            world.put(given).await;
        };
        for body in ["a", "b", "c"] {
            put(body).await;
        }
        let rehearsed = redrive(&world, &["--to", &world.queues.url, "--dry-run"]).await;
        assert_eq!(rehearsed.1["letters"], 3, "{shift}: {}", rehearsed.1);
        let steps = ["--ramp", "1,all", "--watch-for", "4s", "--wait", "1s"];
        let run = command(&world, &[&["--to", &world.queues.url][..], &steps].concat());
        let run = { run }.spawn().unwrap();
        eventually("the first one is moved", || async {
            queues.held().await == 1
        })
        .await;
        // SQS tells its time in whole seconds.
        tokio::time::sleep(Duration::from_secs(2)).await;
        put("d").await;
        let output = run.wait_with_output().await.unwrap();
        let result: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        let counts = ["moved", "later"].map(|it| result[it].as_u64());
        assert_eq!(counts, [Some(3), Some(1)], "{shift}: {result}");
        assert_eq!(world.queues.dead().await, 1);
    }
}
