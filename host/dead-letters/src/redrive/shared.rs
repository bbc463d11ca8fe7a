//! Runs whose files are objects in a place that several operators share, such as a bucket.
//!
//! Every object is written once and never changed: the plan of a run, its set, and the parts of its journal, one for each write, numbered from 1. Two processes can't write the same part, so of two that work on a run one stops at its next write. The folder of the machine has a copy of the files, which is made anew before a command reads it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Mutex;

/// The file with what a run does.
pub(super) const PLAN: &str = "plan.json";

/// The file with its set.
pub(super) const LETTERS: &str = "letters.jsonl";

/// The file with what it has done.
pub(super) const JOURNAL: &str = "journal.jsonl";

/// The largest object that is read.
const OBJECT_BYTES: usize = 128 << 20;

/// How often an object is written that somebody else seems to write.
const TRIES: u32 = 3;

/// The objects that are read at the same time.
const AT_ONCE: usize = 32;

/// A place for objects.
#[async_trait]
pub trait Objects: fmt::Debug + Send + Sync {
    /// Where it is, for messages.
    fn url(&self) -> String;

    /// Writes an object, unless there is one with this name. Returns whether it was written.
    async fn create(&self, name: &str, content: Vec<u8>) -> io::Result<bool>;

    /// Reads an object of at most so many bytes.
    async fn read(&self, name: &str, most: usize) -> io::Result<Vec<u8>>;

    /// The folders: what the names have before their first slash.
    async fn folders(&self) -> io::Result<Vec<String>>;

    /// The names of the objects in a folder, without it.
    async fn names(&self, folder: &str) -> io::Result<Vec<String>>;
}

/// The objects of one run.
#[derive(Debug)]
pub(super) struct SharedRun {
    objects: Arc<dyn Objects>,
    run: String,
    /// What the parts of this process begin with.
    header: Vec<u8>,
    /// The number of the next part.
    next: Mutex<u64>,
}

/// What is known of a run by the names of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// The number of the parts of its journal.
    parts: u64,
    has_letters: bool,
}

/// The files of a run, read from its objects.
pub(super) struct Fetched {
    pub(super) plan: Vec<u8>,
    pub(super) letters: Option<Vec<u8>>,
    pub(super) journal: Vec<u8>,
}

impl SharedRun {
    /// The run with this id.
    pub(super) fn new(objects: &Arc<dyn Objects>, run: &str) -> Self {
        Self {
            objects: Arc::clone(objects),
            run: run.to_owned(),
            header: format!("{{\"writer\":\"{}\"}}\n", uuid::Uuid::new_v4()).into_bytes(),
            next: Mutex::new(1),
        }
    }

    /// Where it is, for messages.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.objects.url(), self.run)
    }

    fn name(&self, file: &str) -> String {
        format!("{}/{file}", self.run)
    }

    /// Creates the run. A place that overwrites objects can't keep two processes apart.
    pub(super) async fn begin(&self, plan: Vec<u8>) -> io::Result<()> {
        self.create(PLAN, plan.clone()).await?;
        if self.objects.create(&self.name(PLAN), plan).await? {
            let text = format!(
                "{} overwrites objects although the request forbids it (If-None-Match): runs can't be shared there",
                self.objects.url()
            );
            return Err(io::Error::other(text));
        }
        Ok(())
    }

    /// Writes a file that nobody has written.
    pub(super) async fn create(&self, file: &str, content: Vec<u8>) -> io::Result<()> {
        for _ in 0..TRIES {
            let name = self.name(file);
            if self.objects.create(&name, content.clone()).await? {
                return Ok(());
            }
            match self.objects.read(&name, OBJECT_BYTES).await {
                // The answer to the first try was lost.
                Ok(there) if there == content => return Ok(()),
                Ok(_) => break,
                // Somebody else was writing it, and has failed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let text = format!(
            "another process works on this run: it has written {}/{file}",
            self.url()
        );
        Err(io::Error::other(text))
    }

    /// Adds a part to the journal. It is safe when this returns.
    pub(super) async fn add(&self, lines: &[u8]) -> io::Result<()> {
        let mut next = self.next.lock().await;
        let content = [self.header.as_slice(), lines].concat();
        self.create(&part(*next), content).await?;
        *next += 1;
        Ok(())
    }

    /// What there is of the run; `None` if it has no plan. What is added follows it.
    pub(super) async fn list(&self) -> io::Result<Option<Listed>> {
        let listed = listed(&self.objects.names(&self.run).await?)?;
        if let Some(listed) = &listed {
            *self.next.lock().await = listed.parts + 1;
        }
        Ok(listed)
    }

    /// Reads the files of the run.
    pub(super) async fn fetch(&self, listed: &Listed) -> io::Result<Fetched> {
        let read = async |file: &str| self.objects.read(&self.name(file), OBJECT_BYTES).await;
        let parts = stream::iter(1..=listed.parts);
        let parts = parts.map(async |number| read(&part(number)).await);
        let parts: Vec<_> = parts.buffered(AT_ONCE).try_collect().await?;
        let mut journal = Vec::new();
        for part in &parts {
            // The first line names the writer.
            let header = part.iter().position(|byte| *byte == b'\n');
            let lines = header.and_then(|end| part.get(end + 1..));
            journal.extend_from_slice(lines.unwrap_or_default());
            if !journal.is_empty() && !journal.ends_with(b"\n") {
                journal.push(b'\n');
            }
        }
        Ok(Fetched {
            plan: read(PLAN).await?,
            letters: if listed.has_letters {
                Some(read(LETTERS).await?)
            } else {
                None
            },
            journal,
        })
    }
}

