//! The receives without an attempt of messages that are still in their queue, kept across a restart: SQS counts them, and they would pass for attempts.
//!
//! A host that stops writes them to a file of its own in its private folder, and the next host of the queue takes it over. Without a folder, or after a crash, they are forgotten.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_core::clock;
use backstop_files::{atomic_write, regular_file};
use sha2::{Digest, Sha256};

/// The most messages that are kept.
const MOST: usize = 20_000;

/// The most bytes that are read of a file: ids have 36 characters.
const FILE_BYTES: usize = 4 << 20;

/// The most files that are taken over at a start.
const FILES: usize = 100;

/// No queue keeps a message for longer.
const LONGEST_RETENTION: Duration = Duration::from_secs(14 * 86_400);

/// The receives without an attempt, by the message's id.
pub(super) type Receives = BTreeMap<String, u32>;

/// The files of one queue.
#[derive(Debug, Clone)]
pub(super) struct Files {
    folder: PathBuf,
    /// What the names of the queue's files start with.
    queue: String,
}

impl Files {
    /// Those of the queue with this ARN in this folder.
    pub(super) fn of(folder: &Path, arn: &str) -> Self {
        let hash = hex::encode(Sha256::digest(arn));
        Self {
            folder: folder.to_owned(),
            queue: hash.chars().take(32).collect(),
        }
    }

    /// Takes over what hosts that have stopped have written. Each file is taken by one host only.
    pub(super) fn take(&self) -> Receives {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Receives::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let own = names.filter(|name| name.starts_with(&self.queue) && name.ends_with(".json"));
        let own: std::collections::BTreeSet<_> = own.collect();
        let mut taken = Receives::new();
        for name in own.into_iter().take(FILES) {
            let path = self.folder.join(name);
            let mine = path.with_extension(format!("{}.taken", uuid::Uuid::new_v4()));
            if fs::rename(&path, &mine).is_err() {
                continue;
            }
            for (id, receives) in read(&mine) {
                if taken.len() < MOST {
                    *taken.entry(id).or_default() += receives;
                }
            }
            let _ = fs::remove_file(&mine);
        }
        taken
    }

    /// Writes what the next host takes over.
    pub(super) fn write(&self, receives: &Receives) {
        if receives.is_empty() {
            return;
        }
        let written = fs::create_dir_all(&self.folder).and_then(|()| {
            let name = format!("{}-{}.json", self.queue, uuid::Uuid::new_v4());
            let content = serde_json::to_vec(receives)?;
            atomic_write::write(&self.folder.join(name), &content, 0o600)
        });
        if let Err(error) = written {
            tracing::warn!(folder = %self.folder.display(), %error, "receives without an attempt can't be written: after a restart, they count as attempts");
        }
    }
}

/// Counts a receive, as long as there is room.
pub(super) fn count(receives: &mut Receives, id: &str) {
    if let Some(count) = receives.get_mut(id) {
        *count += 1;
    } else if receives.len() < MOST {
        receives.insert(id.to_owned(), 1);
    }
}

/// A receive that was counted is an attempt after all.
pub(super) fn take_back(receives: &mut Receives, id: &str) {
    if let Some(count) = receives.get_mut(id) {
        *count -= 1;
        if *count == 0 {
            receives.remove(id);
        }
    }
}

/// What a file holds; nothing if it is damaged, or older than any message.
fn read(path: &Path) -> Receives {
    let is_old = fs::metadata(path)
        .and_then(|file| file.modified())
        .ok()
        .and_then(|written| clock::system().duration_since(written).ok())
        .is_some_and(|age| age > LONGEST_RETENTION);
    if is_old {
        return Receives::new();
    }
    let read = regular_file::read(path, FILE_BYTES)
        .and_then(|content| Ok(serde_json::from_slice(&content)?));
    read.unwrap_or_else(|error: std::io::Error| {
        tracing::warn!(path = %path.display(), %error, "a file of receives without an attempt is damaged: they count as attempts");
        Receives::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receives(ids: &[&str]) -> Receives {
        let mut receives = Receives::new();
        for id in ids {
            count(&mut receives, id);
        }
        receives
    }

    #[test]
    fn what_a_host_has_written_is_taken_over_once_and_by_its_queue_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("returned");
        let orders = Files::of(&folder, "arn:aws:sqs:eu-west-1:1:orders");
        assert_eq!(orders.take(), Receives::new());
        orders.write(&receives(&["m-1", "m-2", "m-2"]));
        orders.write(&receives(&["m-2"]));
        orders.write(&Receives::new());
        let others = Files::of(&folder, "arn:aws:sqs:eu-west-1:1:others");
        assert_eq!(others.take(), Receives::new());
        assert_eq!(orders.take(), receives(&["m-1", "m-2", "m-2", "m-2"]));
        assert_eq!(orders.take(), Receives::new());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_is_ignored_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let orders = Files::of(folder.path(), "orders");
        orders.write(&receives(&["m-1"]));
        for damaged in ["", "[1]", r#"{"m-9": -1}"#] {
            let path = folder.path().join(format!("{}-x.json", orders.queue));
            fs::write(path, damaged).unwrap();
        }
        assert_eq!(orders.take(), receives(&["m-1"]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_more_messages_are_counted_than_there_is_room_for() {
        let ids: Vec<_> = (0..=MOST).map(|number| number.to_string()).collect();
        let mut receives = receives(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(receives.len(), MOST);
        count(&mut receives, "7");
        assert_eq!(receives.get("7"), Some(&2));
    }
}
