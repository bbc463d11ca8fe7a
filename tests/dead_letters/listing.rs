//! `backstop dlq list` and `show`: letters of every origin, of any size and content, on queues that others read too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop_tests::backstop::{on_terminal, serve, text};
use backstop_tests::emulator::{MOTO, fauxqs, ministack, moto};
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::{Worker, numbered};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::world::{Given, World, failed, groups, of_backstop};

async fn all_are_listed_and_stay(endpoint: &str) {
    let world = World::standard(endpoint).await;
    for number in 0..60 {
        let (reason, error) = match number % 3 {
            0 => (
                "permanent: HTTP 404",
                format!("HTTP 404: no order {number}"),
            ),
            _ => ("after 8 attempts", format!("HTTP 503: busy for {number} s")),
        };
        let body = format!(r#"{{"order": {{"customer": "c-{}"}}}}"#, number % 2);
        let class = if number % 3 == 0 {
            "permanent"
        } else {
            "transient"
        };
        world.put(of_backstop(&body, reason, class, &error)).await;
    }
    let listing = world.json("list", &[]).await;
    let expected = [
        (
            json!({"reason": "after 8 attempts", "code": "HTTP 503"}),
            40,
        ),
        (
            json!({"reason": "permanent: HTTP 404", "code": "HTTP 404"}),
            20,
        ),
    ];
    assert_eq!(groups(&listing), expected);
    assert_eq!(listing["queues"][0]["seen"], 60);
    assert_eq!(listing["queues"][0]["ended"], "empty");

    // Released at once: the next listing sees them all.
    let by = ["--by", "fingerprint", "--by", "/order/customer"];
    let listing = world.json("list", &by).await;
    let found = groups(&listing);
    assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 60);
    assert_eq!(found.len(), 4, "{found:?}");
    let fingerprint = found[0].0["fingerprint"].as_str().unwrap();
    assert!(fingerprint.ends_with("HTTP 503: busy for # s"), "{found:?}");

    let digits = &fingerprint[..8];
    let flags = ["--fingerprint", digits, "--where", "/order/customer=c-1"];
    let save = ["--letters", "--save", "ids.jsonl"];
    let lines = world.run("list", &[&flags[..], &save].concat()).await;
    assert_eq!(lines.lines().count(), 20, "{lines}");
    let listing = world
        .json("list", &["--ids", "ids.jsonl", "--by", "class"])
        .await;
    assert_eq!(groups(&listing), [(json!({"class": "transient"}), 20)]);
    assert_eq!(world.queues.dead().await, 60);
}

/// On a terminal of 80 columns, a group is a line of at most 80 characters, and no id is cut.
#[tokio::test]
async fn a_group_is_one_line_after_the_total() {
    let world = World::standard(&ministack().endpoint).await;
    let long = format!("permanent: {}", "no such order ".repeat(10));
    for (number, reason) in ["after 8 attempts", "after 8 attempts", &long]
        .iter()
        .enumerate()
    {
        // Its id is as long as one of SQS.
        let body = format!("order-{number}-with-an-id-that-is-long");
        world
            .put(of_backstop(&body, reason, "transient", "HTTP 503: busy"))
            .await;
    }
    let shown = on_terminal(&world.command("list", &[]), 80).await;
    let lines: Vec<_> = shown
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap())
        .collect();
    assert!(
        lines[0].ends_with("3 letters seen of about 3 in"),
        "{shown}"
    );
    assert_eq!(lines[1].trim(), world.queues.dead_letters);
    let groups: Vec<_> = lines.iter().skip(3).take(3).collect();
    assert!(groups[0].starts_with("letters  died"), "{shown}");
    assert!(
        groups[1].trim_start().starts_with("2  ") && groups[1].contains("  after 8 attempts  "),
        "{shown}"
    );
    assert!(
        groups[2].trim_start().starts_with("1  ") && groups[2].contains("no such o"),
        "{shown}"
    );
    assert!(
        groups[2].contains('…') && groups[2].ends_with("HTTP 503"),
        "{shown}"
    );
    assert!(
        groups.iter().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    assert!(shown.contains("`--letters` shows the ids"), "{shown}");
    let letters = on_terminal(&world.command("list", &["--letters"]), 80).await;
    let lines: Vec<_> = letters.lines().take(3).collect();
    let has_id = |line: &&str| line.contains("with-an-id-that-is-long  ");
    assert!(lines.iter().all(has_id), "{letters}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{letters}"
    );

    let piped = world.run("list", &[]).await;
    assert!(
        piped.starts_with("3 letters seen of about 3 in http"),
        "{piped}"
    );
    assert!(
        piped.contains(long.trim_end()) && !piped.contains('…'),
        "{piped}"
    );
    let listing = world.json("list", &[]).await;
    for group in listing["queues"][0]["groups"].as_array().unwrap() {
        assert!(
            piped.contains(group["samples"][0].as_str().unwrap()),
            "{piped}"
        );
    }
}

