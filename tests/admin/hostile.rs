//! What clients send that want no answer: endless, slow, malformed and many requests.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::world::{TOKEN, World, status_of};

/// The start of a POST, up to the headers about the body.
fn post(world: &World) -> String {
    format!(
        "POST /v1/rollback HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n",
        world.address
    )
}

/// Sends `start`, and then `more` again and again until the host closes the connection. Returns the bytes that it took.
async fn flood(world: &World, start: &str, more: &[u8]) -> usize {
    let mut stream = TcpStream::connect(&world.address).await.unwrap();
    stream.write_all(start.as_bytes()).await.unwrap();
    let mut sent = 0;
    while stream.write_all(more).await.is_ok() {
        sent += more.len();
        assert!(sent < 64 << 20, "the host reads on: {start}");
    }
    sent
}

#[tokio::test]
async fn endless_headers_and_bodies_are_not_read_to_their_end() {
    let world = World::with_token(&[]).await;
    let started = Instant::now();
    let line = format!("x: {}\r\n", "x".repeat(8_000));
    flood(&world, "GET /v1/status HTTP/1.1\r\n", line.as_bytes()).await;
    flood(&world, "GET /livez HTTP/1.1\r\nx: ", &[b'x'; 8_000]).await;
    flood(&world, "GET /", &[b'x'; 8_000]).await;
    let post = post(&world);
    let chunk = format!("1f40\r\n{}\r\n", "x".repeat(8_000));
    for start in [
        format!("{post}content-length: 99999999999\r\n\r\n"),
        format!("{post}content-length: 65537\r\n\r\n"),
        format!(
            "GET /livez HTTP/1.1\r\nhost: {}\r\ncontent-length: 99999999999\r\n\r\n",
            world.address
        ),
        // Without the token, no body is read at all.
        format!(
            "{}content-length: 60000\r\n\r\n",
            post.replace(TOKEN, "wrong")
        ),
    ] {
        flood(&world, &start, &[b'x'; 8_000]).await;
    }
    let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n");
    flood(&world, &chunked, chunk.as_bytes()).await;
    let extension = format!("{chunked}1;");
    flood(&world, &extension, &[b'x'; 8_000]).await;
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(world.get("/readyz").await.0, 200);
    world.running.stop().await;
}

#[tokio::test]
async fn a_body_that_comes_slowly_is_refused() {
    let world = World::with_token(&[]).await;
    let post = post(&world);
    let slow = async |request: String, expected: u16| {
        let answer = timeout(Duration::from_secs(20), world.raw(request.as_bytes()));
        let answer = answer.await.expect("the host does not close it");
        assert_eq!(status_of(&answer), expected, "{answer}");
    };
    tokio::join!(
        slow(format!("{post}content-length: 20\r\n\r\n{{"), 408),
        slow(
            format!("{post}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n"),
            408
        ),
        slow(
            format!("{post}content-length: 20\r\nexpect: 100-continue\r\n"),
            0
        ),
    );
    assert_eq!(world.rollbacks().await, 0);
    world.running.stop().await;
}

