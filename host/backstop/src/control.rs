//! The control socket of a running host: how `backstop policy status` and `backstop policy rollback` reach it.
//!
//! A Unix socket in the private folder in which the host keeps its policies: who may write there may ask. One request, one answer, each a line of JSON.

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

/// For how long one side waits for the other. A version that has to be compiled first takes a while to come back.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than any request.
const REQUEST: u64 = 64 << 10;

/// Longer than any answer.
const ANSWER: u64 = 64 << 20;

/// What a running host is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum Request {
    /// What its policies are.
    Status,
    /// To take the versions that decide back.
    RollBack {
        /// Of these queues; of all where none is named.
        queues: Vec<String>,
    },
}

/// What a running host says of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueueStatus {
    /// The queue's name in the configuration.
    pub queue: String,
    /// Its policy, as it is now.
    pub policy: Status,
    /// What was taken back, if that was asked: or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<Result<RolledBack, String>>,
}

/// What a running host says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Answer {
    /// Its process id.
    pub process: u32,
    /// The queues that were asked about.
    pub queues: Vec<QueueStatus>,
}

/// The policy of each queue, by the queue's name.
pub type Policies = Vec<(String, Arc<LivePolicy>)>;

/// Answers until dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    ended: Arc<AtomicBool>,
}

impl Control {
    /// Answers for these policies on a socket in the store, on a thread of its own.
    pub fn listen(store: &Store, policies: Policies) -> io::Result<Self> {
        let folder = store.running();
        remove_stale_sockets(&folder)?;
        // Process ids are the same in every container.
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

/// Each on a thread of its own: a version that has to be compiled to go back to holds up nobody who asks for the status.
fn serve(listener: &UnixListener, policies: &Arc<Policies>, ended: &AtomicBool) {
    for stream in listener.incoming() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        match stream {
            Ok(stream) => {
                let policies = Arc::clone(policies);
                let answering = thread::Builder::new().name("control".to_owned());
                let started = answering.spawn(move || {
                    if let Err(error) = answer(stream, &policies) {
                        tracing::debug!(%error, "a request on the control socket was not answered");
                    }
                });
                if let Err(error) = started {
                    tracing::debug!(%error, "a request on the control socket was not answered");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a request on the control socket did not arrive");
                // No descriptor is left, perhaps: it would fail again at once.
                thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

fn answer(mut stream: UnixStream, policies: &Policies) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST)).read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)?;
    let mut answer = serde_json::to_vec(&carry_out(&request, policies))?;
    answer.push(b'\n');
    stream.write_all(&answer)
}

fn carry_out(request: &Request, policies: &Policies) -> Answer {
    let mut done: Vec<(Arc<LivePolicy>, Result<RolledBack, String>)> = Vec::new();
    let queues = policies.iter().filter_map(|(queue, policy)| {
        let rolled_back = match request {
            Request::Status => None,
            Request::RollBack { queues } if !queues.is_empty() && !queues.contains(queue) => {
                return None;
            }
            // Queues that share a policy share its versions: once is enough.
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
    Answer {
        process: std::process::id(),
        queues: queues.collect(),
    }
}

fn roll_back(queue: &str, policy: &LivePolicy) -> Result<RolledBack, String> {
    let result = policy.roll_back("taken back by the operator");
    match &result {
        Ok(RolledBack { from, to }) => {
            tracing::warn!(
                queue,
                from,
                to,
                "the operator took a version of the policy back"
            );
        }
        Err(error) => tracing::warn!(queue, "the operator asked for the version before: {error}"),
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

/// Asks every host that runs with its policies kept in this folder; what each says, or why it does not. A socket that a host left behind when it was killed is removed.
pub fn request(kept: &Path, request: &Request) -> io::Result<Vec<io::Result<Answer>>> {
    let entries = match Store::running_in(kept).read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut answers = Vec::new();
    for entry in entries {
        let path = entry?.path();
        match UnixStream::connect(&path) {
            Ok(stream) => answers.push(ask_one(stream, request)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => answers.push(Err(error)),
        }
    }
    answers.sort_by_key(|answer| answer.as_ref().map_or(0, |answer| answer.process));
    Ok(answers)
}

fn ask_one(mut stream: UnixStream, request: &Request) -> io::Result<Answer> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(ANSWER)).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
