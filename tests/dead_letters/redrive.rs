//! `backstop dlq redrive` and `runs`: what is moved, where to, and what stays.

use std::collections::BTreeMap;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::text;
use backstop_tests::emulator::{fauxqs, ministack};
use backstop_tests::eventually;
use serde_json::{Value, json};

use crate::world::{Given, World, binary, failed, number, of_backstop, string, succeeded};

/// `backstop dlq redrive` of the dead-letter queue, with a folder for its runs. Its exit code and its JSON.
pub(crate) async fn redrive(world: &World, arguments: &[&str]) -> (i32, Value) {
    let output = command(world, arguments).output().await.unwrap();
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    let result = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}\n{errors}"));
    (output.status.code().unwrap(), result)
}

pub(crate) fn command(world: &World, arguments: &[&str]) -> tokio::process::Command {
    let state = world.path("runs");
    let more = ["--json", "--state", state.to_str().unwrap()];
    // The numbers of the emulators are never late.
    let wait: &[&str] = if ["--wait", "--native"]
        .iter()
        .any(|it| arguments.contains(it))
    {
        &[]
    } else {
        &["--wait", "2s"]
    };
    world.command("redrive", &[&more[..], wait, arguments].concat())
}

/// `backstop dlq runs` with these arguments: its objects.
pub(crate) async fn runs(world: &World, arguments: &[&str]) -> Vec<Value> {
    let state = world.path("runs");
    let all = ["dlq", "runs", "--json", "--state", state.to_str().unwrap()];
    let output = world.plain(&[&all[..], arguments].concat()).output().await;
    let shown = succeeded(&output.unwrap());
    let lines = shown.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn letter(body: &str) -> Given<'_> {
    of_backstop(body, "after 8 attempts", "transient", "HTTP 503: busy")
}

#[tokio::test]
async fn the_letters_that_are_chosen_go_back_and_the_others_stay() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..25 {
        world.put(letter(&format!("busy-{number}"))).await;
    }
    for number in 0..5 {
        let body = format!("wrong-{number}");
        let wrong = of_backstop(&body, "permanent", "permanent", "HTTP 404: no order");
        world.put(wrong).await;
    }
    // These letters do not say where they come from.
    let output = command(&world, &["--code", "HTTP 503"]).output().await;
    let (code, errors) = failed(&output.unwrap());
    assert_eq!(code, 2);
    assert!(
        errors.contains("25 letters do not say where they come from"),
        "{errors}"
    );
    let to = ["--code", "HTTP 503", "--to", &world.queues.url];
    let dry = world
        .json("redrive", &[&to[..], &["--dry-run"]].concat())
        .await;
    assert_eq!(
        (dry["letters"].as_u64(), dry["seen"].as_u64()),
        (Some(25), Some(30))
    );
    assert_eq!(dry["targets"], json!({&world.queues.url: 25}));
    let why = ["--why", "the provider is back", "--who", "ann"];
    let (code, result) = redrive(&world, &[&to[..], &why].concat()).await;
    assert_eq!((code, &result["outcome"]), (0, &json!("done")));
    assert_eq!(
        (result["letters"].as_u64(), result["moved"].as_u64()),
        (Some(25), Some(25))
    );
    let moved = world.queues.take_left().await;
    assert_eq!(moved.len(), 25);
    let names: Vec<_> = {
        let attributes = moved["busy-7"].message_attributes.as_ref().unwrap();
        let mut names: Vec<_> = attributes.keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names, ["BackstopFirstSent", "BackstopMessageId"]);
    // Visible again at once.
    let left = world.queues.take_dead().await;
    assert_eq!(left.len(), 5);
    assert!(left.keys().all(|body| body.starts_with("wrong")));

    let all = runs(&world, &[]).await;
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[0]["run"], &all[0]["outcome"]),
        (&result["run"], &json!("done"))
    );
    assert_eq!(all[0]["why"], "the provider is back");
    assert_eq!(all[0]["who"], "ann");
    assert_eq!(all[1]["outcome"], "failed");
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run]).await.remove(0);
    assert_eq!(detail["plan"]["filters"], json!(["--code=HTTP 503"]));
    // `why` shows the same of a run of this user.
    let state = world.path("state");
    std::fs::create_dir_all(state.join("backstop")).unwrap();
    std::os::unix::fs::symlink(world.path("runs"), state.join("backstop/redrives")).unwrap();
    let shown_by_why = async |more: &[&str]| {
        let mut command = world.plain(&[&["why", run], more].concat());
        let output = command
            .env("XDG_STATE_HOME", &state)
            .output()
            .await
            .unwrap();
        text(&output.stdout)
    };
    let by_why: Value = serde_json::from_str(&shown_by_why(&["--json"]).await).unwrap();
    assert_eq!(by_why, detail);
    let shown = shown_by_why(&[]).await;
    assert!(shown.starts_with(&format!("run {run}: done\n")), "{shown}");
    assert!(shown.contains("why: the provider is back"), "{shown}");
    // Nothing is left to do.
    let (code, again) = resume(&world, run).await;
    assert_eq!((code, again["moved"].as_u64()), (0, Some(25)));
    assert_eq!(world.queues.held().await, 0);
}

