//! `backstop dlq archive` and `restore`: nothing is lost, whatever the letters are and whenever a command is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_tests::backstop::command;
use backstop_tests::emulator::{fauxqs, ministack};
use backstop_tests::proxy::{Fault, Proxy};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::restore::killed_after;
use crate::world::{Given, World, binary, failed, number, of_backstop, string};

/// What a letter consists of, without what a new message has anew.
fn content(shown: &Value) -> Value {
    let mut shown = shown.clone();
    let fields = shown.as_object_mut().unwrap();
    for new in ["id", "sent", "receives", "deduplication-id", "bytes"] {
        fields.remove(new);
    }
    // The time of its death is kept, if there is space for it.
    let attributes = fields["attributes"].as_object_mut().unwrap();
    if attributes.len() == 10 {
        fields.remove("dead-since");
    } else {
        attributes.remove("BackstopDied");
    }
    // Without an id of its message, a letter is known by its own.
    if fields["origin"] == "unknown" {
        fields.remove("original-id");
    }
    shown
}

impl World {
    /// Everything about all letters.
    async fn contents(&self) -> Vec<Value> {
        let listed = self.run("list", &["--letters", "--json"]).await;
        let ids: Vec<_> = listed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
            .collect();
        let ids: Vec<_> = ids.iter().map(|id| id.as_str().unwrap()).collect();
        let shown = self.run("show", &[&ids[..], &["--json"]].concat()).await;
        let letters = shown
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let mut contents: Vec<_> = letters.map(|letter| content(&letter)).collect();
        contents.sort_by_key(ToString::to_string);
        contents
    }
}

#[tokio::test]
async fn any_letter_is_the_same_after_archive_and_restore() {
    let world = World::standard(&ministack().endpoint).await;
    let mut ten = of_backstop(
        "{\"no\": JSON \u{9b}\u{202e}",
        "because",
        "permanent",
        "E: \u{9b}",
    );
    ten.attributes
        .push(("bytes".to_owned(), binary(&[0, 27, 255, 10])));
    ten.attributes.push(("mine".to_owned(), string("\u{9b}5m")));
    ten.attributes.push(("count".to_owned(), number(7)));
    assert_eq!(ten.attributes.len(), 10);
    world.put(ten).await;
    let large = "\u{fffd}".repeat((1 << 20) / 3 - 400);
    world
        .put(of_backstop(&large, "too large", "permanent", "TooLarge"))
        .await;
    world
        .put(Given {
            body: "\t\r\n",
            ..Given::default()
        })
        .await;
    // One that SQS has moved.
    world.queues.redrive_after(1).await;
    world.queues.send(["moved".to_owned()]).await;
    for _ in 0..2 {
        let receive = world.queues.client.receive_message();
        let receive = receive.queue_url(&world.queues.url).visibility_timeout(0);
        receive.send().await.unwrap();
    }
    let before = world.contents().await;
    let archived = world.json("archive", &["--to", "all.jsonl", "--all"]).await;
    assert_eq!(archived["queues"][0]["archived"], 4, "{archived}");
    assert_eq!(world.queues.dead().await, 0);
    use std::os::unix::fs::PermissionsExt;
    let mode = world
        .path("all.jsonl")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    // Their deaths are later than the restore otherwise.
    sleep(Duration::from_millis(1_100)).await;
    let restored = world.restore(&["all.jsonl"]).await;
    assert_eq!(restored["restored"], 4, "{restored}");
    let mut after = world.contents().await;
    // SQS knows no more that it has moved it: the attributes say so.
    let moved = after.iter_mut().find(|it| it["origin"] == "sqs").unwrap();
    let attributes = moved["attributes"].as_object_mut().unwrap();
    let arn = attributes.remove("BackstopSource").unwrap();
    assert_eq!(arn["value"], moved["source"]["queue"]);
    let attributes = moved["attributes"].as_object_mut().unwrap();
    assert!(attributes.remove("BackstopFirstSent").is_some());
    assert!(attributes.remove("BackstopMessageId").is_some());
    after.sort_by_key(ToString::to_string);
    assert_eq!(after, before);

    // Once more puts back nothing, unless that is asked for.
    let restored = world.restore(&["all.jsonl"]).await;
    assert_eq!(
        (&restored["restored"], &restored["restored-before"]),
        (&json!(0), &json!(4))
    );
    let restored = world
        .restore(&["all.jsonl", "--again", "--id", "nobody"])
        .await;
    assert_eq!(restored["restored"], 0);
}

