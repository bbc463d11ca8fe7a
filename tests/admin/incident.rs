//! The incident of `backstop demo --page`, ended on the page as the demo says.

use backstop_tests::backstop::command;
use backstop_tests::emulator::free_port;
use backstop_tests::eventually;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::page::{Person, button};

#[tokio::test]
async fn the_demo_with_a_page_is_an_incident_that_ends_on_the_page() {
    let address = format!("127.0.0.1:{}", free_port());
    let mut demo = command(&["demo", "--page", &address]);
    let mut demo = demo.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.contains(&format!("http://{address}/")), "{first}");
    while !lines
        .next_line()
        .await
        .unwrap()
        .unwrap()
        .contains("Sign in with any name")
    {}

    let mut ana = Person::at(&format!("http://{address}"));
    let (_, overview) = ana.see("/").await;
    assert!(overview.contains("swap to"), "{overview}");
    ana.sign_in("Ana", "").await;
    let (_, policies) = ana.see("/policies").await;
    let (status, done) = ana.act(&button(&policies)).await;
    assert_eq!(
        done["summary"], "Done at 1 of 1 hosts: rolled back.",
        "{status} {done}"
    );
    // On a busy machine, an attempt may fail after the preview: such a message is none of those that it has counted.
    eventually("nothing waits because of the provider", async || {
        let preview = "/waiting/wake?queue=orders&code=HTTP+503&spread=0";
        let (_, preview) = ana.see(preview).await;
        let (status, done) = ana.act(&button(&preview)).await;
        let summary = done["summary"].as_str().unwrap_or_default();
        assert!(
            summary.starts_with("Done at 1 of 1 hosts: "),
            "{status} {done}"
        );
        let (_, waiting) = ana.see("/waiting?queue=orders&code=HTTP+503").await;
        waiting.contains("<strong>0</strong> messages wait")
    })
    .await;
    let (_, overview) = ana.see("/").await;
    for mark in [
        "rollback by Ana: 1 of 1 queues rolled back",
        "wake by Ana: ",
    ] {
        assert!(overview.contains(mark), "{mark} {overview}");
    }

    let pid = Pid::from_raw(demo.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert!(demo.wait().await.unwrap().success());
}
