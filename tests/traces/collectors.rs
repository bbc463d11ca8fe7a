//! What is sent to a collector and how, and what one costs that does not answer.

use std::time::Duration;

use crate::world::{SENDER, TWICE, World};

#[tokio::test]
async fn spans_are_sent_by_grpc_too() {
    let world = World::new(|_| 200).await;
    world.send(&[("traceparent", SENDER)], None).await;
    let variables = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_SERVICE_NAME", "orders"),
    ];
    let host = world.host(&[], &variables).await;
    let process = &world.collector.wait_for(&world.span("process"), 1).await[0];
    host.stop().await;
    assert_eq!(process.resource["service.name"], "orders");
    let types = world.collector.types();
    assert!(types.iter().all(|it| it == "application/grpc"), "{types:?}");
}

#[tokio::test]
async fn a_message_that_its_sender_does_not_record_is_not_recorded_at_any_attempt() {
    let world = World::new(|_| 503).await;
    let unsampled = SENDER.replace("-01", "-00");
    world.send(&[("traceparent", &unsampled)], None).await;
    let host = world.host(&TWICE, &[]).await;
    world.emptied().await;
    // A message without trace context is recorded.
    world.send(&[], None).await;
    world.collector.wait_for(&world.span("process"), 1).await;
    world.emptied().await;
    host.stop().await;
    let processes = world.collector.named(&world.span("process"));
    let recorded: Vec<_> = processes
        .iter()
        .map(|it| it.attribute("messaging.message.id"))
        .collect();
    assert_eq!(recorded.len(), 2, "{processes:?}");
    assert_eq!(recorded[0], recorded[1]);
    assert!(processes.iter().all(|it| !it.trace.starts_with("0af7")));
}

#[tokio::test]
async fn a_sender_that_does_not_record_hides_no_receive_of_other_messages() {
    let world = World::new(|_| 200).await;
    let unsampled = SENDER.replace("-01", "-00");
    world.send(&[("traceparent", &unsampled)], None).await;
    for _ in 0..9 {
        world.send(&[], None).await;
    }
    let host = world.host(&[], &[]).await;
    world.emptied().await;
    host.stop().await;
    assert_eq!(world.collector.named(&world.span("process")).len(), 9);
    let receives = world.collector.named(&world.span("receive"));
    let messages = receives
        .iter()
        .map(|it| it.attribute("messaging.batch.message_count"));
    let messages: u64 = messages.map(|it| it.parse::<u64>().unwrap()).sum();
    assert!(messages >= 9, "{receives:?}");
}

#[tokio::test]
async fn an_endpoint_alone_sends_nothing_and_the_flag_does() {
    let world = World::new(|_| 200).await;
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", world.collector.url());
    let host = world.untraced(&[], &[endpoint]).await;
    world.send(&[], None).await;
    world.emptied().await;
    assert!(
        host.log()
            .contains("set traces or OTEL_TRACES_EXPORTER to otlp")
    );
    host.stop().await;
    assert_eq!(world.collector.spans(), []);
    // The end of a host sends what has not been sent.
    let host = world.untraced(&["--traces", "otlp"], &[endpoint]).await;
    world.send(&[], None).await;
    world.emptied().await;
    host.stop().await;
    assert_eq!(world.collector.named(&world.span("process")).len(), 1);
}

#[tokio::test]
async fn a_collector_that_does_not_answer_costs_no_message_and_no_long_end() {
    let world = World::new(|_| 200).await;
    // Accepts connections, and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let gone = "http://127.0.0.1:9".to_owned();
    for (endpoint, protocol) in [
        (&silent, "http/protobuf"),
        (&silent, "grpc"),
        (&gone, "http/protobuf"),
        (&gone, "grpc"),
    ] {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "600000"),
        ];
        let before = world.worker.attempts().len();
        let host = world.host(&[], &variables).await;
        let bodies = (0..200).map(|number| number.to_string());
        world.queues.send(bodies).await;
        world.emptied().await;
        assert_eq!(world.worker.attempts().len(), before + 200);
        let began = tokio::time::Instant::now();
        host.stop().await;
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(8),
            "{endpoint} {protocol}: {took:?}"
        );
    }
}
