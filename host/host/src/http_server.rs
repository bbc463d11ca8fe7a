//! An HTTP/1.1 server for few, short requests: of the admin interface and of the metrics.
//!
//! Each connection carries one request. Clients cost a bounded number of connections, bytes and seconds. At the limit of connections, a new one takes the place of the oldest that has not sent its request yet, so that connections which send nothing keep no probe waiting; if all have sent theirs, it waits until one has ended.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

/// The most connections at once.
pub(crate) const CONNECTIONS: usize = 64;

/// How long a request's headers may take to arrive.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a request's headers.
const HEADER_BYTES: usize = 16 << 10;

/// How long a connection may take before its request has arrived, and again from its response on.
pub(crate) const TRANSFER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request may take from its headers to its response. A rollback may have to compile the previous version, which may take five minutes.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(330);

/// How long to wait after a failed accept, such as when the file descriptors are used up.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// A response, complete in memory.
pub(crate) type FullResponse = Response<Full<Bytes>>;

/// Answers one request of a client.
pub(crate) type App =
    Arc<dyn Fn(Request<Incoming>, Peer) -> BoxFuture<'static, FullResponse> + Send + Sync>;

/// The other end of a connection, as the system knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this machine, on the control socket.
    Process {
        /// Its user.
        uid: u32,
        /// Its id, if the system says it.
        pid: Option<i32>,
    },
    /// An address.
    Address(SocketAddr),
}

/// A socket that accepts connections.
pub(crate) trait Listener: Send + 'static {
    /// The connections.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for a connection.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = Self::accept(self).await?;
        Ok((stream, Peer::Address(address)))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = Self::accept(self).await?;
        let process = stream.peer_cred()?;
        let (uid, pid) = (process.uid(), process.pid());
        Ok((stream, Peer::Process { uid, pid }))
    }
}

/// Answers one request on each connection, forever.
pub(crate) async fn serve(listener: impl Listener, app: App) {
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                connections.make_room().await;
                let has_sent = Arc::<AtomicBool>::default();
                let connection = answer_once(stream, peer, Arc::clone(&app), Arc::clone(&has_sent));
                let task = connections.tasks.spawn(connection);
                connections.open.push_back(Open { task, has_sent });
            }
            Err(error) => {
                tracing::debug!(%error, "failed to accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// The open connections.
#[derive(Debug, Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// The oldest first. Some may have ended.
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    task: AbortHandle,
    /// Whether the headers of its request have arrived.
    has_sent: Arc<AtomicBool>,
}

impl Connections {
    /// Ends the oldest connections that have not sent their request, or waits for others to end, until one more is allowed.
    async fn make_room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|open| !open.task.is_finished());
        while self.tasks.len() >= CONNECTIONS {
            let is_idle = |open: &Open| !open.has_sent.load(Relaxed);
            let idle = self.open.iter().position(is_idle);
            if let Some(oldest) = idle.and_then(|index| self.open.remove(index)) {
                oldest.task.abort();
            }
            self.tasks.join_next().await;
        }
    }
}

async fn answer_once<S>(stream: S, peer: Peer, app: App, has_sent: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (deadline, moved) = watch::channel(Instant::now() + TRANSFER_TIMEOUT);
    let (deadline, app, has_sent) = (&deadline, &app, &has_sent);
    let service = service_fn(move |request| async move {
        has_sent.store(true, Relaxed);
        deadline.send_replace(Instant::now() + ANSWER_TIMEOUT);
        let response = app(request, peer).await;
        deadline.send_replace(Instant::now() + TRANSFER_TIMEOUT);
        Ok::<_, Infallible>(response)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "failed to answer a request");
        },
        () = passed(moved) => tracing::debug!("a connection took too long"),
    }
}

/// Returns when the deadline has passed, wherever it was moved to.
async fn passed(mut deadline: watch::Receiver<Instant>) {
    loop {
        let until = *deadline.borrow_and_update();
        tokio::select! {
            () = sleep_until(until) => return,
            moved = deadline.changed() => if moved.is_err() {
                return pending().await;
            },
        }
    }
}

#[cfg(test)]
#[path = "http_server_tests.rs"]
mod tests;
