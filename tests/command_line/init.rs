//! `backstop init` against an emulator: what it asks, finds and writes, and that a host runs with it.

use std::path::Path;
use std::process::{Output, Stdio};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::worker::Worker;
use serde_json::Value;
use tokio::io::AsyncWriteExt;

const IAM: &str = "backstop-iam.json";

async fn init(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = command(&[&["init"], arguments].concat());
    let command = command.current_dir(folder).stdin(Stdio::null());
    command.output().await.unwrap()
}

/// The flags for a queue of an emulator and a worker.
fn flags<'a>(queues: &'a Queues, worker: &'a str) -> [&'a str; 6] {
    [
        "--queue-url",
        &queues.url,
        "--http",
        worker,
        "--endpoint-url",
        &queues.endpoint,
    ]
}

/// The files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_host_and_the_doctor_run_with_what_it_writes() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "45")]).await;
    queues.redrive_after(1000).await;
    let worker = Worker::answering(|_| 200).await;
    let folder = tempfile::tempdir().unwrap();
    let output = init(folder.path(), &flags(&queues, &worker.url)).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(files(folder.path()), [IAM, "backstop.toml"]);
    let shown = text(&output.stdout);
    for part in [
        "a standard queue, visibility timeout 45 s",
        "backstop doctor",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }

    // Nobody who has a package alone has this path.
    let config = std::fs::read_to_string(folder.path().join("backstop.toml")).unwrap();
    assert!(!config.contains("host/docs"), "{config}");
    assert!(config.contains("`backstop run --help`"), "{config}");

    let mut doctor = command(&["doctor", "--iam"]);
    let doctor = doctor.current_dir(&folder).output().await.unwrap();
    let written = std::fs::read_to_string(folder.path().join(IAM)).unwrap();
    assert_eq!(text(&doctor.stdout), written);
    let mut doctor = command(&["doctor"]);
    let doctor = doctor.current_dir(&folder).output().await.unwrap();
    assert!(doctor.status.success(), "{}", text(&doctor.stdout));

    let config = folder.path().join("backstop.toml");
    let mut host = command(&["run", "--json", "--config", config.to_str().unwrap()]);
    host.current_dir(&folder);
    let host = Running::start_command(host).await;
    queues.send(["one".to_owned()]).await;
    eventually("the worker has the message", || async {
        worker.attempts_of("one") == 1
    })
    .await;
    assert_eq!(host.stop().await.0, 0);
}

#[tokio::test]
async fn the_limit_on_attempts_fits_the_queue_and_its_problems_are_named() {
    let endpoint = &ministack().endpoint;
    for (queues, most, attempts, advised) in [
        (
            Queues::standard(endpoint, &[]).await,
            5,
            4,
            "maxReceiveCount is 5",
        ),
        (
            Queues::standard(endpoint, &[]).await,
            12,
            11,
            "maxReceiveCount is 12",
        ),
        (
            Queues::standard(endpoint, &[]).await,
            2,
            2,
            "maxReceiveCount is 2",
        ),
        (Queues::fifo(endpoint, &[]).await, 100, 12, "set it to 1000"),
        (Queues::standard(endpoint, &[]).await, 1000, 12, ""),
    ] {
        queues.redrive_after(most).await;
        let folder = tempfile::tempdir().unwrap();
        let arguments = [&flags(&queues, "http://127.0.0.1:1/")[..], &["--json"]].concat();
        let output = init(folder.path(), &arguments).await;
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["queue"]["max-attempts"], attempts);
        assert_eq!(found["queue"]["max-receive-count"], most);
        let advice = found["advice"].as_array().unwrap();
        assert_eq!(advice.is_empty(), advised.is_empty(), "{advice:?}");
        assert!(found["advice"].to_string().contains(advised), "{found}");

        // Doctor says the same, where the number of attempts leaves no receive.
        let mut doctor = command(&["doctor"]);
        let doctor = doctor.current_dir(&folder).output().await.unwrap();
        let shown = text(&doctor.stdout).replace("\n          ", " ");
        let is_tight = shown.contains("and its attempts need all of them");
        assert_eq!(is_tight, attempts == most, "{shown}");
    }
}

#[tokio::test]
async fn files_that_exist_stay_and_nothing_else_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let try_it = ["--queue-url", "local:try", "--exec", "true"];
    std::os::unix::fs::symlink("nowhere", folder.path().join("backstop.toml")).unwrap();
    let output = init(folder.path(), &try_it).await;
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("backstop.toml exists and stays as it is"),
        "{error}"
    );
    assert_eq!(files(folder.path()), ["backstop.toml"]);

    std::fs::remove_file(folder.path().join("backstop.toml")).unwrap();
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    std::fs::write(folder.path().join(IAM), "mine").unwrap();
    let output = init(folder.path(), &flags(&queues, "http://127.0.0.1:1/")).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(files(folder.path()), [IAM]);
    let kept = std::fs::read_to_string(folder.path().join(IAM)).unwrap();
    assert_eq!(kept, "mine");
}

#[tokio::test]
async fn a_second_run_adds_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let flags = flags(&queues, "http://127.0.0.1:1/");
    let run = async |more: &[&str]| {
        let output = init(folder.path(), &[&flags[..], &["--json"], more].concat()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        found["files"].as_array().unwrap().len()
    };
    assert_eq!(run(&[]).await, 2);
    assert_eq!(run(&[]).await, 0);
    assert_eq!(run(&["--ecs"]).await, 1);
    assert_eq!(files(folder.path()), [IAM, "backstop.toml", "ecs"]);
}

#[tokio::test]
async fn without_a_terminal_it_names_the_flags_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, missing) in [
        (
            &[][..],
            "give --queue-url, and one of --http, --exec and --lambda",
        ),
        (
            &["--queue-url", "local:a"],
            "give one of --http, --exec and --lambda",
        ),
        (&["--lambda", "ship"], "give --queue-url\n"),
    ] {
        let output = init(folder.path(), arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(missing), "{error}");
    }
    let missing = "http://127.0.0.1:9/000000000000/orders";
    let unreachable = [
        "--queue-url",
        missing,
        "--exec",
        "true",
        "--endpoint-url",
        "http://127.0.0.1:9",
    ];
    let output = init(folder.path(), &unreachable).await;
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(files(folder.path()).is_empty());
}

#[tokio::test]
async fn on_a_terminal_it_asks_for_queue_and_handler() {
    let folder = tempfile::tempdir().unwrap();
    let command = command(&["init"]);
    let line = command.as_std().get_program().to_str().unwrap();
    let mut terminal = tokio::process::Command::new("script");
    terminal.args(["-qec", &format!("'{line}' init"), "/dev/null"]);
    let mut terminal = terminal
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = terminal.stdin.take().unwrap();
    input
        .write_all(b"local:Orders\n./Work.sh --Fast\n")
        .await
        .unwrap();
    let output = terminal.wait_with_output().await.unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    let config = std::fs::read_to_string(folder.path().join("backstop.toml")).unwrap();
    for part in ["[queues.Orders]", r#"exec = ["./Work.sh", "--Fast"]"#] {
        assert!(config.contains(part), "{part:?} is not in:\n{config}");
    }
    drop(input);
}
