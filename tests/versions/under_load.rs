//! Swaps in a row while thousands of messages flow: from a folder, from S3, and from a registry that is stopped and started in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use backstop_engine::PolicyDigest;
use backstop_tests::aws::{Queues, config};
use backstop_tests::backstop::{Running, command, read_records};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::{AT_WORK, Rule, waits};
use backstop_tests::registry::Registry;
use backstop_tests::worker::{Worker, numbered};
use serde_json::Value;
use tokio::time::sleep;

/// Files written one after the other.
const SWAPS: u32 = 200;

/// Versions that are put into the bucket and the registry in the meantime.
const REMOTE: u32 = 12;

/// Messages sent to each queue with each swap.
const MESSAGES: usize = 8;

/// The writes between good versions, in turn.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Renamed over the one before.
    Good,
    /// Written in place.
    GoodInPlace,
    /// Not a policy.
    Bad,
    /// Never ends.
    Hostile,
    /// Truncated, and completed only when that was noticed.
    HalfWritten,
    /// Removed and restored.
    Gone,
    /// Passes validation and breaks on every message.
    Breaks,
}

const KINDS: [Kind; 9] = [
    Kind::Good,
    Kind::Bad,
    Kind::GoodInPlace,
    Kind::Hostile,
    Kind::HalfWritten,
    Kind::Good,
    Kind::Gone,
    Kind::Breaks,
    Kind::GoodInPlace,
];

/// The file of a policy, and what was written to it.
struct Folder {
    path: PathBuf,
    number: u32,
}

impl Folder {
    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    fn rename(&self, text: &str) {
        let beside = self.path.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, &self.path).unwrap();
    }

    /// Writes one more file, followed by a pause that is just longer or just shorter than a host's debounce.
    async fn next(&mut self) {
        self.number += 1;
        let good = version("file", self.number);
        let hostile = Rule {
            delay: Some(Rule::LOOP),
            ..Rule::default()
        };
        let hostile = format!("{}\n;; {}", hostile.text(), self.number);
        match KINDS[self.number as usize % KINDS.len()] {
            Kind::Good => self.rename(&good),
            Kind::GoodInPlace => self.write(&good),
            Kind::Bad => self.write(&format!("(module ;; {}", self.number)),
            Kind::Hostile => self.rename(&hostile),
            Kind::Breaks => self.rename(&broken(self.number)),
            Kind::HalfWritten => {
                self.write(&good[..good.len() / 2]);
                sleep(Duration::from_millis(300)).await;
                self.write(&good);
            }
            Kind::Gone => {
                std::fs::remove_file(&self.path).unwrap();
                sleep(Duration::from_millis(300)).await;
                self.rename(&good);
            }
        }
        sleep(Duration::from_millis(match self.number % 5 {
            0 => 50,
            _ => 300,
        }))
        .await;
    }
}

/// A version with a delay of its own: the decision shows which version made it.
fn version(place: &str, number: u32) -> String {
    let place = match place {
        "file" => 0,
        "s3" => 300,
        _ => 600,
    };
    waits(place + number)
}

/// A version that passes validation and breaks when it is active.
fn broken(number: u32) -> String {
    Rule {
        delay: Some(&format!(
            "(if {AT_WORK} (then unreachable)) (i32.const {number})"
        )),
        ..Rule::default()
    }
    .text()
}

/// The delay of every good version by its digest.
fn known() -> BTreeMap<String, u64> {
    let all = |place: &'static str, count| (0..=count).map(move |it| version(place, it));
    all("file", SWAPS)
        .chain(all("s3", REMOTE))
        .chain(all("oci", REMOTE))
        .zip(
            (0..=SWAPS)
                .chain(300..=300 + REMOTE)
                .chain(600..=600 + REMOTE),
        )
        .map(|(text, delay)| {
            (
                PolicyDigest::of(text.as_bytes()).to_string(),
                u64::from(delay),
            )
        })
        .chain(binaries().map(|(file, delay)| (PolicyDigest::of(&file).to_string(), delay)))
        .collect()
}

/// The versions for the registry, which accepts no text.
fn binaries() -> impl Iterator<Item = (Vec<u8>, u64)> {
    (0..=REMOTE).map(|number| {
        let file = wat::parse_str(version("oci", number)).unwrap();
        (file, u64::from(600 + number))
    })
}

async fn push(folder: &Path, registry: &Registry, number: u32) -> bool {
    let file = folder.join("oci.wasm");
    let (binary, _) = binaries().nth(number as usize).unwrap();
    std::fs::write(&file, binary).unwrap();
    let url = registry.url("orders:live");
    let arguments = ["policy", "push", file.to_str().unwrap(), &url];
    command(&arguments).output().await.unwrap().status.success()
}

