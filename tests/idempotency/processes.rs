//! Owners that are processes: killed in the middle, and paused past their lease.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_idempotency::{
    DynamoStore, Idempotency, IdempotencyBuilder, OnUnknown, OnceError, RecordFormat,
};
use backstop_tests::aws::config;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::idempotency::Records;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(2);

/// Appends a line to the effects. Its position in the file is its order.
fn effect(file: &Path, line: &str) {
    use std::io::Write;
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file);
    writeln!(file.unwrap(), "{line}").unwrap();
}

fn effects(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What the process of an owner runs: this test, alone, with a table in its environment.
#[tokio::test]
async fn an_owner_in_its_own_process() {
    let Ok(table) = std::env::var("OWNER_TABLE") else {
        return;
    };
    let file = std::path::PathBuf::from(std::env::var("OWNER_FILE").unwrap());
    let endpoint = std::env::var("OWNER_ENDPOINT").unwrap();
    let client = aws_sdk_dynamodb::Client::new(&config(&endpoint).await);
    let owner = Idempotency::builder(DynamoStore::new(client, table), "orders").lease(LEASE);
    let ended = owner
        .build()
        .unwrap()
        .once("o-7", || async {
            effect(&file, "begun");
            // Longer than a lease, which is renewed meanwhile.
            for _ in 0..40 {
                sleep(SECOND / 10).await;
            }
            effect(&file, "effect of the process");
            Ok::<_, Error>("of the process".to_owned())
        })
        .await;
    match ended {
        Ok(_) => effect(&file, "done"),
        Err(OnceError::LeaseEnded(_)) => effect(&file, "lease ended"),
        Err(error) => effect(&file, &error.to_string()),
    }
}

struct World {
    table: Records,
    folder: tempfile::TempDir,
    process: Child,
}

impl World {
    /// A process that has begun its work.
    async fn begun() -> Self {
        let table = Records::create(&ministack().endpoint).await;
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::an_owner_in_its_own_process"])
            .env("OWNER_TABLE", &table.table)
            .env("OWNER_FILE", folder.path().join("effects"))
            .env("OWNER_ENDPOINT", &table.endpoint)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let world = Self {
            table,
            folder,
            process,
        };
        eventually("the process has begun", || async {
            !world.effects().is_empty()
        })
        .await;
        world
    }

    fn effects(&self) -> Vec<String> {
        effects(&self.folder.path().join("effects"))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    fn builder(&self) -> IdempotencyBuilder {
        Idempotency::builder(self.table.store(RecordFormat::Python), "orders").lease(LEASE)
    }

    /// The same work in this process.
    async fn call(&self, owner: IdempotencyBuilder) -> Result<(String, bool), OnceError<Error>> {
        let file = self.folder.path().join("effects");
        let work = || async {
            effect(&file, "effect of the test");
            Ok("of the test".to_owned())
        };
        let done = owner.build().unwrap().once("o-7", work).await?;
        Ok((done.result, done.repeated))
    }
}

#[tokio::test]
async fn the_work_of_a_killed_owner_is_taken_over_after_its_lease() {
    let mut world = World::begun().await;
    // It renews its lease.
    sleep(LEASE + SECOND / 2).await;
    let refused = world.call(world.builder()).await.unwrap_err();
    assert!(matches!(refused, OnceError::InProgress { .. }), "{refused}");
    world.signal(Signal::KILL);
    world.process.wait().await.unwrap();
    let careful = world.builder().on_unknown(OnUnknown::DeadLetter);
    let refused = world.call(careful).await.unwrap_err();
    let OnceError::InProgress { left } = refused else {
        panic!("{refused}")
    };
    assert!(left <= LEASE, "{left:?}");
    sleep(left + SECOND / 10).await;
    let careful = world.builder().on_unknown(OnUnknown::DeadLetter);
    let refused = world.call(careful).await.unwrap_err();
    assert!(
        matches!(refused, OnceError::OutcomeUnknown { .. }),
        "{refused}"
    );
    let taken_over = world.call(world.builder()).await.unwrap();
    assert_eq!(taken_over, ("of the test".to_owned(), false));
    let again = world.call(world.builder()).await.unwrap();
    assert_eq!(again, ("of the test".to_owned(), true));
    assert_eq!(world.effects(), ["begun", "effect of the test"]);
}

#[tokio::test]
async fn an_owner_that_was_paused_past_its_lease_has_no_effect() {
    let mut world = World::begun().await;
    world.signal(Signal::STOP);
    sleep(LEASE + SECOND / 10).await;
    let taken_over = world.call(world.builder()).await.unwrap();
    assert_eq!(taken_over, ("of the test".to_owned(), false));
    world.signal(Signal::CONT);
    world.process.wait().await.unwrap();
    assert_eq!(
        world.effects(),
        ["begun", "effect of the test", "lease ended"]
    );
    let again = world.call(world.builder()).await.unwrap();
    assert_eq!(again, ("of the test".to_owned(), true));
}
