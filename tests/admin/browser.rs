//! The page in a browser: Debian's Chromium, driven by `tests/services/browser.mjs`. With `RENEW=1`, its pictures in the documents are made again.

use std::process::Stdio;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, text};
use backstop_tests::documents::top;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use serde_json::{Value, json};
use tokio::process::Command;

use super::page::Person;
use super::world::TOKEN;

#[tokio::test]
async fn a_person_signs_in_looks_at_everything_pauses_and_wakes_by_keyboard_and_mouse() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
    let name = queues.url.rsplit('/').next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let token = write("token", TOKEN);
    let work = write(
        "work.sh",
        "read -r it\ncase $it in *[0-4]) exit 0;; *[5-7]) echo busy >&2; exit 75;; *8) echo 'no stock' >&2; exit 7;; *) exit 65;; esac\n",
    );
    let records = folder.path().join("records.jsonl").display().to_string();
    let policy = write("sooner.wat", &waits(1000));
    let arguments = [
        "--exec",
        &format!("sh {work}"),
        "--policy",
        "linear",
        "--set",
        "base=10m",
        "--admin",
        "127.0.0.1:0",
        "--admin-token-file",
        &token,
        "--decisions",
        &records,
    ];
    let run = ["run", "--json", "--grace", "2s"];
    let mut host = command(&[&run, &queues.arguments()[..], &arguments].concat());
    host.env("BACKSTOP_STATE", folder.path().join("runs"));
    let running = Running::start_command(host).await;
    let url = running.admin();
    queues.send((0..60).map(|it| it.to_string())).await;
    let mut ana = Person::at(&url);
    ana.sign_in("Ana", TOKEN).await;
    eventually("all are done or wait", async || {
        let (_, text) = ana.see(&format!("/waiting?queue={name}")).await;
        text.contains("<strong>24</strong> messages wait")
    })
    .await;

    let services = top().join(".services");
    let mut browser = Command::new(services.join("node_modules/.bin/node"));
    browser.arg(top().join("tests/services/browser.mjs"));
    browser.args([services.to_str().unwrap(), &url, &name, TOKEN, &policy]);
    if std::env::var_os("RENEW").is_some() {
        browser.arg(top().join("host/docs/pictures"));
    }
    let output = browser.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (what, expected) in [
        ("violations", json!([])),
        ("wide", json!([])),
        ("errors", json!([])),
        ("requests", json!([])),
        (
            "steps",
            json!([
                "Overview – Backstop",
                "main",
                "refreshed",
                "the till is closed",
                "Done at 1 of 1 hosts: paused.",
                "messages wait24, failures30",
                "Done at 1 of 1 hosts: 24 messages woken.",
                "6",
                "letters6moved6",
                "Copied",
                "Sign in – Backstop",
            ]),
        ),
    ] {
        assert_eq!(found[what], expected, "{what}: {found:#}");
    }
}