pub(crate) async fn resume(world: &World, run: &str) -> (i32, Value) {
    let state = world.path("runs");
    let arguments = [
        "dlq",
        "redrive",
        "--resume",
        run,
        "--json",
        "--state",
        state.to_str().unwrap(),
    ];
    let output = world.plain(&arguments).output().await.unwrap();
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    let result = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}\n{errors}"));
    (output.status.code().unwrap(), result)
}

#[tokio::test]
async fn a_letter_of_any_size_and_content_arrives_as_it_was() {
    let world = World::standard(&ministack().endpoint).await;
    let large = "x".repeat((1 << 20) - 200);
    world
        .put(Given {
            body: &large,
            ..Given::default()
        })
        .await;
    world
        .put(Given {
            body: &format!("{large}-2"),
            ..Given::default()
        })
        .await;
    let ten: Vec<_> = (0..9)
        .map(|at| (format!("a{at}"), number(at)))
        .chain([("zip".to_owned(), binary(&[0, 159, 146, 150]))])
        .collect();
    world
        .put(Given {
            body: "ten\t{not JSON\u{fffd}",
            attributes: ten,
            group: None,
        })
        .await;
    let (code, result) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(3)));
    let moved = world.queues.take_left().await;
    assert!(moved.contains_key(&large) && moved.contains_key(&format!("{large}-2")));
    let ten = moved["ten\t{not JSON\u{fffd}"]
        .message_attributes
        .as_ref()
        .unwrap();
    assert_eq!(ten.len(), 10);
    assert_eq!(ten["zip"].data_type(), "Binary.gzip");
    assert_eq!(
        ten["zip"].binary_value().unwrap().as_ref(),
        [0, 159, 146, 150]
    );
}

#[tokio::test]
async fn letters_go_to_the_queue_where_they_come_from() {
    let endpoint = &ministack().endpoint;
    let world = World::standard(endpoint).await;
    let other = Queues::standard(endpoint, &[]).await;
    // What SQS has moved says so itself.
    world.queues.redrive_after(1).await;
    world.queues.send(["moved by SQS".to_owned()]).await;
    for _ in 0..2 {
        let receive = world.queues.client.receive_message();
        let receive = receive.queue_url(&world.queues.url).visibility_timeout(0);
        receive.send().await.unwrap();
    }
    eventually("SQS moves it", || async { world.queues.dead().await == 1 }).await;
    let mut of_other = letter("of another queue");
    let arn = other.arn().await;
    of_other
        .attributes
        .push(("BackstopSource".to_owned(), string(&arn)));
    world.put(of_other).await;
    // Its source is the queue of the configuration.
    world.put(letter("of nobody")).await;
    let config = format!(
        "endpoint-url = \"{endpoint}\"\n[queues.orders]\nurl = \"{}\"\ndead-letter-queue = \"{}\"\nhandler = {{ exec = \"true\" }}\n",
        world.queues.url, world.queues.dead_letters
    );
    std::fs::write(world.path("backstop.toml"), config).unwrap();
    let state = world.path("runs");
    let arguments = [
        "dlq",
        "redrive",
        "orders",
        "--state",
        state.to_str().unwrap(),
    ];
    let shown = succeeded(&world.plain(&arguments).output().await.unwrap());
    assert!(shown.contains("3  moved"), "{shown}");
    let bodies: Vec<_> = world.queues.take_left().await.into_keys().collect();
    assert_eq!(bodies, ["moved by SQS", "of nobody"]);
    let bodies: Vec<_> = other.take_left().await.into_keys().collect();
    assert_eq!(bodies, ["of another queue"]);
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn the_order_in_a_group_is_kept() {
    let world = World::fifo(&ministack().endpoint).await;
    for number in 0..30 {
        let group = format!("g{}", number % 3);
        let body = format!("{number:02}");
        let mut given = letter(&body);
        given.group = Some(&group);
        world.put(given).await;
    }
    let (code, result) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(30)), "{result}");
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    while let Some(messages) = receive(&world.queues).await {
        for message in messages {
            let group = message.attributes.as_ref().unwrap()
                [&aws_sdk_sqs::types::MessageSystemAttributeName::MessageGroupId]
                .clone();
            groups
                .entry(group)
                .or_default()
                .push(message.body.clone().unwrap());
            let delete = world
                .queues
                .client
                .delete_message()
                .queue_url(&world.queues.url);
            delete
                .receipt_handle(message.receipt_handle.unwrap())
                .send()
                .await
                .unwrap();
        }
    }
    assert_eq!(groups.values().map(Vec::len).sum::<usize>(), 30);
    for (group, bodies) in groups {
        assert!(bodies.is_sorted(), "{group}: {bodies:?}");
    }
}

