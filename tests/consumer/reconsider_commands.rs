//! `backstop policy reconsider` of messages that are sent again, on real hosts and an emulator.

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::backstop::Running;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::policies::waits;
use serde_json::Value;

use crate::hold_emulators::key_file;
use crate::waiting_commands::{Machine, run};

async fn swapped(hosts: &[Running], count: usize) {
    for host in hosts {
        eventually("the new version decides", || async {
            let log = host.log();
            log.matches("a new version of the policy is active").count() == count
        })
        .await;
    }
}

/// How many messages have come to a host at the end of a hop.
async fn hops(host: &Running) -> f64 {
    let metrics = Scrape::of(&format!("{}/metrics", host.admin())).await;
    metrics.sum("backstop_hops_total", &[])
}

fn sum(answers: &[Value], count: impl Fn(&Value) -> &Value) -> u64 {
    answers.iter().map(|it| count(it).as_u64().unwrap()).sum()
}

#[tokio::test]
async fn the_hosts_that_are_asked_tell_each_other_which_messages_come_at_the_end_of_their_hop() {
    let machine = Machine::new(ministack()).await;
    // The queue keeps messages for a minute: hops of 30 s.
    let queues = &machine.queues;
    let retention = queues.client.set_queue_attributes().queue_url(&queues.url);
    let retention = retention.attributes(Q::MessageRetentionPeriod, "60");
    retention.send().await.unwrap();
    let policy = machine.at("policy.wat");
    std::fs::write(&policy, waits(7_200_000)).unwrap();
    let arguments = [
        "--policy",
        &policy,
        "--hold",
        "resend",
        "--envelope-key-file",
        key_file(),
        "--admin",
        "127.0.0.1:0",
    ];
    let hosts = [
        machine.host(&arguments).await,
        machine.host(&arguments).await,
    ];
    machine.send(40).await;
    machine.until_waiting(40).await;
    // After the first hop, some are at the other host.
    eventually("each message has come to the end of a hop", || async {
        hops(&hosts[0]).await + hops(&hosts[1]).await >= 40.0
    })
    .await;
    machine.until_waiting(40).await;
    std::fs::write(&policy, waits(9_000_000)).unwrap();
    swapped(&hosts, 1).await;
    let name = &machine.name;
    let reconsider = ["policy", "reconsider", name, "--spread", "0s"];
    let later = machine.json(&reconsider).await;
    assert_eq!(sum(&later, |it| &it["resent"]), 0);
    // All may be at the host that has not seen them fail.
    let known = sum(&later, |it| &it["later"]) + sum(&later, |it| &it["elsewhere"]);
    assert!((30..=40).contains(&known), "{later:?}");

    std::fs::write(&policy, waits(1_000)).unwrap();
    swapped(&hosts, 2).await;
    let dry = [&reconsider[..], &["--dry-run"]].concat();
    let (code, shown, error) = machine.run(&dry).await;
    assert_eq!(code, 0, "{error}");
    for part in [
        "are held by being sent again, and would come sooner, when their hop ends or later, the last at ",
        "a host that was not asked may receive what is sent again",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    // By their addresses, as from another machine.
    let urls = hosts.each_ref().map(Running::admin);
    let by_url = ["--json", "--admin", &urls[0], "--admin", &urls[1]];
    let (code, printed, error) = run(&[&reconsider[..], &by_url].concat()).await;
    assert_eq!(code, 0, "{error}");
    let asked = clock::instant();
    let answers: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let own = sum(&answers, |it| &it["resent"]);
    let others = sum(&answers, |it| &it["others"]["resent"]);
    // None is on its way between two hosts but for those whose hop ends just now.
    assert!((30..=40).contains(&(own + others)), "{own} and {others}");
    assert!(answers.iter().all(|it| it["earlier"].is_null()));

    let id = machine.worker.attempts()[0].headers["x-aws-sqsd-msgid"].clone();
    let (_, shown, _) = machine.run(&["why", id.to_str().unwrap()]).await;
    if shown.contains("waits for its next attempt") {
        assert!(
            shown.contains("sooner than decided: it was due at"),
            "{shown}"
        );
    }
    eventually("all have come", || async {
        machine.worker.attempts().len() == 80
    })
    .await;
    assert!(asked.elapsed().as_secs() < 50, "{:?}", asked.elapsed());
    let attempts = machine.attempts();
    assert!(attempts.values().all(|it| it.len() == 2), "{attempts:?}");
    for host in hosts {
        assert_eq!(host.stop().await.0, 0);
    }
}