/// The name of a part of the journal.
fn part(number: u64) -> String {
    format!("{JOURNAL}/{number:08}")
}

/// What is known of a run by the names of its objects; `None` if it has no plan. A journal that lacks a part is an error: what the run has done is unknown.
fn listed(names: &[String]) -> io::Result<Option<Listed>> {
    let has = |file: &str| names.iter().any(|name| name == file);
    if !has(PLAN) {
        return Ok(None);
    }
    let numbers = names.iter().filter_map(|file| {
        let number = file
            .strip_prefix(JOURNAL)?
            .strip_prefix('/')?
            .parse()
            .ok()?;
        (part(number) == **file).then_some(number)
    });
    let numbers: BTreeSet<u64> = numbers.collect();
    let missing = (1..)
        .zip(&numbers)
        .find(|(expected, number)| expected != *number);
    if let Some((missing, _)) = missing {
        let text = format!("its journal lacks the part {}", part(missing));
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(Some(Listed {
        parts: numbers.last().copied().unwrap_or_default(),
        has_letters: has(LETTERS),
    }))
}

impl Listed {
    /// What there is of the run, to compare.
    pub(super) fn state(&self) -> String {
        format!("{} {}", self.parts, self.has_letters)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::store::Runs;
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex as SyncMutex;

    /// Objects in memory.
    #[derive(Debug, Default)]
    pub(in crate::redrive) struct InMemory {
        objects: SyncMutex<BTreeMap<String, Vec<u8>>>,
    }

    #[async_trait]
    impl Objects for InMemory {
        fn url(&self) -> String {
            "memory:".to_owned()
        }

        async fn create(&self, name: &str, content: Vec<u8>) -> io::Result<bool> {
            let mut objects = self.objects.lock().unwrap();
            let is_new = !objects.contains_key(name);
            objects.entry(name.to_owned()).or_insert(content);
            Ok(is_new)
        }

        async fn read(&self, name: &str, _: usize) -> io::Result<Vec<u8>> {
            let objects = self.objects.lock().unwrap();
            objects
                .get(name)
                .cloned()
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        async fn folders(&self) -> io::Result<Vec<String>> {
            let objects = self.objects.lock().unwrap();
            let mut folders: Vec<_> = objects
                .keys()
                .filter_map(|name| Some(name.split_once('/')?.0.to_owned()))
                .collect();
            folders.dedup();
            Ok(folders)
        }

        async fn names(&self, folder: &str) -> io::Result<Vec<String>> {
            let objects = self.objects.lock().unwrap();
            let names = objects.keys().filter_map(|name| {
                let name = name.strip_prefix(folder)?.strip_prefix('/')?;
                Some(name.to_owned())
            });
            Ok(names.collect())
        }
    }

    async fn fetched(objects: &Arc<dyn Objects>, run: &str) -> (String, u64) {
        let run = SharedRun::new(objects, run);
        let listed = run.list().await.unwrap().unwrap();
        let fetched = run.fetch(&listed).await.unwrap();
        (String::from_utf8(fetched.journal).unwrap(), listed.parts)
    }

    #[tokio::test]
    async fn a_journal_is_its_parts_in_their_order() {
        let objects: Arc<dyn Objects> = Arc::new(InMemory::default());
        let run = SharedRun::new(&objects, "r-1");
        assert_eq!(run.list().await.unwrap(), None);
        run.begin(b"{}".to_vec()).await.unwrap();
        assert_eq!(fetched(&objects, "r-1").await, (String::new(), 0));
        // A line that is cut off joins no other.
        for line in ["a\n", "b\nc", "d\n"] {
            run.add(line.as_bytes()).await.unwrap();
        }
        let text = "a\nb\nc\nd\n".to_owned();
        assert_eq!(fetched(&objects, "r-1").await, (text, 3));
    }

    #[tokio::test]
    async fn of_two_that_write_a_part_one_is_refused_and_one_that_wrote_it_twice_is_not() {
        let objects: Arc<dyn Objects> = Arc::new(InMemory::default());
        let one = SharedRun::new(&objects, "r-1");
        let other = SharedRun::new(&objects, "r-1");
        one.add(b"a\n").await.unwrap();
        let refused = other.add(b"a\n").await.unwrap_err().to_string();
        assert!(
            refused.contains("another process works on this run"),
            "{refused}"
        );
        // The answer was lost, and the request was made again.
        *one.next.lock().await = 1;
        one.add(b"a\n").await.unwrap();
        assert_eq!(*one.next.lock().await, 2);
    }

    #[test]
    fn what_has_no_plan_is_no_run_and_a_journal_with_a_gap_is_an_error() {
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
            listed(&names).map(|it| it.map(|it| it.parts))
        };
        assert_eq!(of(&["journal.jsonl/00000001"]).unwrap(), None);
        assert_eq!(of(&["plan.json"]).unwrap(), Some(0));
        let odd = [
            "plan.json",
            "journal.jsonl/00000001",
            "journal.jsonl/2",
            "journal.jsonl/x",
            "journal.jsonl/",
        ];
        assert_eq!(of(&odd).unwrap(), Some(1));
        let last = format!("journal.jsonl/{}", u64::MAX);
        for gap in [
            &["plan.json", "journal.jsonl/00000002"][..],
            &["plan.json", "journal.jsonl/00000001", &last],
        ] {
            let error = of(gap).unwrap_err().to_string();
            assert!(error.contains("its journal lacks the part"), "{error}");
        }
    }

    #[tokio::test]
    async fn runs_of_a_place_are_those_of_all_machines_and_one_that_is_damaged_hides_no_other() {
        let objects: Arc<dyn Objects> = Arc::new(InMemory::default());
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for odd in [
            "../plan.json",
            "r-1/journal.jsonl/x",
            "no plan/plan.json",
            "gap/plan.json",
            "gap/journal.jsonl/00000002",
        ] {
            objects.create(odd, b"{}".to_vec()).await.unwrap();
        }
        let run = SharedRun::new(&objects, "r-2");
        run.begin(b"{}".to_vec()).await.unwrap();
        let deleted =
            |id: &str| format!("{{\"event\":\"deleted\",\"ids\":[{id:?}]}}\n").into_bytes();
        run.add(&deleted("a")).await.unwrap();
        for folder in [&one, &other, &one] {
            let runs = Runs::shared(folder.path(), Arc::clone(&objects), None)
                .await
                .unwrap();
            assert_eq!(runs.ids().unwrap(), ["r-2", "gap"]);
            assert_eq!(runs.find("r-2").unwrap().ledger().unwrap().taken(), 1);
            assert!(
                runs.find("gap")
                    .unwrap_err()
                    .to_string()
                    .contains("files of the run")
            );
            assert!(runs.find("r-1").is_err());
        }
        run.create(LETTERS, b"[true,\"a\"]\n".to_vec())
            .await
            .unwrap();
        let runs = Runs::shared(one.path(), Arc::clone(&objects), None)
            .await
            .unwrap();
        let set = runs.find("r-2").unwrap().letters().unwrap();
        assert_eq!(set.unwrap().0.len(), 1);
        run.add(&deleted("b")).await.unwrap();
        // Somebody works on it here: its files are not written over.
        let folder = runs.find("r-2").unwrap();
        let lock = folder.lock().unwrap();
        let runs = Runs::shared(one.path(), Arc::clone(&objects), Some("r-2"))
            .await
            .unwrap();
        assert_eq!(runs.find("r-2").unwrap().ledger().unwrap().taken(), 1);
        folder.refresh().await.unwrap();
        assert_eq!(folder.ledger().unwrap().taken(), 2);
        drop(lock);
    }
}
