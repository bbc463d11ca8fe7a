//! Runs whose files are objects in a place that several operators share, such as a bucket.
//!
//! Every object is written once and never changed: the plan of a run, its set, and the parts of its journal, one for each write, numbered from 1. Two processes can't write the same part, so of two that work on a run one stops at its next write. The folder of the machine has a copy of the files, which is made anew before a command reads it.

use std::collections::HashMap;
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

/// The largest journal that is written as one object at the end of a run.
const WHOLE_BYTES: usize = 64 << 20;

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
    /// The parts of its journal in their order, from the first one.
    parts: Vec<String>,
    /// The number of the next part.
    next: u64,
    has_letters: bool,
}

/// The files of a run, read from its objects.
pub(super) struct Fetched {
    pub(super) plan: Vec<u8>,
    pub(super) letters: Option<Vec<u8>>,
    pub(super) journal: Vec<u8>,
}

impl SharedRun {
    /// The run with this id, whose next part has this number.
    pub(super) fn new(objects: &Arc<dyn Objects>, run: &str, next: u64) -> Self {
        Self {
            objects: Arc::clone(objects),
            run: run.to_owned(),
            header: format!("{{\"writer\":\"{}\"}}\n", uuid::Uuid::new_v4()).into_bytes(),
            next: Mutex::new(next),
        }
    }

    /// Where it is, for messages.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.objects.url(), self.run)
    }

    fn name(&self, file: &str) -> String {
        format!("{}/{file}", self.run)
    }

    /// Writes a file that nobody has written.
    pub(super) async fn create(&self, file: &str, content: Vec<u8>) -> io::Result<()> {
        for _ in 0..TRIES {
            if self
                .objects
                .create(&self.name(file), content.clone())
                .await?
            {
                return Ok(());
            }
            match self.objects.read(&self.name(file), OBJECT_BYTES).await {
                // The answer to the first try was lost.
                Ok(there) if there == content => return Ok(()),
                Ok(_) => break,
                // Somebody else was writing it, and has failed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let text = format!(
            "another process works on this run: it has written {}/{}",
            self.objects.url(),
            self.name(file)
        );
        Err(io::Error::other(text))
    }

    /// Adds a part to the journal. It is safe when this returns.
    pub(super) async fn add(&self, lines: &[u8]) -> io::Result<()> {
        let mut next = self.next.lock().await;
        let content = [self.header.as_slice(), lines].concat();
        self.create(&part(*next, *next), content).await?;
        *next += 1;
        Ok(())
    }

    /// Writes the whole journal as one object, which takes the place of its parts for all who read it.
    pub(super) async fn compact(&self, journal: &[u8]) -> io::Result<()> {
        let next = self.next.lock().await;
        if *next > 2 && journal.len() <= WHOLE_BYTES {
            let content = [self.header.as_slice(), journal].concat();
            let name = self.name(&part(1, *next - 1));
            self.objects.create(&name, content).await?;
        }
        Ok(())
    }
}

/// `journal/00000001-00000007`: the parts from 1 to 7.
fn part(from: u64, to: u64) -> String {
    format!("{JOURNAL}/{from:08}-{to:08}")
}

/// What is known of a run by the names of its objects; `None` if it has no plan.
pub(super) fn listed(names: &[String]) -> Option<Listed> {
    let has = |file: &str| names.iter().any(|name| name == file);
    if !has(PLAN) {
        return None;
    }
    let numbers = names.iter().filter_map(|file| {
        let part = file.strip_prefix(JOURNAL)?.strip_prefix('/')?;
        let (from, to) = part.split_once('-')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    });
    // The longest part that begins at a number has those of the others.
    let mut longest: HashMap<u64, u64> = HashMap::new();
    for (from, to) in numbers.filter(|(from, to)| to >= from) {
        let end = longest.entry(from).or_insert(to);
        *end = to.max(*end);
    }
    let (mut parts, mut next) = (Vec::new(), 1);
    while let Some(to) = longest.get(&next) {
        parts.push(part(next, *to));
        next = to.saturating_add(1);
    }
    Some(Listed {
        parts,
        next,
        has_letters: has(LETTERS),
    })
}

impl Listed {
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// What there is of the run, to compare.
    pub(super) fn state(&self) -> String {
        format!("{} {}", self.next, self.has_letters)
    }

