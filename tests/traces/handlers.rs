//! The trace context reaches the handler in the headers and variables that libraries read, with and without traces.

use std::collections::BTreeMap;

use crate::world::{SENDER, World};

const XRAY: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

#[tokio::test]
async fn without_traces_a_worker_gets_what_the_sender_has_written() {
    let world = World::new(|_| 200).await;
    let host = world.untraced(&[], &[]).await;
    let long = format!("v={}", "x".repeat(600));
    for (parent, state, expected) in [
        (SENDER, "v=1", (Some(SENDER), Some("v=1"))),
        (SENDER, &long, (Some(SENDER), None)),
        ("00-forged", "v=1", (None, None)),
    ] {
        let before = world.worker.attempts().len();
        let attributes = [("traceparent", parent), ("tracestate", state)];
        world.send(&attributes, Some(XRAY)).await;
        world.emptied().await;
        let attempts = world.worker.attempts();
        let headers = &attempts[before].headers;
        let header = |name: &str| headers.get(name).map(|it| it.to_str().unwrap());
        assert_eq!((header("traceparent"), header("tracestate")), expected);
        assert_eq!(header("x-amzn-trace-id"), Some(XRAY));
        assert_eq!(header("x-aws-sqsd-attr-traceparent"), Some(parent));
    }
    host.stop().await;
}

#[tokio::test]
async fn a_command_gets_the_span_of_its_attempt_in_its_environment_and_none_of_the_hosts() {
    let world = World::new(|_| 200).await;
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let script = format!("sh -c 'env >> {}'", seen.display());
    let stale = [("TRACEPARENT", "stale"), ("TRACESTATE", "stale")];
    let host = world.host_with(&["--exec", &script], &[], &stale).await;
    world.send(&[("traceparent", SENDER)], Some(XRAY)).await;
    let process = &world.collector.wait_for(&world.span("process"), 1).await[0];
    world.emptied().await;
    host.stop().await;
    let seen = std::fs::read_to_string(seen).unwrap();
    let variables: BTreeMap<_, _> = seen.lines().filter_map(|it| it.split_once('=')).collect();
    let expected = format!("00-{}-{}-01", process.trace, process.id);
    assert_eq!(variables["TRACEPARENT"], expected);
    assert!(!variables.contains_key("TRACESTATE"));
    let xray = variables["_X_AMZN_TRACE_ID"];
    assert!(
        xray.contains(&format!("Parent={};Sampled=1", process.id)),
        "{xray}"
    );
}
