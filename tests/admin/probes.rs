//! `/livez` and `/readyz` through the life of a host: starting, working, cut off, stopping.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use backstop_tests::aws::Queues;
use backstop_tests::backstop::Running;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use rustix::process::Signal;
use serde_json::Value;
use tokio::net::TcpListener;

use super::schema::hold;
use super::world::{World, answer, status_of};

async fn get(url: &str, path: &str) -> (u16, Value) {
    answer(reqwest::Client::new().get(format!("{url}{path}"))).await
}

/// The reasons of a host that is not ready.
async fn reasons(url: &str) -> Option<String> {
    let (status, ready) = get(url, "/readyz").await;
    hold("GET /readyz", &ready);
    assert_eq!(ready["ready"], status == 200);
    (status == 503).then(|| ready["reasons"].to_string())
}

const WORKS: u8 = 0;
const HANGS: u8 = 1;
const FAILS: u8 = 2;

#[tokio::test]
async fn a_host_is_ready_while_its_queues_are_checked_and_polled() {
    let state = Arc::new(AtomicU8::new(HANGS));
    let proxied = Arc::clone(&state);
    let upstream = ministack().endpoint.clone();
    let proxy = Proxy::start(&upstream, move |operation, _| {
        match (proxied.load(SeqCst), operation) {
            (HANGS, _) => Fault::Hanging,
            (FAILS, "ReceiveMessage") => Fault::Denied,
            _ => Fault::None,
        }
    })
    .await;
    let queues = Queues::standard(&upstream, &[]).await;
    // The address is known before the host is.
    let address = {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        free.local_addr().unwrap()
    };
    let url = format!("http://{address}");
    let work = tempfile::tempdir().unwrap();
    let started = work.path().join("started");
    let exec = format!("sh -c 'touch {}; sleep 4'", started.display());
    let (admin, endpoint) = (address.to_string(), proxy.endpoint.clone());
    let (queue, dead_letters) = (queues.url.clone(), queues.dead_letters.clone());
    let starting = tokio::spawn(async move {
        Running::start(&[
            "--queue-url",
            &queue,
            "--dead-letter-queue",
            &dead_letters,
            "--endpoint-url",
            &endpoint,
            "--exec",
            &exec,
            "--admin",
            &admin,
            "--grace",
            "20s",
        ])
        .await
    });
    eventually("the host lives", || async {
        let client = reqwest::Client::new();
        client.get(format!("{url}/livez")).send().await.is_ok()
    })
    .await;
    assert_eq!(get(&url, "/livez").await.0, 200);
    let why = reasons(&url).await.unwrap();
    assert!(why.contains("the host is starting"), "{why}");
    let (status, error) = get(&url, "/v1/status").await;
    assert_eq!((status, error["error"].is_string()), (503, true));
    assert_eq!(get(&url, "/metrics").await.0, 503);

    state.store(WORKS, SeqCst);
    let running = starting.await.unwrap();
    eventually("it is ready", || async { reasons(&url).await.is_none() }).await;
    let metrics = reqwest::get(format!("{url}/metrics")).await.unwrap();
    assert_eq!(
        metrics.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let metrics = metrics.text().await.unwrap();
    assert!(
        metrics.contains("backstop_polls{") && metrics.contains("backstop_policy_info{"),
        "{metrics}"
    );

    state.store(FAILS, SeqCst);
    eventually("it is cut off", || async { reasons(&url).await.is_some() }).await;
    let why = reasons(&url).await.unwrap();
    assert!(why.contains("can't be polled"), "{why}");
    assert_eq!(get(&url, "/livez").await.0, 200);
    state.store(WORKS, SeqCst);
    queues.send(["one".to_owned()]).await;
    eventually("it is back", || async { reasons(&url).await.is_none() }).await;

    eventually("the message is handled", || async { started.exists() }).await;
    running.signal(Signal::TERM);
    eventually("it stops", || async {
        reasons(&url)
            .await
            .is_some_and(|why| why.contains("the host is stopping"))
    })
    .await;
    assert_eq!(get(&url, "/livez").await.0, 200);
    assert_eq!(running.ended().await.0, 0);
}

#[tokio::test]
async fn probes_may_use_head_and_http_1_0() {
    let world = World::with_token(&[]).await;
    for (request, body) in [
        ("HEAD /livez HTTP/1.1", false),
        ("GET /livez HTTP/1.0", true),
        ("GET /readyz?verbose=1 HTTP/1.1", true),
    ] {
        let request = format!(
            "{request}\r\nhost: {}\r\nuser-agent: kube-probe/1.34\r\n\r\n",
            world.address
        );
        let answer = world.raw(request.as_bytes()).await;
        let answer = answer.replace("HTTP/1.0", "HTTP/1.1");
        assert_eq!(status_of(&answer), 200, "{answer}");
        assert_eq!(answer.contains("version"), body, "{answer}");
    }
    world.running.stop().await;
}
