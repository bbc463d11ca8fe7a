//! What a consumer remembers of waiting messages, in a file that outlives it: the next host of the queue takes it over.
//!
//! Each host of a cache folder has a file of its own, and a lock on another file for as long as it runs. It takes over the files of hosts that run no longer: when it starts, and later those of hosts that have ended meanwhile.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use backstop_core::clock;
use backstop_core::lock::lock as lock_of;
use backstop_files::{FileWork, atomic_write, regular_file};
use sha2::{Digest, Sha256};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::waiting::Waiting;

/// How long after a write the next one follows at least. A host that is killed forgets what has failed since.
const EVERY: Duration = Duration::from_secs(5);

/// How often the log says that the file can't be written.
const WARNED: Duration = Duration::from_secs(60);

/// The most bytes that are written in a second, in the long run: 56 MiB are written every 28 seconds.
const BYTES_PER_SECOND: u64 = 2 << 20;

/// The most bytes that are read of a file: what one host remembers.
const FILE_BYTES: u64 = 160 << 20;

/// The age from which on what a killed host has left behind is removed: a host that starts has locked its file by then.
const OLD: Duration = Duration::from_secs(600);

/// The most files that are taken over at a time.
const FILES: usize = 100;

/// The file of one consumer.
#[derive(Debug)]
pub(super) struct KeptWaiting {
    folder: PathBuf,
    /// What the names of the queue's files start with.
    queue: String,
    waiting: Arc<Waiting>,
    path: PathBuf,
    /// The files that this host has read: once each, also if they can't be removed.
    taken: Mutex<HashSet<PathBuf>>,
    work: FileWork,
    /// When the log said last that the file can't be written, if it still can't.
    warned: Mutex<Option<Instant>>,
    /// Locked while the consumer runs.
    _lock: File,
}