#[tokio::test]
async fn only_what_fits_is_archived_and_the_rest_stays() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..40 {
        let class = if number % 4 == 0 {
            "permanent"
        } else {
            "transient"
        };
        let letter = of_backstop("an order", class, class, "HTTP 503: busy");
        world
            .put(Given {
                body: &number.to_string(),
                ..letter
            })
            .await;
    }
    let nothing_chosen = world
        .command("archive", &["--to", "a.jsonl"])
        .output()
        .await
        .unwrap();
    assert_eq!(failed(&nothing_chosen).0, 2);
    let flags = ["--to", "a.jsonl", "--class", "permanent"];
    let counted = world
        .json("archive", &[&flags[..], &["--dry-run"]].concat())
        .await;
    assert_eq!(counted["queues"][0]["archived"], 10);
    assert!(!world.path("a.jsonl").exists());
    let archived = world.json("archive", &flags).await;
    assert_eq!(archived["queues"][0]["archived"], 10, "{archived}");
    let left: BTreeSet<_> = world.queues.take_dead().await.into_keys().collect();
    let expected = (0..40).filter(|number| number % 4 != 0);
    assert_eq!(left, expected.map(|number| number.to_string()).collect());
}

#[tokio::test]
async fn a_group_keeps_its_order_through_archive_and_restore() {
    let world = World::fifo(&ministack().endpoint).await;
    for number in 0..36 {
        let (body, group) = (format!("{number:03}"), (number % 2).to_string());
        world
            .put(Given {
                body: &body,
                attributes: Vec::new(),
                group: Some(&group),
            })
            .await;
    }
    let archived = world
        .json("archive", &["--to", "fifo.jsonl", "--all"])
        .await;
    assert_eq!(archived["queues"][0]["archived"], 36, "{archived}");
    // Within the five minutes in which SQS drops a message with the same deduplication id.
    let restored = world.restore(&["fifo.jsonl"]).await;
    assert_eq!(restored["restored"], 36, "{restored}");
    let archived = world
        .json("archive", &["--to", "again.jsonl", "--all"])
        .await;
    assert_eq!(archived["queues"][0]["archived"], 36, "{archived}");
    let lines = std::fs::read_to_string(world.path("again.jsonl")).unwrap();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let body = line["body"].as_str().unwrap().to_owned();
        groups
            .entry(line["group"].to_string())
            .or_default()
            .push(body);
    }
    assert_eq!(groups.len(), 2);
    for bodies in groups.values() {
        assert!(bodies.is_sorted() && bodies.len() == 18, "{bodies:?}");
    }
}

#[tokio::test]
async fn an_archive_that_is_killed_at_any_moment_loses_nothing() {
    let mut world = World::standard(&fauxqs().endpoint).await;
    let all: BTreeSet<String> = (0..1_500).map(|number| number.to_string()).collect();
    for chunk in all.iter().collect::<Vec<_>>().chunks(50) {
        let puts = chunk.iter().map(|body| {
            world.put(Given {
                body,
                ..Given::default()
            })
        });
        futures_util::future::join_all(puts).await;
    }
    // What is invisible after a kill comes back soon.
    let flags = [
        "--to",
        "killed.jsonl",
        "--all",
        "--visibility-timeout",
        "5s",
    ];
    let direct = world.queues.clone();
    let proxy = Proxy::start(&direct.endpoint, |_, _| Fault::None).await;
    world.queues = direct.behind(&proxy.endpoint);
    let mut killed = 0;
    for requests in [1, 10, 40, 70, 90] {
        let child = world.command("archive", &flags).spawn().unwrap();
        killed += usize::from(killed_after(child, &proxy, requests).await);
    }
    assert!(killed > 0);
    world.queues = direct;
    // What the killed ones have received is visible again. The emulator's counts don't tell when.
    sleep(Duration::from_secs(6)).await;
    world.json("archive", &flags).await;
    assert_eq!(world.queues.dead().await, 0);
    let restored = world.restore(&["killed.jsonl"]).await;
    assert_eq!(restored["restored"], 1_500, "{restored}");
    assert_eq!(world.queues.dead().await, 1_500);
    let back: BTreeSet<_> = world.queues.take_dead().await.into_keys().collect();
    assert_eq!(back, all);
}

