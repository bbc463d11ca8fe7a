//! `backstop dlq restore`: from files and from S3, refused letters, a command that is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::config;
use backstop_tests::backstop::text;
use backstop_tests::emulator::{Emulator, MOTO, fauxqs, ministack, moto};
use backstop_tests::proxy::{Fault, Proxy};
use serde_json::json;
use tokio::process::Child;
use tokio::time::sleep;

use crate::world::{Given, World, failed, succeeded};

async fn in_s3(emulator: &Emulator) {
    let world = World::standard(&emulator.endpoint).await;
    let sdk = config(&emulator.endpoint).await;
    let sdk = aws_sdk_s3::config::Builder::from(&sdk)
        .force_path_style(true)
        .build();
    let s3 = aws_sdk_s3::Client::from_conf(sdk);
    let bucket = format!("letters-{}", std::process::id());
    s3.create_bucket().bucket(&bucket).send().await.unwrap();
    for number in 0..30 {
        world
            .put(Given {
                body: &number.to_string(),
                ..Given::default()
            })
            .await;
    }
    let url = format!("s3://{bucket}/dead/orders-");
    let archived = world.json("archive", &["--to", &url, "--all"]).await;
    assert_eq!(archived["queues"][0]["archived"], 30, "{archived}");
    assert_eq!(world.queues.dead().await, 0);
    let restored = world.restore(&[&url]).await;
    assert_eq!(restored["restored"], 30, "{restored}");
    assert_eq!(world.restore(&[&url]).await["restored"], 0);
    assert_eq!(world.visible().await, 30);
    // Without the bucket, nothing leaves the queue.
    world
        .put(Given {
            body: "one more",
            ..Given::default()
        })
        .await;
    let output = world
        .command("archive", &["--to", "s3://no-such-bucket/x", "--all"])
        .output()
        .await;
    let (code, said) = failed(&output.unwrap());
    assert_eq!(code, 5, "{said}");
    assert_eq!(world.visible().await, 1);
}

#[tokio::test]
async fn an_archive_in_s3_is_restored_from_there_on_ministack() {
    in_s3(ministack()).await;
}

#[tokio::test]
async fn an_archive_in_s3_is_restored_from_there_on_moto() {
    let _one_client = MOTO.lock().await;
    in_s3(moto()).await;
}

