//! The spans of attempts, and of what follows them.

use backstop_tests::backstop::{run, text};

use crate::world::{SENDER, TWICE, World, name, sender};

#[tokio::test]
async fn a_message_is_processed_in_the_trace_of_its_sender() {
    let world = World::new(|_| 200).await;
    world.send(&[("traceparent", SENDER)], None).await;
    let host = world.host(&[], &[]).await;
    let process = &world.collector.wait_for(&world.span("process"), 1).await[0];
    let delete = &world.collector.wait_for(&world.span("delete"), 1).await[0];
    host.stop().await;
    let (trace, span) = sender();
    assert_eq!((&process.trace, &process.parent), (&trace, &span));
    assert_eq!((process.kind, process.is_error), ("consumer", false));
    for (attribute, expected) in [
        ("messaging.system", "aws_sqs"),
        ("messaging.destination.name", world.name()),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("aws.sqs.queue.url", &world.queues.url),
        ("server.address", "127.0.0.1"),
        ("backstop.attempt", "1"),
    ] {
        assert_eq!(process.attribute(attribute), expected, "{attribute}");
    }
    assert_eq!(process.attribute("messaging.message.id").len(), 36);
    assert!(delete.is_in(process) && delete.start >= process.end);
    assert_eq!(delete.kind, "client");
    assert_eq!(delete.attribute("messaging.operation.type"), "settle");
    // The receive is a trace of its own: it may bring the messages of many senders.
    let receive = &world.collector.named(&world.span("receive"))[0];
    assert_eq!((receive.kind, receive.parent.as_str()), ("client", ""));
    assert_eq!(receive.links, [sender()]);
    assert_eq!(receive.attribute("messaging.batch.message_count"), "1");
    assert_eq!(process.links, [receive.place()]);
    assert_eq!(process.resource["service.name"], "backstop");
    // None for a poll that brings nothing.
    assert_eq!(world.collector.spans().len(), 3);
}

#[tokio::test]
async fn a_retry_begins_a_trace_with_links_to_its_sender_and_to_the_attempt_before() {
    let world = World::new(|_| 503).await;
    world.send(&[("traceparent", SENDER)], None).await;
    let host = world.host(&TWICE, &[]).await;
    let send = format!("send {}", name(&world.queues.dead_letters));
    let send = &world.collector.wait_for(&send, 1).await[0];
    world.emptied().await;
    host.stop().await;
    let processes = world.collector.named(&world.span("process"));
    let [first, second] = &processes[..] else {
        panic!("{processes:?}");
    };
    assert!(first.is_error && second.is_error);
    assert_eq!(first.attribute("error.type"), "HTTP 503");
    assert_eq!(
        (first.trace.clone(), second.parent.as_str()),
        (sender().0, "")
    );
    assert_ne!(first.trace, second.trace);
    assert_eq!(second.links[..2], [sender(), first.place()]);
    assert_eq!(second.attribute("backstop.attempt"), "2");
    let decisions = world.collector.named(&world.span("decide"));
    let [retry, end] = &decisions[..] else {
        panic!("{decisions:?}");
    };
    assert!(retry.is_in(first) && end.is_in(second));
    for (decision, attribute, expected) in [
        (retry, "backstop.class", "transient"),
        (retry, "backstop.verdict", "retry"),
        (retry, "backstop.by", "policy"),
        (retry, "backstop.delay", "1"),
        (retry, "backstop.hold", "visibility"),
        (end, "backstop.verdict", "dead-letter"),
        (end, "backstop.by", "bound"),
        (end, "backstop.delay", ""),
    ] {
        assert_eq!(decision.attribute(attribute), expected, "{attribute}");
    }
    assert!(
        retry
            .attribute("backstop.policy.digest")
            .starts_with("sha256:")
    );
    let hidden = &world.collector.named(&world.span("change_visibility"))[0];
    assert!(hidden.is_in(first));
    assert_eq!(send.kind, "producer");
    assert!(send.is_in(second));
}

#[tokio::test]
async fn the_header_of_x_ray_is_read_and_w3c_precedes_it() {
    let world = World::new(|_| 200).await;
    let xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    world.send(&[], Some(xray)).await;
    let host = world.host(&[], &[]).await;
    let process = &world.collector.wait_for(&world.span("process"), 1).await[0];
    assert_eq!(process.trace, "5759e988bd862e3fe1be46a994272793");
    assert_eq!(process.parent, "53995c3f42cd8ad8");
    world.send(&[("traceparent", SENDER)], Some(xray)).await;
    let second = &world.collector.wait_for(&world.span("process"), 2).await[1];
    assert_eq!(second.trace, sender().0);
    // What is invalid is ignored: the attempt begins a trace.
    world.send(&[("traceparent", "00-forged-01")], None).await;
    let third = &world.collector.wait_for(&world.span("process"), 3).await[2];
    assert_eq!(third.parent, "");
    let receive = world.collector.named(&world.span("receive")).pop().unwrap();
    assert_eq!(third.links, [receive.place()]);
    host.stop().await;
}

#[tokio::test]
async fn a_wake_has_a_span_and_the_attempt_that_it_brings_has_its_links() {
    let world = World::new(|receives| if receives == 1 { 503 } else { 200 }).await;
    let folder = tempfile::tempdir().unwrap();
    let cache = ["--cache", folder.path().to_str().unwrap()];
    let hours = ["--policy", "linear", "--set", "base=3h"];
    world.send(&[("traceparent", SENDER)], None).await;
    let host = world.host(&[&hours[..], &cache].concat(), &[]).await;
    world
        .collector
        .wait_for(&world.span("change_visibility"), 1)
        .await;
    let name = world.name().to_owned();
    let woken = run(&[&["wake", &name, "--all"][..], &cache].concat()).await;
    assert!(woken.status.success(), "{}", text(&woken.stderr));
    let wake = &world.collector.wait_for(&world.span("wake"), 1).await[0];
    let second = &world.collector.wait_for(&world.span("process"), 2).await[1];
    world.emptied().await;
    host.stop().await;
    assert_eq!((wake.kind, wake.parent.as_str()), ("client", ""));
    assert_eq!(wake.attribute("messaging.batch.message_count"), "1");
    assert_eq!(wake.attribute("backstop.wake.by"), "wake");
    let first = &world.collector.named(&world.span("process"))[0];
    assert_eq!(second.links[..2], [sender(), first.place()]);
}
