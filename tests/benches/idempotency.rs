//! What a call that is done once for each key costs: requests to DynamoDB, next to Powertools for AWS Lambda (Python).
//!
//! `make bench` runs it, against ministack behind a proxy that counts, The calls of the real library are those of `tests/idempotency/powertools.py`.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::process::Stdio;
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_idempotency::{Idempotency, RecordFormat};
use backstop_tests::aws::CREDENTIALS;
use backstop_tests::documents::top;
use backstop_tests::emulator::{ministack, services};
use backstop_tests::idempotency::Records;
use backstop_tests::proxy::{Fault, Proxy};
use serde_json::json;
use tests_benches::{Better, Chapter, Figure, Table, Unit};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::sleep;

const CALLS: u32 = 200;
const LEASE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    let mut chapter = Chapter::new(
        "idempotency",
        "Idempotency",
        "200 calls of each kind, counted by a proxy in front of ministack, an emulator of DynamoDB. The other side is Powertools for AWS Lambda for Python, without its local cache.",
    );
    let table = Records::create(&ministack().endpoint).await;
    let proxy = Proxy::start(&table.endpoint, |_, _| Fault::None).await;
    let store = table
        .store_behind(&proxy.endpoint, RecordFormat::Python)
        .await;
    let owner = Idempotency::builder(store, "ours").lease(LEASE).build();
    let owner = owner.unwrap();
    let mut library = Library::start(&table, &proxy).await;

    let mut table = Table::new("Requests to DynamoDB for each call")
        .column("the key is new", Unit::Number, Better::Less)
        .column("the work is done", Unit::Number, Better::Less)
        .column("the work fails", Unit::Number, Better::Less);
    let ours = async |fails: bool| {
        let before = proxy.requests();
        for key in 0..CALLS {
            let work = async || {
                if fails {
                    Err(Error::new("Declined", ""))
                } else {
                    Ok(key)
                }
            };
            let key = if fails { key + CALLS } else { key };
            let _ = owner.once(&key, work).await;
        }
        each(proxy.requests() - before)
    };
    let fresh = (ours(false).await, library.calls(&proxy, "call").await);
    let repeated = (ours(false).await, library.calls(&proxy, "call").await);
    let failing = (ours(true).await, library.calls(&proxy, "fail").await);
    let calls = [fresh, repeated, failing];
    table.ours("Backstop", calls.map(|it| Figure::exact(it.0)));
    table.theirs("Powertools for Python", calls.map(|it| Figure::exact(it.1)));
    chapter.add(table);

    let before = proxy.requests();
    let long = owner.once("long", async || {
        sleep(LEASE * 2).await;
        Ok::<_, Error>(())
    });
    long.await.unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let renewed = (proxy.requests() - before) as f64;
    let mut table = Table::new("Work that lasts for two leases, which are renewed at each third")
        .column("requests", Unit::Number, Better::Less);
    table.ours("Backstop", [Figure::exact(renewed)]);
    chapter.add(table);
    chapter.write();
}

fn each(requests: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let requests = requests as f64;
    requests / f64::from(CALLS)
}

/// The real library, in a process that answers lines.
struct Library {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    table: String,
    _process: Child,
}

impl Library {
    async fn start(table: &Records, proxy: &Proxy) -> Self {
        let script = top().join("tests/idempotency/powertools.py");
        let mut process = Command::new(services().join("python/bin/python"))
            .arg(script)
            .envs(CREDENTIALS)
            .env("ENDPOINT", &proxy.endpoint)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()).lines(),
            table: table.table.clone(),
            _process: process,
        }
    }

    /// The requests of each call.
    async fn calls(&mut self, proxy: &Proxy, what: &str) -> f64 {
        let before = proxy.requests();
        for key in 0..CALLS {
            let key = if what == "fail" { key + CALLS } else { key };
            let request = json!({
                "do": what, "event": json!({"id": key}).to_string(), "path": "id",
                "validate": null, "result": "1", "takes": 0, "remaining": 60_000,
                "prefix": "theirs", "table": self.table, "sort_key": null,
            });
            let line = format!("{request}\n");
            self.input.write_all(line.as_bytes()).await.unwrap();
            self.output.next_line().await.unwrap().unwrap();
        }
        each(proxy.requests() - before)
    }
}