#[tokio::test]
async fn letters_that_a_queue_refuses_are_named_and_the_others_restored() {
    let world = World::standard(&ministack().endpoint).await;
    for body in ["small", &"large".repeat(1_000)] {
        world
            .put(Given {
                body,
                ..Given::default()
            })
            .await;
    }
    world.json("archive", &["--to", "a.jsonl", "--all"]).await;
    let target = world.queues.client.set_queue_attributes();
    let target = target
        .queue_url(&world.queues.url)
        .attributes(Q::MaximumMessageSize, "1024");
    target.send().await.unwrap();
    let endpoint = ["--endpoint-url", &world.queues.endpoint];
    let arguments = ["dlq", "restore", "a.jsonl", "--to", &world.queues.url];
    let output = world
        .plain(&[&arguments[..], &endpoint].concat())
        .output()
        .await
        .unwrap();
    let said = text(&output.stdout);
    let (code, errors) = failed(&output);
    assert_eq!(code, 5, "{errors}");
    assert!(said.contains("1 letter put back"), "{said}");
    assert!(errors.contains("1 letter refused"), "{errors}");
    let back: Vec<_> = world.queues.take_left().await.into_keys().collect();
    assert_eq!(back, ["small"]);
    // The refused one is put back when the same command is run with a queue that takes it.
    let restored = world.restore(&["a.jsonl"]).await;
    assert_eq!(
        (&restored["restored"], &restored["restored-before"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(world.visible().await, 1);
}

/// A line of an archive.
fn line(id: &str, body: &str, group: Option<&str>) -> String {
    let mut letter =
        json!({"version": 1, "id": id, "queue": "q", "archived": 1, "sent": 1, "body": body});
    if let Some(group) = group {
        letter["group"] = json!(group);
    }
    format!("{letter}\n")
}

#[tokio::test]
async fn nothing_of_a_group_is_put_back_after_a_letter_that_was_refused() {
    let world = World::fifo(&ministack().endpoint).await;
    let target = world.queues.client.set_queue_attributes();
    let target = target
        .queue_url(&world.queues.url)
        .attributes(Q::MaximumMessageSize, "1024");
    target.send().await.unwrap();
    // More letters than are sent at once.
    let lines: String = (0..200)
        .map(|number| {
            let body = if number == 5 {
                "large".repeat(1_000)
            } else {
                format!("{number:03}")
            };
            line(&format!("id-{number}"), &body, Some("g"))
        })
        .collect();
    std::fs::write(world.path("a.jsonl"), lines).unwrap();
    let arguments = [
        "dlq",
        "restore",
        "a.jsonl",
        "--json",
        "--to",
        &world.queues.url,
        "--endpoint-url",
        &world.queues.endpoint,
    ];
    let output = world.plain(&arguments).output().await.unwrap();
    let restored: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let (code, _) = failed(&output);
    let refused = restored["refused"].as_array().unwrap().len();
    assert_eq!(
        (code, restored["restored"].as_u64(), refused),
        (5, Some(5), 195)
    );
}

#[tokio::test]
async fn an_incomplete_line_is_named_and_one_that_is_no_text_stops_the_restore() {
    let world = World::standard(&ministack().endpoint).await;
    let (whole, torn) = (line("a", "first", None), line("b", "second", None));
    std::fs::write(world.path("a.jsonl"), [&whole, &torn[..40]].concat()).unwrap();
    let to = ["--to", &world.queues.dead_letters];
    let restored = world.restore(&[&["a.jsonl"][..], &to].concat()).await;
    assert_eq!(restored["restored"], 1, "{restored}");
    let incomplete = json!([{"file": "a.jsonl", "line": 2}]);
    assert_eq!(restored["incomplete"], incomplete, "{restored}");

    let damaged = [
        whole.as_bytes(),
        torn.replace("second", "\u{e9}").as_bytes(),
    ]
    .concat();
    let damaged: Vec<_> = damaged.into_iter().filter(|byte| *byte != 0xa9).collect();
    std::fs::write(world.path("b.jsonl"), damaged).unwrap();
    let arguments = ["dlq", "restore", "b.jsonl", "--endpoint-url"];
    let rest = [
        &world.queues.endpoint[..],
        "--to",
        &world.queues.dead_letters,
    ];
    let output = world
        .plain(&[&arguments[..], &rest].concat())
        .output()
        .await;
    let (code, said) = failed(&output.unwrap());
    assert!(
        code == 2 && said.contains("b.jsonl, line 2: not a letter of an archive: it is not UTF-8"),
        "{code}: {said}"
    );
}

/// Kills a command after its next requests to the proxy. Whether it was still running.
pub(crate) async fn killed_after(mut child: Child, proxy: &Proxy, requests: u64) -> bool {
    let end = proxy.requests() + requests;
    while proxy.requests() < end && child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(1)).await;
    }
    let is_running = child.try_wait().unwrap().is_none();
    child.kill().await.unwrap();
    is_running
}

#[tokio::test]
async fn a_restore_that_is_killed_goes_on_and_loses_nothing() {
    let world = World::standard(&fauxqs().endpoint).await;
    let all: BTreeSet<String> = (0..1_500).map(|number| number.to_string()).collect();
    let line = |body: &String| line(&format!("id-{body}"), body, None);
    let lines: String = all.iter().map(line).collect();
    std::fs::write(world.path("a.jsonl"), lines).unwrap();
    let proxy = Proxy::start(&world.queues.endpoint, |_, _| Fault::None).await;
    let behind = world.queues.behind(&proxy.endpoint);
    let endpoint = ["--endpoint-url", &behind.endpoint];
    let arguments = [
        "dlq",
        "restore",
        "a.jsonl",
        "--json",
        "--to",
        &behind.dead_letters,
    ];
    let arguments = [&arguments[..], &endpoint].concat();
    let mut killed = 0;
    for requests in [1, 10, 30, 60] {
        let child = world.plain(&arguments).spawn().unwrap();
        killed += usize::from(killed_after(child, &proxy, requests).await);
    }
    assert!(killed > 0);
    let output = world.plain(&arguments).output().await.unwrap();
    succeeded(&output);
    let held = world.queues.dead().await;
    let back: BTreeSet<_> = world.queues.take_dead().await.into_keys().collect();
    assert_eq!(back, all);
    // Twice are at most the requests in flight at each kill: eight of ten letters.
    assert!(held <= 1_500 + killed * 80, "{held}");
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_said() {
    let mut world = World::standard(&ministack().endpoint).await;
    world.queues.dead_letters += "-no-more";
    for (name, flags) in [
        ("list", &[][..]),
        ("show", &["id"]),
        ("triage", &["--policy", "linear"]),
        ("archive", &["--to", "a.jsonl", "--all"]),
    ] {
        let output = world.command(name, flags).output().await.unwrap();
        let (code, said) = failed(&output);
        assert!(
            code == 5
                && said.contains("NonExistentQueue")
                && said.contains("create it or correct its URL"),
            "{code}: {said}"
        );
    }
    let local = world
        .plain(&["dlq", "list", "local:dead"])
        .output()
        .await
        .unwrap();
    let (code, said) = failed(&local);
    assert!(
        code == 2 && said.contains("in the memory of its host"),
        "{said}"
    );
}
