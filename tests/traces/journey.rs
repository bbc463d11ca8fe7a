//! The life of one message, as its traces tell it: sent, failed twice, held by a resend in between, dead-lettered, redriven and done.

use std::collections::{BTreeMap, BTreeSet};

use backstop_tests::backstop::{command, text};
use backstop_tests::eventually;

use crate::world::{SENDER, TWICE, World, name, sender};

#[tokio::test]
async fn one_message_is_followed_from_its_sender_to_its_end_through_the_dead_letter_queue() {
    let world = World::new(|_| 503).await;
    let xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=a:1|b:2";
    let attributes = [("traceparent", SENDER), ("tracestate", "v=1")];
    world.send(&attributes, Some(xray)).await;

    // It fails twice, and is sent again in between.
    let flags = [&TWICE[..], &["--hold", "resend"]].concat();
    let host = world.host(&flags, &[]).await;
    eventually("the message is dead-lettered", || async {
        world.queues.dead().await == 1
    })
    .await;
    world.emptied().await;
    host.stop().await;

    // An operator sends it back.
    let redrive = ["dlq", "redrive", &world.queues.dead_letters];
    let to = ["--to", &world.queues.url];
    let endpoint = ["--endpoint-url", &world.queues.endpoint];
    let mut redrive = command(&[&redrive[..], &to, &endpoint].concat());
    let folder = tempfile::tempdir().unwrap();
    redrive
        .env("XDG_STATE_HOME", folder.path())
        .envs(world.collector.variables());
    let output = redrive.output().await.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));

    // And it is done.
    let healthy = World {
        queues: world.queues.clone(),
        ..World::new(|_| 200).await
    };
    let host = world
        .host_with(&["--http", &healthy.worker.url], &[], &[])
        .await;
    world.emptied().await;
    host.stop().await;

    let collected = |operation: &str| world.collector.named(&world.span(operation));
    let processes = collected("process");
    let [first, second, third] = &processes[..] else {
        panic!("{processes:?}");
    };
    let dead = name(&world.queues.dead_letters);
    let (again, letter) = (
        collected("send"),
        world.collector.named(&format!("send {dead}")),
    );
    let redrives = collected("redrive");
    let ([again], [letter], [redrive]) = (&again[..], &letter[..], &redrives[..]) else {
        panic!("{again:?} {letter:?} {redrives:?}");
    };

    // The first attempt is in the trace of the sender. What follows hours later has links.
    assert_eq!((first.trace.clone(), first.parent.clone()), sender());
    assert!(again.is_in(first));
    assert_eq!(
        (second.parent.as_str(), &second.links[..2]),
        ("", &[sender(), first.place()][..])
    );
    assert!(letter.is_in(second));
    assert_eq!(redrive.links, [sender(), second.place()]);
    assert_eq!((redrive.kind, redrive.parent.as_str()), ("producer", ""));
    assert_eq!(
        (third.parent.as_str(), &third.links[..2]),
        ("", &[sender(), redrive.place()][..])
    );
    let traces = [first, second, redrive, third].map(|span| span.trace.clone());
    let distinct: BTreeSet<_> = traces.iter().collect();
    assert_eq!(distinct.len(), 4, "{traces:?}");

    // Nothing else was recorded of it: by trace, the names of its spans in their order.
    let mut names = BTreeMap::<String, Vec<String>>::new();
    for span in world.collector.spans() {
        if let Some(position) = traces.iter().position(|trace| *trace == span.trace) {
            let operation = span.name.split(' ').next().unwrap().to_owned();
            let number = position.to_string();
            names.entry(number).or_default().push(operation);
        }
    }
    let expected = [
        ("0", &["process", "decide", "send", "delete"][..]),
        ("1", &["process", "decide", "send", "delete"]),
        ("2", &["redrive"]),
        ("3", &["process", "delete"]),
    ];
    let expected = expected.map(|(trace, names)| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        (trace.to_owned(), names)
    });
    assert_eq!(names, expected.into());

    // The id is the same in all of them, and the sender's context is untouched.
    let id = first.attribute("messaging.message.id");
    for span in [second, again, letter, redrive] {
        assert_eq!(span.attribute("messaging.message.id"), id, "{}", span.name);
    }
    let attempts = world.worker.attempts().into_iter();
    let attempts = attempts.chain(healthy.worker.attempts());
    let mut headers = Vec::new();
    for (attempt, process) in attempts.zip(&processes) {
        let header = |name: &str| attempt.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-aws-sqsd-attr-traceparent"), SENDER);
        let expected = format!("00-{}-{}-01", process.trace, process.id);
        assert_eq!(header("traceparent"), expected);
        headers.push(attempt.headers.get("x-amzn-trace-id").cloned());
        let has_state = attempt.headers.contains_key("tracestate");
        assert_eq!(has_state, process.parent == sender().1);
    }
    // The emulators drop X-Ray's header from messages that are sent in batches, as SQS does not.
    let (time, random) = first.trace.split_at(8);
    let root = format!("Root=1-{time}-{random};Parent={}", first.id);
    let expected = format!("{root};Sampled=1;Lineage=a:1|b:2");
    assert_eq!(headers[0].as_ref().unwrap(), expected.as_str());
}
