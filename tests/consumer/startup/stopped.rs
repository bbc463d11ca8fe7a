//! Signals during the startup, and hosts that crash while they load a version.

use std::net::TcpListener;
#[cfg(target_os = "linux")]
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop_tests::backstop::{self, Running};
use backstop_tests::compiler::{Held, heavy};
use backstop_tests::eventually;
use backstop_tests::policies::{Rule, waits};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

/// `backstop run` during its startup, as soon as it handles signals.
async fn starting(arguments: &[&str], cache: &Path) -> Child {
    let child = backstop::command(&[&["run"], arguments].concat())
        .env("BACKSTOP_CACHE", cache)
        // One thread, so that a blocked thread blocks the startup.
        .env("TOKIO_WORKER_THREADS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let path = format!("/proc/{}/status", child.id().unwrap());
    eventually("signals are handled", || async {
        let status = std::fs::read_to_string(&path).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        caught & (1 << (Signal::TERM.as_raw() - 1)) != 0
    })
    .await;
    child
}

/// Sends SIGTERM, and returns the exit code and the log. The process must not wait for what it does.
async fn terminated(child: Child) -> (i32, String) {
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    let output = tokio::time::timeout(Duration::from_secs(20), child.wait_with_output());
    let output = output.await.expect("it ends").unwrap();
    (
        output.status.code().unwrap(),
        backstop::text(&output.stderr),
    )
}

#[tokio::test]
async fn a_signal_stops_a_start_whatever_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("kept");
    let stopped = |(code, log): (i32, String)| {
        assert_eq!(code, 0, "{log}");
        assert!(log.contains("stopped during startup"), "{log}");
    };
    let here = ["--queue-url", "local:try", "--exec", "true"];

    // A policy that is being compiled.
    let policy = folder.path().join("policy.wat");
    std::fs::write(&policy, heavy(1)).unwrap();
    let policy = ["--policy", policy.to_str().unwrap()];
    let start = starting(&[&here[..], &policy].concat(), &cache).await;
    let held = Held::of(start.id().unwrap());
    stopped(terminated(start).await);
    held.gone();
    for left in ["loading", "refused"] {
        assert_eq!(cache.join(left).read_dir().unwrap().count(), 0, "{left}");
    }

    // S3 and SQS that accept a connection and never respond.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let at = ["--endpoint-url", &endpoint];
    let url = format!("{endpoint}/0/orders");
    let s3 = [&here[..], &at, &["--policy", "s3://policies/orders.wasm"]].concat();
    let sqs = [&["--queue-url", &url, "--exec", "true"], &at[..]].concat();
    for arguments in [s3, sqs] {
        let start = starting(&arguments, &cache).await;
        let _connection = silent.accept().unwrap();
        stopped(terminated(start).await);
    }

    // Messages from standard input.
    let start = starting(&[&here[..], &["--messages", "-"]].concat(), &cache).await;
    stopped(terminated(start).await);
}

/// The probe of this version runs until its limits are reached.
#[tokio::test]
async fn a_version_that_crashed_a_host_is_not_loaded_again_and_a_signal_is_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let config = at("backstop.toml");
    std::fs::write(
        &config,
        r#"
        limits = { fuel = 9_000_000_000_000_000, time = "10m" }
        [queues.try]
        url = "local:try"
        handler = { exec = ["true"] }
        policy = "policy.wat"
        "#,
    )
    .unwrap();
    let endless = |number: u32| {
        let number = format!("(drop (i32.const {number})) {}", Rule::LOOP);
        let rule = Rule {
            delay: Some(&number),
            ..Rule::default()
        };
        std::fs::write(at("policy.wat"), rule.text()).unwrap();
    };
    let cache = at("kept");
    let arguments = ["--config", config.to_str().unwrap()];
    let start = async || starting(&arguments, &cache).await;
    let marks = || cache.join("loading").read_dir().unwrap().count();
    let loads = async || {
        eventually("it is loaded", || async { marks() == 1 }).await;
    };
    let serves = async || {
        let mut command = backstop::command(&[&["run", "--json"], &arguments[..]].concat());
        command.env("BACKSTOP_CACHE", &cache);
        Running::start_command(command).await
    };
    std::fs::write(at("policy.wat"), waits(1)).unwrap();
    serves().await.stop().await;

    // A signal is no crash.
    endless(1);
    let stopped = start().await;
    loads().await;
    assert_eq!(terminated(stopped).await.0, 0);
    assert_eq!(marks(), 0);

    let mut killed = start().await;
    loads().await;
    killed.kill().await.unwrap();
    assert_eq!(marks(), 1);
    for _ in 0..2 {
        let running = serves().await;
        let log = running.log();
        assert!(
            log.contains("the host ended while it loaded this version"),
            "{log}"
        );
        assert!(log.contains("the last good version is used"), "{log}");
        assert_eq!(running.stop().await.0, 0);
    }
    assert_eq!(marks(), 0);

    // Another version is loaded as usual. If the cache has no other version, the rejected one is tried again.
    endless(2);
    let mut killed = start().await;
    loads().await;
    killed.kill().await.unwrap();
    std::fs::remove_dir_all(cache.join("known")).unwrap();
    let again = start().await;
    eventually("the mark is found", || async {
        cache.join("refused").read_dir().unwrap().count() == 2
    })
    .await;
    loads().await;
    let (_, log) = terminated(again).await;
    assert!(log.contains("it is tried again"), "{log}");
}

/// Its credentials are closed to its commands. It still runs what needs its own `/proc`: the guard of commands, and a child that compiles.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_memory_of_a_host_is_closed_to_other_processes_of_its_user() {
    use tokio::io::AsyncWriteExt;
    let folder = tempfile::tempdir().unwrap();
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), readable).unwrap();
    let policy = folder.path().join("policy.wat");
    std::fs::write(&policy, waits(1)).unwrap();
    let policy = policy.to_str().unwrap();
    // Root owns its own files in any case, so as nobody, who must be able to read the program.
    let program = folder.path().join("backstop");
    let own = backstop::program("backstop");
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if is_root {
        std::fs::hard_link(&own, &program)
            .or_else(|_| std::fs::copy(&own, &program).map(drop))
            .unwrap();
        let mut command = tokio::process::Command::new(&program);
        command.uid(65_534).gid(65_534).kill_on_drop(true);
        command
    } else {
        backstop::command(&[])
    };
    let queue = ["--queue-url", "local:closed", "--messages", "-"];
    let mut child = command
        .arg("run")
        .args(queue)
        .args(["--policy", policy, "--exec", "cat", "--cache", "off"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let environment = format!("/proc/{}/environ", child.id().unwrap());
    eventually("its environment belongs to root", || async {
        std::fs::metadata(&environment).unwrap().uid() == 0
    })
    .await;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    let log = backstop::text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(log.contains("succeeded=1"), "{log}");
    assert!(!log.contains("WARN"), "{log}");
}
