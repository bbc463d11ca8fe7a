//! Metrics for Prometheus: recorded in memory, and served as text at an address that the operator names.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::telemetry::{self, Kind, METRICS};

/// How often recorded measurements are folded into their buckets when nobody reads them.
const UPKEEP: Duration = Duration::from_secs(5);

/// The most connections at once.
const CONNECTIONS: usize = 64;

/// How long a request's headers may take to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a request's headers. Its body is not read.
const HEADER_BYTES: usize = 16 << 10;

/// The longest duration of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after a failed accept, such as when the file descriptors are used up.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The content type of the text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why metrics can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The address is in use, or not one of this machine.
    #[error("can't serve metrics at {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The program has already installed another metrics recorder.
    #[error("can't serve metrics: {0}")]
    Taken(String),
}

/// A listening socket, and the metrics to serve on it. Metrics are recorded from its start on.
pub(crate) struct Exporter {
    listener: TcpListener,
    metrics: PrometheusHandle,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exporter").field(&self.listener).finish()
    }
}

impl Exporter {
    /// Listens, and starts to record. Early requests wait for [`Exporter::serve`].
    pub(crate) async fn start(address: SocketAddr) -> Result<Self, ExporterError> {
        let failed = |cause| ExporterError::Address { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let metrics = recorder().map_err(ExporterError::Taken)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!("serving metrics at http://{address}/metrics");
        Ok(Self { listener, metrics })
    }

    /// Serves `GET /metrics` until the set is dropped. Each read calls `update` first.
    pub(crate) fn serve(self, update: impl Fn() + Send + Sync + 'static) -> JoinSet<()> {
        let Self { listener, metrics } = self;
        let mut tasks = JoinSet::new();
        let upkeep = metrics.clone();
        tasks.spawn(async move {
            let mut ticks = interval(UPKEEP);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                upkeep.run_upkeep();
            }
        });
        let pages = move |path: &str| {
            (path == "/metrics").then(|| {
                update();
                metrics.render()
            })
        };
        tasks.spawn(accept(listener, Arc::new(pages)));
        tasks
    }
}

/// Returns the text at a path, if there is one.
type Pages = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

fn answer(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (status, header, text) = match (request.method(), pages(path)) {
        (_, None) => (StatusCode::NOT_FOUND, None, String::new()),
        (&Method::GET | &Method::HEAD, Some(text)) => {
            (StatusCode::OK, Some((CONTENT_TYPE, TEXT)), text)
        }
        (_, Some(_)) => (
            StatusCode::METHOD_NOT_ALLOWED,
            Some((ALLOW, "GET, HEAD")),
            String::new(),
        ),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    if let Some((name, value)) = header {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Answers one request on each connection, forever. Clients cost a bounded number of connections, bytes and seconds; at the limit, a new connection waits until another has ended.
async fn accept(listener: TcpListener, pages: Pages) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = answer_once(stream, Arc::clone(&pages));
                connections.spawn(timeout(CONNECTION_TIMEOUT, connection));
            }
            Err(error) => {
                tracing::debug!(%error, "failed to accept a connection for metrics");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

async fn answer_once(stream: TcpStream, pages: Pages) {
    let service = service_fn(|request| {
        let response = answer(&request, &pages);
        async move { Ok::<_, Infallible>(response) }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "failed to answer a request for metrics");
    }
}

/// The recorder of this process, installed at the first call.
fn recorder() -> Result<PrometheusHandle, String> {
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(metrics) = installed.as_ref() {
        return Ok(metrics.clone());
    }
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if let Kind::Histogram(bounds) = metric.kind {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder
                .set_buckets_for_metric(name, bounds)
                .map_err(|error| error.to_string())?;
        }
    }
    let recorder = builder.build_recorder();
    let metrics = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    telemetry::describe();
    *installed = Some(metrics.clone());
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n";

    /// A server with a short response and one that is larger than any socket buffer.
    async fn start() -> (SocketAddr, JoinSet<()>) {
        let pages = |path: &str| match path {
            "/metrics" => Some("up 1\n".to_owned()),
            "/large" => Some("x".repeat(16 << 20)),
            _ => None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::new(pages)));
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
    async fn idle_connections_are_closed_and_do_not_block_other_clients() {
        let (address, _server) = start().await;
        let mut idle = Vec::new();
        for number in 0..2 * CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            if number % 2 == 0 {
                stream
                    .write_all(b"GET /metrics HTTP/1.1\r\nx:")
                    .await
                    .unwrap();
            }
            idle.push(stream);
        }
        let scraped = timeout(4 * HEADER_TIMEOUT, scrape(address)).await;
        assert!(scraped.expect("in time").contains("up 1"));
        for mut stream in idle {
            let mut rest = Vec::new();
            let closed = timeout(4 * HEADER_TIMEOUT, stream.read_to_end(&mut rest)).await;
            let _ = closed.expect("closed");
        }
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
        let scraped = timeout(2 * CONNECTION_TIMEOUT, scrape(address)).await;
        assert!(scraped.expect("in time").contains("up 1"));
        server.abort_all();
    }

    #[tokio::test]
    async fn other_paths_and_methods_are_rejected() {
        let (address, _server) = start().await;
        for (request, status) in [
            ("GET /", "404 Not Found"),
            ("POST /metrics", "405 Method Not Allowed"),
            ("HEAD /metrics", "200 OK"),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("{request} HTTP/1.1\r\nhost: here\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
        }
    }
}