#[tokio::test]
async fn malformed_requests_are_refused_and_change_nothing() {
    let world = World::with_token(&[]).await;
    world.swap().await;
    let post = post(&world);
    let body = |body: &str| format!("{post}content-length: {}\r\n\r\n{body}", body.len());
    let deep = "[".repeat(60_000);
    let many = format!(r#"{{"queues":[{}]}}"#, vec![r#""x""#; 10_000].join(","));
    for (request, expected) in [
        (body(""), 400),
        (body("null"), 400),
        (body("[]x"), 400),
        (body("{"), 400),
        (body(&deep), 400),
        (body(&many), 404),
        (body(r#"{"queues":"orders"}"#), 400),
        (body(r#"{"queues":[1]}"#), 400),
        (body(r#"{"queues":["orders"],"queues":[]}"#), 400),
        (body(r#"{"queues":["orders"]} {}"#), 400),
        (body(r#"{"Queues":["orders"]}"#), 400),
        (body(r#"{"queues":["\u0000"]}"#), 404),
        (body("{\"queues\":[\"\u{1b}[2J\u{202e}\"]}"), 400),
        (format!("{post}content-length: -1\r\n\r\n{{}}"), 400),
        (
            format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
            400,
        ),
        (
            format!("{post}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{{}}"),
            400,
        ),
        (
            format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n"),
            400,
        ),
        (
            post.replace("/v1/rollback", "/v1/rollback?queues=orders")
                + "content-length: 2\r\n\r\n{}",
            400,
        ),
        (
            post.replace("/v1/rollback", "/v1/../v1/rollback") + "content-length: 2\r\n\r\n{}",
            404,
        ),
        (
            post.replace("/v1/rollback", "/v1/rollback/") + "content-length: 2\r\n\r\n{}",
            404,
        ),
        (
            post.replace("/v1/rollback", "/v1/%72ollback") + "content-length: 2\r\n\r\n{}",
            404,
        ),
        (
            post.replace("POST", "GET") + "content-length: 2\r\n\r\n{}",
            405,
        ),
        (
            post.replace("POST", "PUT") + "content-length: 2\r\n\r\n{}",
            405,
        ),
        (post.replace("POST", "TRACE") + "\r\n", 405),
        (
            post.replace("POST", "post") + "content-length: 2\r\n\r\n{}",
            405,
        ),
        (post.replace("POST /v1/rollback", "OPTIONS *") + "\r\n", 404),
        (
            post.replace("/v1/rollback", "http://evil.example/v1/rollback")
                + "content-length: 2\r\n\r\n{}",
            403,
        ),
        (
            "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\r\n".to_owned(),
            403,
        ),
        ("\r\n\r\n".to_owned(), 0),
    ] {
        let answer = timeout(Duration::from_secs(20), world.raw(request.as_bytes()));
        let answer = answer.await.expect("the host does not close it");
        let shown: String = request.chars().take(300).collect();
        assert_eq!(status_of(&answer), expected, "{shown}\n{answer}");
    }
    // Other protocols.
    for bytes in [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /livez\r\n\r\n",
        &[0; 1_000],
        &[0xff; 20_000],
    ] {
        let answer = timeout(Duration::from_secs(20), world.raw(bytes));
        let status = status_of(&answer.await.expect("the host does not close it"));
        assert!([0, 400, 414, 431].contains(&status), "{status}");
    }
    // Of two requests at once, the second is not read.
    let twice = format!("GET /livez HTTP/1.1\r\nhost: {}\r\n\r\n", world.address).repeat(2);
    let answer = world.raw(twice.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    assert_eq!(world.rollbacks().await, 0);
    let log = world.running.log();
    assert!(
        !log.contains("panic") && !log.contains(['\u{1b}', '\u{202e}', '\0']),
        "{log}"
    );
    assert_eq!(world.get("/readyz").await.0, 200);
    world.running.stop().await;
}

#[tokio::test]
async fn many_connections_that_send_nothing_do_not_keep_others_out() {
    let world = World::with_token(&[]).await;
    let mut idle = Vec::new();
    let mut slowest = Duration::ZERO;
    for number in 0..300 {
        let mut stream = TcpStream::connect(&world.address).await.unwrap();
        let start = match number % 3 {
            0 => "",
            1 => "GET /livez HTTP/1.1\r\nx:",
            _ => "POST /v1/rollback HTTP/1.1\r\n",
        };
        let _ = stream.write_all(start.as_bytes()).await;
        idle.push(stream);
        let asked = Instant::now();
        assert_eq!(world.get("/livez").await.0, 200);
        slowest = slowest.max(asked.elapsed());
    }
    // A probe of Kubernetes waits for one second.
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    // Whoever has the token may keep connections busy, for 5 s.
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&world.address).await.unwrap();
        let start = format!("{}content-length: 100\r\n\r\n{{", post(&world));
        let _ = stream.write_all(start.as_bytes()).await;
        idle.push(stream);
    }
    let answer = timeout(Duration::from_secs(30), world.get("/livez")).await;
    assert_eq!(answer.expect("an answer").0, 200);
    // The commands of this machine come in by another door.
    let cache = world.at("kept");
    let started = Instant::now();
    let (code, _, error) = world
        .policy(&["status", "--cache", cache.to_str().unwrap()])
        .await;
    assert_eq!(code, 0, "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
    for mut stream in idle {
        let mut rest = Vec::new();
        let closed = timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
        let _ = closed.expect("closed");
    }
    // Connections that come and go leave nothing behind.
    for _ in 0..2_000 {
        drop(TcpStream::connect(&world.address).await.unwrap());
    }
    assert_eq!(world.get("/readyz").await.0, 200);
    let files = std::fs::read_dir(format!("/proc/{}/fd", world.running.id())).unwrap();
    assert!(files.count() < 100);
    world.running.stop().await;
}

#[tokio::test]
async fn actions_of_clients_that_leave_run_to_their_end() {
    let world = World::start().await;
    world.swap().await;
    let request = format!(
        "POST /v1/rollback HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
        world.address
    );
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&world.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
    }
    backstop_tests::eventually("it is rolled back", || async {
        world.rollbacks().await == 1
    })
    .await;
    let (status, answer) = world.post("/v1/rollback", &json!({})).await;
    assert!([200, 503].contains(&status), "{answer}");
    world.running.stop().await;
}
