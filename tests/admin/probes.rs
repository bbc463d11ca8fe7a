//! `/livez` and `/readyz` through the life of a host: starting, working, cut off, stopping.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command};
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

#[tokio::test]
async fn a_host_that_starts_lives_and_is_not_ready() {
    // Nothing answers there, so the queue is being checked for seconds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let queue = format!("{endpoint}/000000000000/orders");
    // The address is known before the host is.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let arguments = [
        "run",
        "--queue-url",
        &queue,
        "--endpoint-url",
        &endpoint,
        "--exec",
        "true",
        "--admin",
        &address,
    ];
    let _starting = command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    let url = format!("http://{address}");
    eventually("the host lives", || async {
        let live = reqwest::get(format!("{url}/livez")).await;
        live.is_ok_and(|live| live.status() == 200)
    })
    .await;
    let why = reasons(&url).await.unwrap();
    assert!(why.contains("the host is starting"), "{why}");
    let (status, error) = get(&url, "/v1/status").await;
    assert_eq!((status, error["error"].is_string()), (503, true));
    assert_eq!(get(&url, "/metrics").await.0, 503);
}

#[tokio::test]
async fn a_host_is_ready_while_its_queues_are_polled_and_it_is_not_stopping() {
    let is_cut_off = Arc::new(AtomicBool::new(false));
    let proxied = Arc::clone(&is_cut_off);
    let upstream = ministack().endpoint.clone();
    let proxy = Proxy::start(&upstream, move |operation, _| {
        match (proxied.load(SeqCst), operation) {
            (true, "ReceiveMessage") => Fault::Denied,
            _ => Fault::None,
        }
    })
    .await;
    let queues = Queues::standard(&upstream, &[]).await;
    let work = tempfile::tempdir().unwrap();
    let started = work.path().join("started");
    let running = Running::start(&[
        "--queue-url",
        &queues.url,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--endpoint-url",
        &proxy.endpoint,
        "--exec",
        &format!("sh -c 'touch {}; sleep 4'", started.display()),
        "--admin",
        "127.0.0.1:0",
        "--grace",
        "20s",
    ])
    .await;
    let url = running.admin();
    eventually("it is ready", || async { reasons(&url).await.is_none() }).await;
    let metrics = reqwest::get(format!("{url}/metrics")).await.unwrap();
    let content_type = &metrics.headers()["content-type"];
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    let metrics = metrics.text().await.unwrap();
    for name in ["backstop_polls{", "backstop_policy_info{"] {
        assert!(metrics.contains(name), "{metrics}");
    }

    is_cut_off.store(true, SeqCst);
    // The poll that is open ends.
    queues.send(["one".to_owned()]).await;
    eventually("it is cut off", || async { reasons(&url).await.is_some() }).await;
    let why = reasons(&url).await.unwrap();
    assert!(why.contains("can't be polled"), "{why}");
    assert_eq!(get(&url, "/livez").await.0, 200);
    is_cut_off.store(false, SeqCst);
    eventually("it is back", || async { reasons(&url).await.is_none() }).await;

    eventually("the message is handled", || async { started.exists() }).await;
    std::fs::remove_file(&started).unwrap();
    queues.send(["two".to_owned()]).await;
    eventually("the message is handled", || async { started.exists() }).await;
    running.signal(Signal::TERM);
    eventually("it stops", || async {
        let why = reasons(&url).await;
        why.is_some_and(|why| why.contains("the host is stopping"))
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