#[tokio::test]
async fn letters_that_cannot_be_stored_stay_in_their_queue() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..20 {
        world
            .put(Given {
                body: &format!("{number}-{}", "x".repeat(5_000)),
                ..Given::default()
            })
            .await;
    }
    // A disk that is full after 8 KiB.
    let program = backstop_tests::backstop::program("backstop");
    let line = format!(
        "ulimit -f 8; exec {} dlq archive {} --endpoint-url {} --all --to full.jsonl",
        program.display(),
        world.queues.dead_letters,
        world.queues.endpoint
    );
    let plain = command(&[]);
    let envs: Vec<_> = plain.as_std().get_envs().collect();
    let mut shell = tokio::process::Command::new("sh");
    for (name, value) in envs {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let output = shell
        .args(["-c", &line])
        .current_dir(world.folder.path())
        .output()
        .await;
    let (code, said) = failed(&output.unwrap());
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("they stay in their queue"), "{said}");
    assert_eq!(world.visible().await, 20);
    for (path, expected) in [
        ("/dev/full", "no regular file"),
        ("none/a.jsonl", "No such file"),
    ] {
        let output = world
            .command("archive", &["--to", path, "--all"])
            .output()
            .await;
        let (code, said) = failed(&output.unwrap());
        assert!(code == 2 && said.contains(expected), "{code}: {said}");
    }
    std::fs::write(world.path("notes.txt"), "my notes\n").unwrap();
    let output = world
        .command("archive", &["--to", "notes.txt", "--all"])
        .output()
        .await;
    let (code, said) = failed(&output.unwrap());
    assert!(
        code == 2 && said.contains("line 1: not a letter"),
        "{code}: {said}"
    );
}

#[tokio::test]
async fn requests_that_fail_are_sent_again_and_what_is_not_deleted_is_said() {
    let mut world = World::standard(&ministack().endpoint).await;
    for number in 0..25 {
        world
            .put(Given {
                body: &number.to_string(),
                ..Given::default()
            })
            .await;
    }
    let direct = world.queues.clone();
    let proxy = Proxy::start(&direct.endpoint, |operation, number| {
        match (operation, number % 3) {
            ("DeleteMessageBatch", _) => Fault::Denied,
            ("ReceiveMessage" | "ChangeMessageVisibilityBatch", 0) => Fault::Throttled,
            _ => Fault::None,
        }
    })
    .await;
    world.queues = direct.behind(&proxy.endpoint);
    let output = world
        .command("archive", &["--to", "a.jsonl", "--all"])
        .output()
        .await;
    let (code, said) = failed(&output.unwrap());
    assert_eq!(code, 5, "{said}");
    assert!(
        said.contains("25 letters archived but still in the queue"),
        "{said}"
    );
    world.queues = direct.clone();
    let proxy = Proxy::start(&direct.endpoint, |_, number| match number % 3 {
        0 => Fault::FailedInPart,
        _ => Fault::None,
    })
    .await;
    world.queues = direct.behind(&proxy.endpoint);
    world.json("archive", &["--to", "a.jsonl", "--all"]).await;
    assert_eq!(direct.dead().await, 0);
    // Each letter is in the file twice, and comes back once, through the same faults.
    let restored = world.restore(&["a.jsonl"]).await;
    assert_eq!(
        (&restored["restored"], &restored["duplicate-lines"]),
        (&json!(25), &json!(25))
    );
    assert_eq!(direct.take_dead().await.len(), 25);
}
