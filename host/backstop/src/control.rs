//! The control socket of a running host: how `backstop policy status` and `backstop policy rollback` reach it.
//!
//! It is a Unix socket in the private cache directory of the host's policies, so that whoever may write to the directory may send requests. Each connection carries one request and one response, each a line of JSON.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::{LivePolicy, RolledBack, Status, Store};

/// How long a client waits for a host. A rollback may have to compile the previous version first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest size of a request, in bytes.
const REQUEST_BYTES: u64 = 64 << 10;

/// The largest size of a response, in bytes.
const RESPONSE_BYTES: u64 = 64 << 20;

/// A request to a running host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum Request {
    /// Returns the status of its policies.
    Status,
    /// Rolls back its policies to their previous versions.
    RollBack {
        /// The queues whose policies are rolled back; all if empty.
        queues: Vec<String>,
    },
}

/// A running host's status of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueueStatus {
    /// The queue's name in the configuration.
    pub queue: String,
    /// The status of its policy.
    pub policy: Status,
    /// The result of a rollback, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<Result<RolledBack, String>>,
}

/// A running host's response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Response {
    /// Its process id.
    pub process: u32,
    /// The queues.
    pub queues: Vec<QueueStatus>,
}

/// The policy of each queue, by the queue's name.
pub type Policies = Vec<(String, Arc<LivePolicy>)>;

/// Serves the control socket until dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    ended: Arc<AtomicBool>,
}

impl Control {
    /// Serves requests for these policies on a socket in the store, on a separate thread.
    pub fn listen(store: &Store, policies: Policies) -> io::Result<Self> {
        let folder = store.running();
        remove_stale_sockets(&folder)?;
        // Containers that share the directory may have equal process ids.
        let mark = RandomState::new().hash_one(0) & 0xFFFF_FFFF;
        let path = folder.join(format!("{}-{mark:08x}", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        let control = Self {
            path,
            ended: Arc::default(),
        };
        let ended = Arc::clone(&control.ended);
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || serve(&listener, &Arc::new(policies), &ended))?;
        Ok(control)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Serves each connection on its own thread, so that a rollback that compiles a version does not delay a status request.
fn serve(listener: &UnixListener, policies: &Arc<Policies>, ended: &AtomicBool) {
    for stream in listener.incoming() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        match stream {
            Ok(stream) => {
                let policies = Arc::clone(policies);
                let builder = thread::Builder::new().name("control".to_owned());
                let started = builder.spawn(move || {
                    if let Err(error) = respond(stream, &policies) {
                        tracing::debug!(%error, "failed to respond to a request on the control socket");
                    }
                });
                if let Err(error) = started {
                    tracing::debug!(%error, "can't start a thread for a request on the control socket");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "failed to accept a connection on the control socket");
                // If the file descriptors are used up, the next accept would fail at once too.
                thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

fn respond(mut stream: UnixStream, policies: &Policies) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES)).read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)?;
    let mut response = serde_json::to_vec(&execute(&request, policies))?;
    response.push(b'\n');
    stream.write_all(&response)
}

fn execute(request: &Request, policies: &Policies) -> Response {
    let mut done: Vec<(Arc<LivePolicy>, Result<RolledBack, String>)> = Vec::new();
    let queues = policies.iter().filter_map(|(queue, policy)| {
        let rolled_back = match request {
            Request::Status => None,
            Request::RollBack { queues } if !queues.is_empty() && !queues.contains(queue) => {
                return None;
            }
            // Queues that share a policy share its versions, so one rollback is enough.
            Request::RollBack { .. } => match done.iter().find(|(it, _)| Arc::ptr_eq(it, policy)) {
                Some((_, result)) => Some(result.clone()),
                None => {
                    let result = roll_back(queue, policy);
                    done.push((Arc::clone(policy), result.clone()));
                    Some(result)
                }
            },
        };
        Some(QueueStatus {
            queue: queue.clone(),
            policy: policy.status(),
            rolled_back,
        })
    });
    Response {
        process: std::process::id(),
        queues: queues.collect(),
    }
}

fn roll_back(queue: &str, policy: &LivePolicy) -> Result<RolledBack, String> {
    let result = policy.roll_back("rolled back by the operator");
    match &result {
        Ok(RolledBack { from, to }) => {
            tracing::warn!(queue, from, to, "the operator rolled back a policy");
        }
        Err(error) => tracing::warn!(queue, "a rollback by the operator failed: {error}"),
    }
    result.map_err(|error| error.to_string())
}

/// Removes the sockets of hosts that were killed.
fn remove_stale_sockets(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let connected = UnixStream::connect(&path);
        if connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Sends a request to every running host whose cache is this directory, and returns the response or the error of each. Removes the sockets of hosts that were killed.
pub fn request(cache: &Path, request: &Request) -> io::Result<Vec<io::Result<Response>>> {
    let entries = match Store::running_in(cache).read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut responses = Vec::new();
    for entry in entries {
        let path = entry?.path();
        match UnixStream::connect(&path) {
            Ok(stream) => responses.push(send(stream, request)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => responses.push(Err(error)),
        }
    }
    responses.sort_by_key(|response| response.as_ref().map_or(0, |response| response.process));
    Ok(responses)
}

fn send(mut stream: UnixStream, request: &Request) -> io::Result<Response> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut response = String::new();
    BufReader::new(stream.take(RESPONSE_BYTES)).read_line(&mut response)?;
    Ok(serde_json::from_str(&response)?)
}