impl KeptWaiting {
    /// That of a new consumer of the queue with this ARN, in this folder.
    pub(super) fn of(
        folder: PathBuf,
        arn: &str,
        waiting: &Arc<Waiting>,
        work: FileWork,
    ) -> Option<Arc<Self>> {
        let hash = hex::encode(Sha256::digest(arn));
        let queue: String = hash.chars().take(32).collect();
        let path = folder.join(format!("{queue}-{}.waiting", uuid::Uuid::new_v4()));
        let opened = fs::create_dir_all(&folder).and_then(|()| {
            waiting.with_secret(secret(&folder)?);
            let lock = options()
                .create_new(true)
                .open(path.with_extension("lock"))?;
            lock.lock()?;
            Ok(lock)
        });
        match opened {
            Ok(lock) => Some(Arc::new(Self {
                waiting: Arc::clone(waiting),
                _lock: lock,
                folder,
                queue,
                path,
                taken: Mutex::default(),
                work,
                warned: Mutex::default(),
            })),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "what waits can't be kept: this host forgets it when it ends");
                None
            }
        }
    }

    /// Takes over what hosts that run no longer have kept.
    pub(super) async fn take_over(self: &Arc<Self>) {
        let kept = Arc::clone(self);
        let _ = self.work.run(move || kept.take_over_now()).await;
    }

    fn take_over_now(&self) {
        for path in self.others().into_iter().take(FILES) {
            let Some(lock) = lock_of_ended(&path) else {
                continue;
            };
            lock_of(&self.taken).insert(path.clone());
            // What is taken over is in this host's file before it leaves that of the other one.
            if self.take(&path) && self.write().is_some() {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_file(path.with_extension("lock"));
            }
            drop(lock);
        }
        self.sweep();
    }

    /// Removes what hosts that were killed have left behind: locks of files that are not there, and files that are not whole.
    fn sweep(&self) {
        for path in self.paths() {
            let name = path.file_name().and_then(|name| name.to_str());
            let is_part = name.is_some_and(|name| name.starts_with(".tmp"));
            let is_lock = path.extension().is_some_and(|it| it == "lock");
            let is_left = is_part || is_lock && !path.with_extension("waiting").exists();
            if !is_left || !is_older(&path, OLD) {
                continue;
            }
            if is_part || lock_of_ended(&path).is_some() {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// All files of the folder, in the order of their names.
    fn paths(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut paths: Vec<_> = paths.collect();
        paths.sort();
        paths
    }

    /// The files of other hosts of the queue.
    fn others(&self) -> Vec<PathBuf> {
        let taken = lock_of(&self.taken);
        let is_other = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let of_queue = name.is_some_and(|name| name.starts_with(&self.queue));
            let is_kept = path.extension().is_some_and(|it| it == "waiting");
            of_queue && is_kept && *path != self.path && !taken.contains(path)
        };
        self.paths().into_iter().filter(is_other).collect()
    }

    /// Reads a file. Returns whether nothing more can be got out of it.
    fn take(&self, path: &Path) -> bool {
        let (queue, file) = (self.waiting.name(), path.display());
        let read = regular_file::open(path).and_then(|file| {
            let mut file = BufReader::new(file.take(FILE_BYTES));
            self.waiting.take_over(&mut file)
        });
        match read {
            Ok(taken) => {
                if taken.messages > 0 {
                    let messages = taken.messages;
                    tracing::info!(
                        queue,
                        messages,
                        "what an ended host remembers of waiting messages is taken over"
                    );
                }
                if taken.damaged > 0 {
                    let error = format!("{} of its parts are damaged", taken.damaged);
                    tracing::warn!(queue, %file, error, "not everything that an ended host remembers of waiting messages is taken over");
                }
                true
            }
            // Another host has taken it over.
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                tracing::warn!(queue, %file, %error, "what an ended host remembers of waiting messages can't be taken over");
                [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof].contains(&error.kind())
            }
        }
    }

    /// Writes what is remembered now. Returns the number of bytes.
    fn write(&self) -> Option<u64> {
        let written = atomic_write::write_with(&self.path, 0o600, |file| {
            let mut counted = Counted {
                file: BufWriter::new(file),
                bytes: 0,
            };
            let messages = self.waiting.write_to(&mut counted)?;
            counted.file.flush()?;
            Ok((messages, counted.bytes))
        });
        match written {
            Ok((0, _)) => {
                // Nobody has to read it.
                let _ = fs::remove_file(&self.path);
                Some(0)
            }
            Ok((_, bytes)) => {
                *lock_of(&self.warned) = None;
                Some(bytes)
            }
            Err(error) => {
                self.warn(&error);
                None
            }
        }
    }

    /// Says that it can't be written, and again once a minute: it is tried every few seconds.
    fn warn(&self, error: &io::Error) {
        let now = clock::instant();
        let mut warned = lock_of(&self.warned);
        if warned.is_none_or(|at| now.duration_since(at) >= WARNED) {
            *warned = Some(now);
            let file = self.path.display();
            tracing::warn!(%file, %error, "what waits can't be kept: if this host ends now, it is forgotten");
        }
    }

    /// Keeps what is remembered, until the consumer stops.
    pub(super) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        let mut written = self.waiting.changes();
        let mut pause = EVERY;
        loop {
            tokio::select! {
                biased;
                () = sleep(pause) => {}
                () = stop.cancelled() => return,
            }
            self.take_over().await;
            let changes = self.waiting.changes();
            if changes != written {
                let kept = Arc::clone(&self);
                let bytes = self.work.run(move || kept.write()).await.flatten();
                // Without room, it is tried again.
                if let Some(bytes) = bytes {
                    pause = EVERY.max(Duration::from_secs(bytes / BYTES_PER_SECOND));
                    written = changes;
                }
            }
        }
    }

    /// Writes for the last time: the consumer has ended.
    pub(super) async fn end(self: Arc<Self>) {
        let work = self.work;
        let last = move || {
            self.write();
            if !self.path.exists() {
                let _ = fs::remove_file(self.path.with_extension("lock"));
            }
        };
        let _ = work.run(last).await;
    }
}

/// The lock of a host, if that runs no longer. Without its file, nobody has the lock.
fn lock_of_ended(path: &Path) -> Option<Option<File>> {
    let lock = match options().open(path.with_extension("lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(None),
        Err(_) => return None,
    };
    match lock.try_lock() {
        Ok(()) => Some(Some(lock)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
    }
}

fn is_older(path: &Path, age: Duration) -> bool {
    let changed = path.metadata().and_then(|it| it.modified());
    let since = changed.map(|changed| clock::system().duration_since(changed).unwrap_or_default());
    since.is_ok_and(|since| since > age)
}

fn options() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true);
    options
}

/// The secret of the hosts of a folder, which the first of them makes.
fn secret(folder: &Path) -> io::Result<[u8; 16]> {
    let path = folder.join("secret");
    let made: [u8; 16] = rand::random();
    match atomic_write::write_new(&path, &made, 0o600) {
        Ok(()) => return Ok(made),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let read = regular_file::read(&path, 16)?;
    read.try_into().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} has not 16 bytes: delete it", path.display()),
        )
    })
}

struct Counted<W> {
    file: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += u64::try_from(written).unwrap_or(u64::MAX);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