/// The 99th percentile of decision times, in microseconds.
fn p99(records: &[Value]) -> u64 {
    let mut took: Vec<_> = records
        .iter()
        .map(|record| record["took-us"].as_u64().unwrap())
        .collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_swaps_in_a_row_lose_nothing_and_decide_nothing_twice() {
    let endpoint = &ministack().endpoint;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut registry = Registry::start();
    let s3 = aws_sdk_s3::config::Builder::from(&config(endpoint).await).force_path_style(true);
    let s3 = aws_sdk_s3::Client::from_conf(s3.build());
    let bucket = format!("swaps-{}", std::process::id());
    s3.create_bucket().bucket(&bucket).send().await.unwrap();
    let put = async |number: u32| {
        let body = ByteStream::from(version("s3", number).into_bytes());
        let request = s3.put_object().bucket(&bucket).key("orders.wat");
        request.body(body).send().await.unwrap();
    };
    let mut file = Folder {
        path: at("orders.wat"),
        number: 0,
    };
    file.write(&version("file", 0));
    put(0).await;
    assert!(push(folder.path(), &registry, 0).await);

    // Every message fails once, with this worker, and is done the second time.
    let worker =
        Worker::answering(|attempt| if attempt.receive_count == 1 { 503 } else { 200 }).await;
    let mut queues = Vec::new();
    let mut text = format!(
        "endpoint-url = \"{endpoint}\"\n[decisions]\nrecord = \"decisions.jsonl\"\n[policies]\ncache = \"kept\"\nrefresh = \"1s\"\n"
    );
    for (name, policy) in [
        ("file", "./orders.wat".to_owned()),
        ("s3", format!("s3://{bucket}/orders.wat")),
        ("oci", registry.url("orders:live")),
    ] {
        let queue = Queues::standard(endpoint, &[]).await;
        let (url, dead, handler) = (&queue.url, &queue.dead_letters, &worker.url);
        text.push_str(&format!(
            "[queues.{name}]\nurl = \"{url}\"\ndead-letter-queue = \"{dead}\"\nhandler = {{ http = \"{handler}\" }}\npolicy = \"{policy}\"\n"
        ));
        queues.push((name, queue));
    }
    std::fs::write(at("backstop.toml"), text).unwrap();
    let path = at("backstop.toml");
    let running = Running::start(&["--config", path.to_str().unwrap()]).await;
    let send = async |round: usize| {
        for (name, queue) in &queues {
            queue
                .send(numbered(&format!("{name}-{round}"), MESSAGES))
                .await;
        }
    };

    // First a while without swaps, for comparison.
    for round in 0..50 {
        send(round).await;
    }
    let records = at("decisions.jsonl");
    eventually("what was sent has failed once", || async {
        records.exists() && read_records(&records).len() >= 50 * MESSAGES * 3
    })
    .await;
    let quiet = read_records(&records);

    let rounds = 50 + SWAPS as usize;
    let done = AtomicBool::new(false);
    let sending = async {
        for round in 50..rounds {
            send(round).await;
            sleep(Duration::from_millis(150)).await;
        }
    };
    let swapping = async {
        for _ in 0..SWAPS {
            file.next().await;
        }
        done.store(true, Ordering::Relaxed);
    };
    let moving = async {
        for number in 1..=REMOTE {
            put(number).await;
            match number {
                4 => registry.stop(),
                8 => registry.restart(),
                _ => {}
            }
            let is_there = push(folder.path(), &registry, number).await;
            assert_eq!(is_there, !(4..8).contains(&number));
            sleep(Duration::from_secs(3)).await;
        }
    };
    tokio::join!(sending, swapping, moving);

    let total = rounds * MESSAGES;
    eventually("all queues are empty", || async {
        for (_, queue) in &queues {
            if queue.held().await > 0 {
                return false;
            }
        }
        true
    })
    .await;
    let log = running.log();
    let (code, counts) = running.stop().await;
    assert_eq!(code, 0, "{log}");
    let records = read_records(&records);

    // No message is lost or ends up in the wrong queue.
    for count in &counts {
        let queue = &count["queue"];
        assert_eq!(count["succeeded"], total, "{queue}");
        assert_eq!(count["dead-lettered"], 0, "{queue}");
    }
    for (name, queue) in &queues {
        assert_eq!(queue.dead().await, 0, "{name}");
    }
    // Each failure is decided once, by exactly one version, and that one is known.
    assert_eq!(records.len(), 3 * total);
    let known = known();
    let digest = |number| PolicyDigest::of(broken(number).as_bytes()).to_string();
    let breaking: BTreeSet<_> = (0..=SWAPS).map(digest).collect();
    let mut fallbacks = 0;
    let mut decided = BTreeSet::new();
    let mut versions = BTreeMap::<String, BTreeSet<u64>>::new();
    for record in &records {
        let failure = &record["failure"];
        let (id, attempt) = (&failure["message-id"], &failure["attempt"]);
        assert!(decided.insert(format!("{id} {attempt}")), "{record}");
        let parts = record["policy"].as_array().unwrap();
        assert_eq!(parts.len(), 1);
        let digest = parts[0]["digest"].as_str().unwrap();
        if breaking.contains(digest) {
            // The fallback decided, until the version was rolled back.
            assert_eq!(record["by"], "fallback", "{record}");
            fallbacks += 1;
            continue;
        }
        assert_eq!(record["by"], "policy", "{record}");
        let delay = record["delay"].as_u64().unwrap();
        assert_eq!(known.get(digest), Some(&delay), "{record}");
        let queue = record["queue"].as_str().unwrap().to_owned();
        versions.entry(queue).or_default().insert(delay);
    }
    let count = |queue: &str| versions[queue].len();
    assert!(
        count("file") > 50,
        "only {} versions decided",
        count("file")
    );
    assert!(count("s3") > 3, "only {} versions decided", count("s3"));
    assert!(count("oci") > 2, "only {} versions decided", count("oci"));
    assert!(
        versions["oci"].last() > Some(&607),
        "none after the registry was back"
    );
    // Each error is logged, the unreachable registry once.
    for shown in [
        "not WebAssembly",
        "ran out of fuel",
        "can't read the policy",
        "a version of the policy was rolled back after broken decisions on 2 messages",
    ] {
        assert!(log.contains(shown), "{shown:?} is not in the log");
    }
    let away =
        "the source of a policy is unreachable, and is checked again: can't get the policy oci://";
    assert_eq!(log.matches(away).count(), 1, "{log}");
    println!(
        "{} decisions by {} versions, {fallbacks} by the fallback; p99 of deciding: {} µs without swaps, {} µs with",
        records.len(),
        versions.values().map(BTreeSet::len).sum::<usize>(),
        p99(&quiet),
        p99(&records[quiet.len()..])
    );
}
