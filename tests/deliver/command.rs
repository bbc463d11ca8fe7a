//! `backstop deliver`: files and standard input, what comes back, signals, and a delivery that is killed and goes on.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{command, text};
use backstop_tests::bench::component;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

/// A folder with an input, and a queue behind a proxy.
struct World {
    folder: TempDir,
    queues: Queues,
    proxy: Proxy,
    sends: Arc<AtomicU64>,
}

impl World {
    /// A queue whose sends have the faults of this plan.
    async fn new(plan: impl Fn(u64) -> Fault + Send + Sync + 'static) -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[]).await;
        let sends = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sends);
        let plan = move |operation: &str, _| match operation {
            "SendMessageBatch" => plan(counted.fetch_add(1, Ordering::Relaxed)),
            _ => Fault::None,
        };
        Self {
            folder: tempfile::tempdir().unwrap(),
            proxy: Proxy::start(&queues.endpoint, plan).await,
            queues,
            sends,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Writes a file with a message for each number.
    fn write(&self, name: &str, numbers: impl IntoIterator<Item = usize>) {
        let mut lines = String::new();
        for number in numbers {
            writeln!(lines, "{}", json!({"MessageBody": number.to_string()})).unwrap();
        }
        std::fs::write(self.path(name), lines).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let url = self.queues.behind(&self.proxy.endpoint).url;
        let queue = ["deliver", "sqs", "--json", "--queue-url", &url];
        let endpoint = ["--endpoint-url", &self.proxy.endpoint];
        let mut command = command(&[&queue[..], &endpoint, arguments].concat());
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end; its exit code and its summary.
    async fn run(&self, arguments: &[&str]) -> (i32, Value) {
        ended(&self.command(arguments).output().await.unwrap())
    }

    /// The numbers of the messages in the queue.
    async fn numbers(&self) -> BTreeSet<usize> {
        let left = self.queues.take_left().await.into_keys();
        left.map(|body| body.parse().unwrap()).collect()
    }
}

fn ended(output: &Output) -> (i32, Value) {
    let shown = text(&output.stdout);
    let summary = serde_json::from_str(&shown);
    let summary = summary.unwrap_or_else(|_| panic!("{shown}{}", text(&output.stderr)));
    (output.status.code().unwrap(), summary)
}

/// The number in a line of the input's format.
fn number(line: &str) -> usize {
    let line: Value = serde_json::from_str(line).unwrap();
    line["MessageBody"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_file_is_delivered_through_faults_and_nothing_is_left_behind() {
    let world = World::new(|number| match number % 4 {
        1 => Fault::FailedInPart,
        3 => Fault::Throttled,
        _ => Fault::None,
    })
    .await;
    world.write("orders.jsonl", 0..500);
    let (code, summary) = world.run(&["orders.jsonl", "--set", "base=10ms"]).await;
    assert_eq!(code, 0, "{summary}");
    assert_eq!(
        (&summary["delivered"], &summary["undelivered"]),
        (&json!(500), &json!(0))
    );
    assert!(summary["retries"].as_u64().unwrap() > 50, "{summary}");
    assert_eq!(summary["undelivered-file"], Value::Null);
    assert_eq!(world.numbers().await, (0..500).collect());
    let files = std::fs::read_dir(world.folder.path()).unwrap();
    assert_eq!(files.count(), 1);
}

#[tokio::test]
async fn undelivered_lines_are_written_as_they_were_and_delivered_again() {
    let world = World::new(|_| Fault::FailedInPart).await;
    let invalid = ["no JSON", r#"{"MessageBody": "\u0001"}"#];
    world.write("orders.jsonl", 0..40);
    let good = std::fs::read_to_string(world.path("orders.jsonl")).unwrap();
    let lines = format!("{}\n\n{good}{}\n", invalid[0], invalid[1]);
    std::fs::write(world.path("orders.jsonl"), lines).unwrap();
    let flags = [
        "orders.jsonl",
        "--policy",
        "full-jitter",
        "--set",
        "base=1ms",
        "--set",
        "max-attempts=2",
    ];
    let (code, summary) = world.run(&flags).await;
    assert_eq!(code, 9, "{summary}");
    let left = world.lines("undelivered.jsonl");
    assert_eq!(summary["undelivered"], json!(left.len()));
    assert_eq!(summary["undelivered-file"], "undelivered.jsonl");
    assert!(
        invalid.iter().all(|line| left.iter().any(|it| it == line)),
        "{left:?}"
    );
    let reasons: BTreeSet<_> = summary["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["given-up", "invalid", "rejected"].into());
    let rest: BTreeSet<_> = left
        .iter()
        .filter(|line| !invalid.contains(&line.as_str()))
        .map(|line| number(line))
        .collect();
    assert!((5..40).contains(&rest.len()), "{rest:?}");

    // The file is not overwritten, nor its own input.
    let refused = world.command(&flags).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("has entries of an earlier delivery"));
    let refused = world
        .command(&["undelivered.jsonl"])
        .output()
        .await
        .unwrap();
    assert!(text(&refused.stderr).contains("the input is the file of undelivered entries"));

    let again = [
        "undelivered.jsonl",
        "--undelivered",
        "rest.jsonl",
        "--set",
        "base=1ms",
    ];
    let (code, summary) = world.run(&again).await;
    assert_eq!(code, 9, "{summary}");
    let mut rest = world.lines("rest.jsonl");
    rest.sort_unstable();
    let mut expected = invalid.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(rest, expected);
    assert_eq!(world.queues.held().await, 40);
    assert_eq!(world.numbers().await, (0..40).collect());
}

#[tokio::test]
async fn a_signal_finishes_what_is_in_flight_and_writes_the_rest() {
    for from_file in [true, false] {
        let world = World::new(|_| Fault::Slow).await;
        world.write("orders.jsonl", 0..3_000);
        let flags: &[&str] = if from_file { &["orders.jsonl"] } else { &["-"] };
        let mut command = world.command(&[flags, &["--requests", "4"]].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = std::fs::read(world.path("orders.jsonl")).unwrap();
        let feeding = tokio::spawn(async move {
            let _ = stdin.write_all(if from_file { b"" } else { &input }).await;
        });
        eventually("requests are in flight", || async {
            world.sends.load(Ordering::Relaxed) >= 6
        })
        .await;
        let id = i32::try_from(child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
        feeding.await.unwrap();
        let (code, summary) = ended(&child.wait_with_output().await.unwrap());
        assert_eq!(code, 9, "{summary}");
        let delivered = world.numbers().await;
        assert_eq!(summary["delivered"], json!(delivered.len()));
        assert!((40..=120).contains(&delivered.len()), "{summary}");
        let rest: Vec<_> = world
            .lines("undelivered.jsonl")
            .iter()
            .map(|line| number(line))
            .collect();
        assert_eq!(summary["undelivered"], json!(rest.len()));
        assert!(rest.is_sorted());
        let rest: BTreeSet<_> = rest.into_iter().collect();
        assert!(rest.is_disjoint(&delivered));
        assert_eq!(rest.len() + delivered.len(), 3_000);
        assert!(!world.path("undelivered.jsonl.progress").exists());
    }
}

#[tokio::test]
async fn a_delivery_that_is_killed_goes_on_where_it_was_and_nothing_is_missing() {
    let world = World::new(|number| match (number % 8, number % 32) {
        (3, _) => Fault::FailedInPart,
        (_, 5) => Fault::Slow,
        _ => Fault::None,
    })
    .await;
    world.write("orders.jsonl", 0..4_000);
    // One line in a hundred is none.
    let text = std::fs::read_to_string(world.path("orders.jsonl")).unwrap();
    let mixed: String = text
        .lines()
        .enumerate()
        .map(|(at, line)| {
            if at % 100 == 0 {
                format!("none {at}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    std::fs::write(world.path("orders.jsonl"), mixed).unwrap();
    let flags = ["orders.jsonl", "--requests", "2", "--set", "base=10ms"];
    let mut kills = 0;
    // Also right after a start, before anything is read again.
    for sends in [120, 0, 60, 1, 5, 60] {
        let mut child = world.command(&flags).spawn().unwrap();
        let end = world.sends.load(Ordering::Relaxed) + sends;
        while world.sends.load(Ordering::Relaxed) < end && child.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if child.try_wait().unwrap().is_none() {
            kills += 1;
        }
        child.kill().await.unwrap();
    }
    assert_eq!(kills, 6, "it was not killed in the middle");
    let checkpoint = std::fs::read_to_string(world.path("undelivered.jsonl.progress"));
    let checkpoint: Value = serde_json::from_str(&checkpoint.unwrap()).unwrap();
    assert!(
        checkpoint["position"].as_u64().unwrap() > 1_000,
        "{checkpoint}"
    );

    // Another input is not mistaken for it.
    world.write("other.jsonl", 0..10);
    let refused = world.command(&["other.jsonl"]).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));

    let (code, summary) = world.run(&flags).await;
    assert_eq!(code, 9, "{summary}");
    assert!(summary["delivered"].as_u64().unwrap() < 3_900, "{summary}");
    assert_eq!(
        world.numbers().await,
        (0..4_000).filter(|it| it % 100 != 0).collect()
    );
    let none: Vec<_> = (0..4_000)
        .step_by(100)
        .map(|at| format!("none {at}"))
        .collect();
    assert_eq!(world.lines("undelivered.jsonl"), none);
}

#[tokio::test]
async fn each_line_of_standard_input_can_be_a_body() {
    let world = World::new(|_| Fault::None).await;
    let mut child = world
        .command(&["--bodies"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"1\n2\r\n\n3").await.unwrap();
    drop(stdin);
    let (code, summary) = ended(&child.wait_with_output().await.unwrap());
    assert_eq!((code, &summary["delivered"]), (0, &json!(3)));
    assert_eq!(world.numbers().await, [1, 2, 3].into());
}

#[tokio::test]
async fn a_queue_that_can_not_be_used_is_exit_code_5_and_everything_is_in_the_file() {
    let world = World::new(|_| Fault::Denied).await;
    world.write("orders.jsonl", 0..5_000);
    let output = world.command(&["orders.jsonl"]).output().await.unwrap();
    assert!(
        text(&output.stderr).contains("AccessDenied"),
        "{}",
        text(&output.stderr)
    );
    let (code, summary) = ended(&output);
    assert_eq!((code, &summary["undelivered"]), (5, &json!(5_000)));
    assert_eq!(summary["stopped-by"]["code"], "AccessDeniedException");
    assert!(world.sends.load(Ordering::Relaxed) <= 16);
    let lines = world.lines("undelivered.jsonl");
    let numbers: BTreeSet<_> = lines.iter().map(|line| number(line)).collect();
    assert!(numbers.into_iter().eq(0..5_000) && lines.len() == 5_000);

    let missing = format!("{}-missing", world.queues.url);
    let arguments = [
        "deliver",
        "sqs",
        "--queue-url",
        &missing,
        "--endpoint-url",
        &world.queues.endpoint,
    ];
    let output = command(&arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("NonExistentQueue"));
}

#[tokio::test]
async fn a_policy_of_webassembly_decides_as_well() {
    let world = World::new(|_| Fault::FailedInPart).await;
    world.write("orders.jsonl", 0..100);
    std::fs::write(world.path("mine.wasm"), component()).unwrap();
    let flags = [
        "orders.jsonl",
        "--policy",
        "./mine.wasm",
        "--set",
        "base=5ms",
        "--set",
        "max-attempts=2",
    ];
    let (code, summary) = world.run(&flags).await;
    assert_eq!(code, 9, "{summary}");
    let reason = summary["reasons"][0]["example"].as_str().unwrap();
    assert!(reason.contains("max-attempts"), "{summary}");
    let invalid = [
        "orders.jsonl",
        "--undelivered",
        "other.jsonl",
        "--set",
        "base=0s",
    ];
    let refused = world.command(&invalid).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(4));
    assert!(text(&refused.stderr).contains("setting `base`"));
}

#[tokio::test]
async fn a_second_signal_stops_at_once_and_the_same_command_goes_on() {
    let world = World::new(|number| match number {
        0..20 => Fault::Hanging,
        _ => Fault::None,
    })
    .await;
    world.write("orders.jsonl", 0..1_000);
    let flags = ["orders.jsonl", "--requests", "4"];
    let child = world.command(&flags).spawn().unwrap();
    eventually("requests are in flight", || async {
        world.sends.load(Ordering::Relaxed) >= 4
    })
    .await;
    let id = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    // A signal within a second of the first is the same one.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    kill_process(id, Signal::INT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130));
    world.sends.store(100, Ordering::Relaxed);
    let (code, summary) = world.run(&flags).await;
    assert_eq!(
        (code, &summary["delivered"]),
        (0, &json!(1_000)),
        "{summary}"
    );
    assert_eq!(world.numbers().await, (0..1_000).collect());
}

#[tokio::test]
async fn a_line_that_is_no_text_or_too_long_is_undelivered_and_the_rest_goes_on() {
    let bad = [b"k\xe9".to_vec(), vec![b'x'; (16 << 20) + 70_000]];
    let mut input = Vec::new();
    for number in 0..30 {
        input.extend_from_slice(
            json!({"MessageBody": number.to_string()})
                .to_string()
                .as_bytes(),
        );
        input.push(b'\n');
        let after = [5, 15].iter().position(|it| *it == number);
        if let Some(line) = after.and_then(|it| bad.get(it)) {
            input.extend_from_slice(line);
            input.push(b'\n');
        }
    }
    for from_file in [true, false] {
        let world = World::new(|_| Fault::None).await;
        std::fs::write(world.path("orders.jsonl"), &input).unwrap();
        let flags: &[&str] = if from_file { &["orders.jsonl"] } else { &["-"] };
        let mut command = world.command(flags);
        if !from_file {
            let file = std::fs::File::open(world.path("orders.jsonl")).unwrap();
            command.stdin(file);
        }
        let (code, summary) = ended(&command.output().await.unwrap());
        assert_eq!((code, &summary["delivered"]), (9, &json!(30)), "{summary}");
        assert_eq!(world.numbers().await, (0..30).collect());
        assert_eq!(summary["reasons"][0]["reason"], "invalid");
        assert_eq!(summary["reasons"][0]["count"], 2);
        let example = &summary["reasons"][0]["example"];
        assert_eq!(example, "line 7: not UTF-8 at byte 2");
        // The very bytes, which can be delivered again.
        let left = std::fs::read(world.path("undelivered.jsonl")).unwrap();
        let expected = [&bad[0], &b"\n"[..], &bad[1], b"\n"].concat();
        assert!(left == expected, "{} bytes", left.len());
    }
}

#[tokio::test]
async fn a_long_line_whose_rest_cannot_be_read_leaves_no_fragment() {
    let world = World::new(|_| Fault::None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stdin = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut input, _) = listener.accept().await.unwrap();
    let mut command = world.command(&["-"]);
    command.stdin(OwnedFd::from(stdin));
    let child = command.spawn().unwrap();
    drop(command);
    input.write_all(b"no entry\n").await.unwrap();
    input.write_all(&vec![b'x'; 20 << 20]).await.unwrap();
    eventually("a part of the line is written", || async {
        std::fs::metadata(world.path("undelivered.jsonl")).is_ok_and(|it| it.len() > 16 << 20)
    })
    .await;
    // The connection is reset, so that the next read fails.
    input.set_zero_linger().unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    let error = text(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("can't read - to its end"), "{error}");
    assert_eq!(world.lines("undelivered.jsonl"), ["no entry"]);
}

#[tokio::test]
async fn an_interrupted_delivery_goes_on_only_with_its_own_target_and_file() {
    let world = World::new(|_| Fault::Slow).await;
    let other = Queues::standard(&ministack().endpoint, &[]).await;
    world.write("orders.jsonl", 0..2_000);
    let flags = ["orders.jsonl", "--requests", "2"];
    let mut child = world.command(&flags).spawn().unwrap();
    eventually("a part is delivered", || async {
        world.sends.load(Ordering::Relaxed) >= 12
            && std::fs::read_to_string(world.path("undelivered.jsonl.progress"))
                .is_ok_and(|text| !text.contains(r#""position":0"#))
    })
    .await;

    // A second delivery while the first one runs.
    for arguments in [
        &flags[..],
        &["orders.jsonl", "--undelivered", "rest.jsonl"],
        &["-"],
    ] {
        let refused = world.command(arguments).output().await.unwrap();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&refused.stderr).contains("another delivery "),
            "{arguments:?}"
        );
    }
    child.kill().await.unwrap();

    let elsewhere = other.behind(&world.proxy.endpoint).url;
    let to = |url: &str| {
        let endpoint = &world.proxy.endpoint;
        let arguments = [
            "deliver",
            "sqs",
            "--queue-url",
            url,
            "--endpoint-url",
            endpoint,
        ];
        let mut command = command(&[&arguments[..], &flags].concat());
        command
            .current_dir(world.folder.path())
            .stdin(Stdio::null());
        command
    };
    let refused = to(&elsewhere).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let shown = text(&refused.stderr);
    assert!(
        shown.contains("it went to arn:aws:sqs:") && shown.contains("--undelivered"),
        "{shown}"
    );
    assert_eq!(other.held().await, 0);

    // Another file of this name.
    let known = std::fs::read(world.path("orders.jsonl")).unwrap();
    world.write("orders.jsonl", 5_000..7_000);
    let refused = world.command(&flags).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("orders.jsonl has changed"));

    // A copy of the file is the same to it, and more lines may follow.
    std::fs::write(world.path("orders.jsonl"), known).unwrap();
    let added = std::fs::OpenOptions::new()
        .append(true)
        .open(world.path("orders.jsonl"));
    let line = json!({"MessageBody": "2000"}).to_string();
    std::io::Write::write_all(&mut added.unwrap(), line.as_bytes()).unwrap();
    let (code, summary) = world.run(&["orders.jsonl"]).await;
    assert_eq!(code, 0, "{summary}");
    assert!(summary["delivered"].as_u64().unwrap() < 2_001, "{summary}");
    assert_eq!(world.numbers().await, (0..=2_000).collect());
    let left = std::fs::read_dir(world.folder.path()).unwrap();
    assert_eq!(left.count(), 1, "the files of the state are removed");
}
