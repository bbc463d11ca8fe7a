//! The incident of `backstop demo --page`, ended on the page as the demo says.

use backstop_tests::backstop::command;
use backstop_tests::emulator::free_port;
use backstop_tests::eventually;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::page::{Person, button, button_with};

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
    // What died meanwhile goes home, and only that.
    let at = "/dead-letters?queue=orders";
    let survey = button_with(&ana.see(at).await.1, "survey");
    ana.act(&survey).await;
    eventually("the letters are surveyed", async || {
        ana.see(at).await.1.contains("letters were seen")
    })
    .await;
    let (_, letters) = ana.see(at).await;
    let value = |name: &str| {
        let start = format!("name=\"{name}\" value=\"");
        let rest = letters.split(&start).nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let groups = letters.split("name=\"group\" value=\"").skip(1);
    let groups = groups.filter(|row| row.split("</tr>").next().unwrap().contains("HTTP 503"));
    let groups = groups.map(|row| format!("&group={}", row.split('"').next().unwrap()));
    let preview = format!(
        "/dead-letters/redrive?queue=orders&host={}&survey={}&grouped-by=cause&only=retry&ramp=5,all&watch-for=1s&keep-copies=yes{}",
        value("host"),
        value("survey"),
        groups.collect::<String>()
    );
    let (_, preview) = ana.see(&preview).await;
    let (status, begun) = ana.act(&button(&preview)).await;
    assert!(
        begun["summary"]
            .as_str()
            .unwrap_or_default()
            .contains("has begun"),
        "{status} {begun} {preview}"
    );
    eventually("the letters are home", async || {
        let (_, runs) = ana.see("/redrives").await;
        runs.contains(">done</strong>") && runs.contains("<dt>failed again</dt><dd>0</dd>")
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