pub(crate) async fn receive(queues: &Queues) -> Option<Vec<aws_sdk_sqs::types::Message>> {
    let receive = queues.client.receive_message().queue_url(&queues.url);
    let receive = receive.max_number_of_messages(10);
    let all = aws_sdk_sqs::types::MessageSystemAttributeName::All;
    let received = receive
        .message_system_attribute_names(all)
        .send()
        .await
        .unwrap();
    received.messages.filter(|messages| !messages.is_empty())
}

#[tokio::test]
async fn what_the_target_refuses_stays_with_the_reason_and_so_does_what_is_behind_it() {
    let world = World::standard(&ministack().endpoint).await;
    let limit = |queues: &Queues| {
        let set = queues.client.set_queue_attributes().queue_url(&queues.url);
        set.attributes(Q::MaximumMessageSize, "1024").send()
    };
    limit(&world.queues).await.unwrap();
    let large = format!("large-{}", "x".repeat(2_000));
    let id = world.put(letter(&large)).await;
    world.put(letter("small")).await;
    let (code, result) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!(code, 9);
    assert_eq!(
        (result["moved"].as_u64(), result["refused"].as_u64()),
        (Some(1), Some(1))
    );
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run]).await.remove(0);
    assert_eq!(detail["refusals"][0]["id"], json!(id));
    let why = detail["refusals"][0]["reason"].as_str().unwrap();
    assert!(why.contains("accepts only 1024"), "{why}");
    // The reason is gone, and the run goes on.
    let set = world
        .queues
        .client
        .set_queue_attributes()
        .queue_url(&world.queues.url);
    set.attributes(Q::MaximumMessageSize, "1048576")
        .send()
        .await
        .unwrap();
    let (code, result) = resume(&world, run).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(2)), "{result}");

    let world = World::fifo(&ministack().endpoint).await;
    limit(&world.queues).await.unwrap();
    for (body, group) in [("a1", "a"), (large.as_str(), "a"), ("a3", "a"), ("b1", "b")] {
        let mut given = letter(body);
        given.group = Some(group);
        world.put(given).await;
    }
    let (code, result) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!((code, result["moved"].as_u64()), (9, Some(2)), "{result}");
    let mut moved = Vec::new();
    while let Some(messages) = receive(&world.queues).await {
        moved.extend(messages.into_iter().map(|it| it.body.unwrap()));
    }
    moved.sort();
    assert_eq!(moved, ["a1", "b1"]);
}

#[tokio::test]
async fn letters_that_others_take_are_missing_and_later_ones_are_left_alone() {
    let world = World::standard(&fauxqs().endpoint).await;
    for number in 0..30 {
        world.put(letter(&format!("{number:02}"))).await;
    }
    // A step of 10, then time for others.
    let arguments = [
        "--to",
        &world.queues.url,
        "--ramp",
        "10,all",
        "--watch-for",
        "3s",
    ];
    let running = command(&world, &arguments).spawn().unwrap();
    eventually("the first step is done", || async {
        world.queues.held().await == 10
    })
    .await;
    for number in 0..3 {
        world.put(letter(&format!("later-{number}"))).await;
    }
    let mut taken = 0;
    while taken < 5 {
        let receive = world
            .queues
            .client
            .receive_message()
            .queue_url(&world.queues.dead_letters);
        let received = receive
            .max_number_of_messages(1)
            .visibility_timeout(0)
            .send()
            .await
            .unwrap();
        for message in received.messages.unwrap_or_default() {
            if message.body().unwrap().starts_with("later") {
                continue;
            }
            let delete = world
                .queues
                .client
                .delete_message()
                .queue_url(&world.queues.dead_letters);
            delete
                .receipt_handle(message.receipt_handle().unwrap())
                .send()
                .await
                .unwrap();
            taken += 1;
        }
    }
    let output = running.wait_with_output().await.unwrap();
    let result: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    assert_eq!(
        (result["moved"].as_u64(), result["missing"].as_u64()),
        (Some(25), Some(5)),
        "{result}"
    );
    assert_eq!(result["later"].as_u64(), Some(3));
    let left: Vec<_> = world.queues.take_dead().await.into_keys().collect();
    assert_eq!(left, ["later-0", "later-1", "later-2"]);
}