#[tokio::test]
async fn letters_are_grouped_filtered_and_left_on_ministack() {
    all_are_listed_and_stay(&ministack().endpoint).await;
}

#[tokio::test]
async fn letters_are_grouped_filtered_and_left_on_moto() {
    let _one_client = MOTO.lock().await;
    all_are_listed_and_stay(&moto().endpoint).await;
}

#[tokio::test]
async fn letters_are_grouped_filtered_and_left_on_fauxqs() {
    all_are_listed_and_stay(&fauxqs().endpoint).await;
}

#[tokio::test]
async fn a_queue_that_would_move_letters_when_they_are_read_is_refused() {
    let world = World::standard(&ministack().endpoint).await;
    world.queues.send(["an order".to_owned()]).await;
    world.queues.redrive_after(3).await;
    let arguments = [
        "dlq",
        "list",
        &world.queues.url,
        "--endpoint-url",
        &world.queues.endpoint,
    ];
    let output = world.plain(&arguments).output().await.unwrap();
    let (code, said) = failed(&output);
    assert_eq!(code, 5);
    assert!(said.contains("has a redrive policy of its own"), "{said}");
    assert!(said.contains("-dead after 3 receives"), "{said}");
    // It was not received at all.
    let received = world.queues.take_left().await;
    let count = &received["an order"].attributes.as_ref().unwrap();
    let count = count
        .iter()
        .find(|(name, _)| name.as_str() == "ApproximateReceiveCount");
    assert_eq!(count.map(|(_, count)| count.as_str()), Some("1"));
}

/// What a command printed that was interrupted in its second receive of 30 letters, and how many are visible afterwards.
async fn interrupted(command: &str, flags: &[&str]) -> (String, usize) {
    let mut world = World::standard(&ministack().endpoint).await;
    for number in 0..30 {
        world
            .put(Given {
                body: &number.to_string(),
                ..Given::default()
            })
            .await;
    }
    let direct = world.queues.clone();
    let receives = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&receives);
    let proxy = Proxy::start(&direct.endpoint, move |operation, _| match operation {
        // All but the first receive take a second longer.
        "ReceiveMessage" if counted.fetch_add(1, Ordering::Relaxed) > 0 => Fault::Slow,
        _ => Fault::None,
    })
    .await;
    world.queues = direct.behind(&proxy.endpoint);
    let child = world.command(command, flags).spawn().unwrap();
    eventually("the second receive is under way", || async {
        receives.load(Ordering::Relaxed) > 1
    })
    .await;
    let id = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130));
    world.queues = direct;
    (text(&output.stdout), world.visible().await)
}

#[tokio::test]
async fn a_command_that_is_interrupted_says_so_and_makes_its_letters_visible() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (ids, archive) = (file("ids.jsonl"), file("archive.jsonl"));
    let list = ["--limit", "25", "--save", &ids];
    let triage = ["--policy", "linear"];
    let archived = ["--all", "--to", &archive];
    let ((listed, left), (_, judged), (_, kept)) = tokio::join!(
        interrupted("list", &list),
        interrupted("triage", &triage),
        interrupted("archive", &archived),
    );
    let summary = listed.lines().next().unwrap();
    assert!(summary.contains("letters seen of about 30 in "), "{listed}");
    assert!(
        summary.ends_with("; there may be more: it was stopped"),
        "{listed}"
    );
    let in_archive = std::fs::read_to_string(&archive).unwrap().lines().count();
    assert_eq!((left, judged), (30, 30));
    assert_eq!(kept + in_archive, 30, "each letter is in one place");
}