    /// Reads the files of the run.
    pub(super) async fn fetch(&self, objects: &dyn Objects, run: &str) -> io::Result<Fetched> {
        let read = async |file: &str| objects.read(&format!("{run}/{file}"), OBJECT_BYTES).await;
        let parts = stream::iter(&self.parts).map(|part| read(part));
        let parts: Vec<_> = parts.buffered(AT_ONCE).try_collect().await?;
        let lines = parts.iter().map(|part| {
            // The first line names the writer.
            let header = part.iter().position(|byte| *byte == b'\n');
            header
                .and_then(|end| part.get(end + 1..))
                .unwrap_or_default()
        });
        Ok(Fetched {
            plan: read(PLAN).await?,
            letters: if self.has_letters {
                Some(read(LETTERS).await?)
            } else {
                None
            },
            journal: lines.collect::<Vec<_>>().concat(),
        })
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
        let names = objects.names(run).await.unwrap();
        let listed = listed(&names).unwrap();
        let fetched = listed.fetch(&**objects, run).await.unwrap();
        (String::from_utf8(fetched.journal).unwrap(), listed.next())
    }

    #[tokio::test]
    async fn a_journal_is_its_parts_in_their_order_and_the_whole_of_them() {
        let objects: Arc<dyn Objects> = Arc::new(InMemory::default());
        let run = SharedRun::new(&objects, "r-1", 1);
        run.create(PLAN, b"{}".to_vec()).await.unwrap();
        assert_eq!(fetched(&objects, "r-1").await, (String::new(), 1));
        for line in ["a\n", "b\nc\n", "d\n"] {
            run.add(line.as_bytes()).await.unwrap();
        }
        assert_eq!(
            fetched(&objects, "r-1").await,
            ("a\nb\nc\nd\n".to_owned(), 4)
        );
        run.compact(b"a\nb\nc\nd\n").await.unwrap();
        let resumed = SharedRun::new(&objects, "r-1", 4);
        resumed.add(b"e\n").await.unwrap();
        assert_eq!(
            fetched(&objects, "r-1").await,
            ("a\nb\nc\nd\ne\n".to_owned(), 5)
        );
        let names = objects.names("r-1").await.unwrap();
        assert_eq!(listed(&names).unwrap().parts.len(), 2);
    }

    #[tokio::test]
    async fn of_two_that_write_a_part_one_is_refused_and_one_that_wrote_it_twice_is_not() {
        let objects: Arc<dyn Objects> = Arc::new(InMemory::default());
        let one = SharedRun::new(&objects, "r-1", 1);
        let other = SharedRun::new(&objects, "r-1", 1);
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
    fn what_has_no_plan_is_no_run_and_what_does_not_follow_is_left_out() {
        let names = [
            "journal.jsonl/00000001-00000001",
            "journal.jsonl/00000003-00000003",
            "journal.jsonl/00000002-00000001",
            "journal.jsonl/18446744073709551615-18446744073709551615",
            "journal.jsonl/x",
            "plan.json",
        ]
        .map(str::to_owned);
        let run = listed(&names).unwrap();
        assert_eq!((run.parts.len(), run.next), (1, 2));
        assert_eq!(listed(names.split_last().unwrap().1), None);
    }

    #[tokio::test]
    async fn runs_of_a_place_are_those_of_all_machines() {
        let objects: Arc<dyn Objects> = Arc::new(InMemory::default());
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for odd in ["../plan.json", "r-1/journal.jsonl/x", "no plan/plan.json"] {
            objects.create(odd, b"{}".to_vec()).await.unwrap();
        }
        let run = SharedRun::new(&objects, "r-2", 1);
        run.create(PLAN, b"{}".to_vec()).await.unwrap();
        run.add(b"{\"event\":\"deleted\",\"ids\":[\"a\"]}\n")
            .await
            .unwrap();
        for folder in [&one, &other, &one] {
            let runs = Runs::shared(folder.path(), Arc::clone(&objects), None)
                .await
                .unwrap();
            assert_eq!(runs.ids().unwrap(), ["r-2"]);
            assert_eq!(runs.find("r-2").unwrap().ledger().unwrap().taken(), 1);
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
        run.add(b"{\"event\":\"deleted\",\"ids\":[\"b\"]}\n")
            .await
            .unwrap();
        let runs = Runs::shared(one.path(), Arc::clone(&objects), Some("r-2"))
            .await
            .unwrap();
        assert_eq!(runs.find("r-2").unwrap().ledger().unwrap().taken(), 2);
    }
}
