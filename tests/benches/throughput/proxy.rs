//! A proxy that adds latency: what a client sends reaches the queue 10 ms later. Connections stay open as long as both ends want.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How much later a request arrives.
const ADDED: Duration = Duration::from_millis(10);

/// Prints where it listens, and forwards until its standard input is closed.
pub(crate) async fn run(upstream: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let upstream: &'static str = upstream.to_owned().leak();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(forward(client, upstream));
        }
    });
    let closed = || std::io::stdin().read_line(&mut String::new());
    let _ = tokio::task::spawn_blocking(closed).await;
}

async fn forward(client: TcpStream, upstream: &str) {
    let server = TcpStream::connect(upstream).await.unwrap();
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    tokio::spawn(delay(from_client, to_server));
    let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
}

/// Each piece is written this much after it was read, however many are on their way.
async fn delay(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
) {
    let (pieces, mut delayed) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some((due, piece)) = delayed.recv().await {
            sleep_until(due).await;
            let piece: Vec<u8> = piece;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let piece = buffer[..length].to_vec();
        if pieces.send((Instant::now() + ADDED, piece)).is_err() {
            return;
        }
    }
}