#[tokio::test]
async fn letters_that_others_hold_are_counted_and_stay_theirs() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..20 {
        world
            .put(Given {
                body: &number.to_string(),
                ..Given::default()
            })
            .await;
    }
    let client = &world.queues.client;
    let theirs = client
        .receive_message()
        .queue_url(&world.queues.dead_letters)
        .max_number_of_messages(5)
        .visibility_timeout(600)
        .send()
        .await
        .unwrap();
    let theirs = theirs.messages.unwrap();
    let listing = world.json("list", &["--by", "origin"]).await;
    let queue = &listing["queues"][0];
    assert_eq!(queue["seen"], 20 - theirs.len());
    assert_eq!(queue["held-by-others"], theirs.len());
    // A consumer that works meanwhile loses nothing: what it deletes is gone, the rest is there.
    for message in &theirs {
        client
            .delete_message()
            .queue_url(&world.queues.dead_letters)
            .receipt_handle(message.receipt_handle().unwrap())
            .send()
            .await
            .unwrap();
    }
    assert_eq!(world.visible().await, 20 - theirs.len());
}

#[tokio::test]
async fn a_group_is_blocked_for_no_longer_than_the_listing_and_keeps_its_order() {
    let world = World::fifo(&ministack().endpoint).await;
    for number in 0..12 {
        let body = format!("{}-{}", number % 3, number / 3);
        let group = (number % 3).to_string();
        world
            .put(Given {
                body: &body,
                attributes: Vec::new(),
                group: Some(&group),
            })
            .await;
    }
    let listing = world.json("list", &["--by", "origin"]).await;
    assert_eq!(listing["queues"][0]["seen"], 10, "{listing}");
    let shown = world.run("list", &[]).await;
    assert!(
        shown.starts_with("10 letters seen of about 12 in "),
        "{shown}"
    );
    let behind =
        "; SQS shows the others when those before them in their groups have left the queue\n";
    assert!(shown.contains(behind), "{shown}");
    let mut received = Vec::new();
    loop {
        let client = &world.queues.client;
        let receive = client
            .receive_message()
            .queue_url(&world.queues.dead_letters);
        let answer = receive.max_number_of_messages(10).send().await.unwrap();
        let messages = answer.messages.unwrap_or_default();
        if messages.is_empty() {
            break;
        }
        for message in messages {
            received.push(message.body.unwrap());
            let delete = client
                .delete_message()
                .queue_url(&world.queues.dead_letters);
            delete
                .receipt_handle(message.receipt_handle.unwrap())
                .send()
                .await
                .unwrap();
        }
    }
    for group in ["0", "1", "2"] {
        let of_group: Vec<_> = received.iter().filter(|it| it.starts_with(group)).collect();
        let expected: Vec<_> = (0..4).map(|number| format!("{group}-{number}")).collect();
        assert_eq!(of_group, expected.iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_consumer_that_works_while_others_list_handles_every_letter() {
    let world = World::standard(&ministack().endpoint).await;
    let bodies = numbered("fine", 300);
    for chunk in bodies.chunks(50) {
        let puts = chunk.iter().map(|body| {
            world.put(Given {
                body,
                ..Given::default()
            })
        });
        futures_util::future::join_all(puts).await;
    }
    // The dead-letter queue is the queue of a consumer.
    let mut queues = world.queues.clone();
    std::mem::swap(&mut queues.url, &mut queues.dead_letters);
    let worker = Worker::answering(|_| 200).await;
    // The first listing may begin before the consumer is ready.
    let (consumer, first) = tokio::join!(serve(&queues, &worker, &[]), world.json("list", &[]));
    let mut seen = vec![first["queues"][0]["seen"].as_u64().unwrap()];
    while world.queues.dead().await > 0 {
        let listing = world.json("list", &[]).await;
        seen.push(listing["queues"][0]["seen"].as_u64().unwrap());
    }
    consumer.stop().await;
    let mut handled: Vec<_> = worker.attempts().into_iter().map(|it| it.body).collect();
    handled.sort();
    handled.dedup();
    assert_eq!(handled.len(), 300);
    // One that began with the consumer, and others while it worked.
    assert!(seen.len() > 1 && seen[0] > 0, "{seen:?}");
}
