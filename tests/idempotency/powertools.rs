//! The real libraries, each in a process that answers lines.

use std::process::Stdio;

use backstop_idempotency::RecordFormat;
use backstop_tests::aws::CREDENTIALS;
use backstop_tests::emulator::services;
use backstop_tests::idempotency::Records;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// One of the two libraries.
pub(crate) struct Powertools {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    table: Option<Records>,
    _process: Child,
}

/// A call of the library.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) what: &'static str,
    pub(crate) event: &'a str,
    pub(crate) path: &'a str,
    pub(crate) validate: Option<&'a str>,
    pub(crate) result: &'a str,
    /// How long the work takes, in milliseconds.
    pub(crate) takes: u32,
    /// What is left of the invocation, in milliseconds. `None` outside of Lambda.
    pub(crate) remaining: Option<u32>,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self {
            what: "call",
            event: "{}",
            path: "id",
            validate: None,
            result: "null",
            takes: 0,
            remaining: Some(60_000),
        }
    }
}

pub(crate) const PREFIX: &str = "orders";

impl Powertools {
    /// The library of this format. Its keys have the prefix `orders`.
    pub(crate) fn start(format: RecordFormat, table: Option<&Records>) -> Self {
        let scripts = env!("CARGO_MANIFEST_DIR");
        let mut command = match format {
            RecordFormat::Python => {
                let mut command = Command::new(services().join("python/bin/python"));
                command.arg(format!("{scripts}/powertools.py"));
                command
            }
            RecordFormat::TypeScript => {
                let mut command = Command::new(services().join("node_modules/.bin/node"));
                command.arg(format!("{scripts}/powertools.mjs"));
                command.arg(services());
                command
            }
        };
        let endpoint = table.map_or("http://127.0.0.1:1", |it| &it.endpoint);
        let mut process = command
            .envs(CREDENTIALS)
            .env("ENDPOINT", endpoint)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()).lines(),
            table: table.cloned(),
            _process: process,
        }
    }

    /// Sends a request. [`receive`](Self::receive) waits for the answer.
    pub(crate) async fn send(&mut self, call: Call<'_>) {
        let request = json!({
            "do": call.what,
            "event": call.event,
            "path": call.path,
            "validate": call.validate,
            "result": call.result,
            "takes": call.takes,
            "remaining": call.remaining,
            "prefix": PREFIX,
            "table": self.table.as_ref().map_or("none", |it| it.table.as_str()),
            "sort_key": self.table.as_ref().and_then(Records::sort_key),
        });
        let line = format!("{request}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next answer.
    pub(crate) async fn receive(&mut self) -> Value {
        let line = self.output.next_line().await.unwrap();
        serde_json::from_str(&line.expect("the library's process ended")).unwrap()
    }

    /// One request and its answer.
    pub(crate) async fn call(&mut self, call: Call<'_>) -> Value {
        self.send(call).await;
        self.receive().await
    }

    /// The keys of many events at one path. `None` for one that has none.
    pub(crate) async fn keys(&mut self, path: &str, events: &[String]) -> Vec<Option<String>> {
        let request = json!({"do": "keys", "events": events, "path": path, "prefix": PREFIX});
        let line = format!("{request}\n");
        // The library answers when it has read all of it.
        self.input.write_all(line.as_bytes()).await.unwrap();
        let answer = self.receive().await;
        let keys = answer["keys"]
            .as_array()
            .unwrap_or_else(|| panic!("{path}: {answer}"));
        keys.iter()
            .map(|it| it.as_str().map(str::to_owned))
            .collect()
    }

    /// The key of an event.
    pub(crate) async fn key(&mut self, path: &str, event: &str) -> String {
        let answer = self
            .call(Call {
                what: "key",
                event,
                path,
                ..Call::default()
            })
            .await;
        answer["key"]
            .as_str()
            .unwrap_or_else(|| panic!("{event}: {answer}"))
            .to_owned()
    }
}
