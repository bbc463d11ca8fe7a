//! The programs of the page for Rust programs are the examples, and do what it shows.

use std::process::Stdio;

use backstop_engine::PolicyDigest;
use backstop_tests::aws::{CREDENTIALS, Queues};
use backstop_tests::backstop::{command, program, text};
use backstop_tests::documents::{blocks, document};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::Rule;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

#[tokio::test]
async fn the_programs_of_the_page_do_what_it_shows() {
    let page = document("host/docs/rust/programs.md");
    let (sources, outputs) = (blocks(&page, "rust"), blocks(&page, "text"));
    let names = ["rust-worker", "rust-calls"];
    assert_eq!((sources.len(), outputs.len()), (names.len(), names.len()));
    for (name, (source, shown)) in names.iter().zip(sources.iter().zip(outputs)) {
        assert_eq!(*source, document(&format!("examples/{name}/src/main.rs")));
        let run = format!("cargo run --package {name}\n");
        assert!(blocks(&page, "sh").contains(&run), "{run}");
        let output = Command::new(program(name)).output().await.unwrap();
        assert_eq!(text(&output.stdout), shown, "{name}");
    }
}

/// A policy that accepts all settings and has this delay.
fn policy(delay: &str) -> String {
    let rule = Rule {
        configure: Some(Rule::FIRST),
        delay: Some(delay),
        ..Rule::default()
    };
    rule.text()
}

#[tokio::test]
async fn it_activates_a_new_version_and_drains_on_sigterm() {
    let (first, second) = (policy("(i32.const 1)"), policy("(i32.const 2)"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.wat");
    std::fs::write(&file, &first).unwrap();
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(50).await;
    let worker = Command::new(program("rust-worker"))
        .args([queues.url.as_str(), file.to_str().unwrap()])
        .envs(CREDENTIALS)
        .env("AWS_ENDPOINT_URL", &ministack().endpoint)
        .env("XDG_CACHE_HOME", folder.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let active = |policy: &str| {
        let digest = PolicyDigest::of(policy.as_bytes()).to_string();
        let folder = folder.path().to_owned();
        move || {
            let mut status = command(&["policy", "status", "--json"]);
            status
                .env_remove("BACKSTOP_CACHE")
                .env("XDG_CACHE_HOME", &folder);
            let digest = digest.clone();
            async move { text(&status.output().await.unwrap().stdout).contains(&digest) }
        }
    };
    eventually("the host answers", active(&first)).await;
    std::fs::write(&file, &second).unwrap();
    eventually("the new version is active", active(&second)).await;
    let id = i32::try_from(worker.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    let output = worker.wait_with_output().await.unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).contains(": 0 succeeded, 0 retried"));
}
