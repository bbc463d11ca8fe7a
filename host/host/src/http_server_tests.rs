use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n";

/// A server with a short response and one that is larger than any socket buffer.
async fn start() -> (SocketAddr, JoinSet<()>) {
    let app: App = Arc::new(|request, _| {
        let text = match request.uri().path() {
            "/large" => "x".repeat(16 << 20),
            _ => "up 1\n".to_owned(),
        };
        Box::pin(async move {
            if request.uri().path() == "/slow" {
                sleep(3 * TRANSFER_TIMEOUT).await;
            }
            Response::new(Full::from(text))
        })
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(listener, app));
    (address, tasks)
}

async fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn endless_headers_are_not_read_to_their_end() {
    let (address, _server) = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let line = format!("x: {}\r\n", "x".repeat(8_000));
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n")
        .await
        .unwrap();
    let mut sent = 0;
    while stream.write_all(line.as_bytes()).await.is_ok() {
        sent += line.len();
        // More than the socket buffers of both sides.
        assert!(sent < 64 << 20, "the server does not close it");
    }
    assert!(scrape(address).await.contains("up 1"));
}

#[tokio::test]
async fn an_endless_body_is_not_read() {
    let (address, _server) = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = b"GET /metrics HTTP/1.1\r\nhost: here\r\ncontent-length: 99999999999\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut sent = 0;
    while stream.write_all(&[b'x'; 8_000]).await.is_ok() {
        sent += 8_000;
        assert!(sent < 64 << 20, "the server does not close it");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_and_delay_no_other_client() {
    let (address, _server) = start().await;
    let mut idle = Vec::new();
    for number in 0..2 * CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            let start = b"GET /metrics HTTP/1.1\r\nx:";
            let _ = stream.write_all(start).await;
        }
        idle.push(stream);
        if number % 32 == 31 {
            // Not even while their time is not over.
            let scraped = timeout(HEADER_TIMEOUT / 10, scrape(address)).await;
            assert!(scraped.expect("in time").contains("up 1"));
        }
    }
    for mut stream in idle {
        let mut rest = Vec::new();
        let closed = timeout(4 * HEADER_TIMEOUT, stream.read_to_end(&mut rest)).await;
        let _ = closed.expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_being_answered_is_not_ended_for_another() {
    let (address, _server) = start().await;
    let slow = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /slow HTTP/1.1\r\nhost: here\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    for _ in 0..4 * CONNECTIONS {
        let idle = TcpStream::connect(address).await.unwrap();
        std::mem::forget(idle);
    }
    // Longer than a connection may take to send its request, and to take the answer.
    assert!(slow.await.unwrap().contains("up 1"));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_nobody_reads_ends_with_its_connection() {
    let (address, mut server) = start().await;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /large HTTP/1.1\r\nhost: here\r\n\r\n";
        stream.write_all(request).await.unwrap();
        streams.push(stream);
    }
    let scraped = timeout(2 * TRANSFER_TIMEOUT, scrape(address)).await;
    assert!(scraped.expect("in time").contains("up 1"));
    server.abort_all();
}
