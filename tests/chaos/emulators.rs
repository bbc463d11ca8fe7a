//! The emulators of the campaign, which end and start again with their data.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use aws_sdk_sqs::Client;
use backstop_core::clock;
use backstop_tests::aws;
use backstop_tests::documents::top;
use backstop_tests::emulator::{free_port, services};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Writes each change into a database before it answers.
    Fauxqs,
    /// Writes everything into files when it is ended.
    MiniStack,
}

/// An emulator at a port that stays.
#[derive(Debug)]
pub(crate) struct Emulator {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    pub(crate) client: Client,
    folder: PathBuf,
    child: Mutex<Option<Child>>,
    /// Held while it starts again: two of them would have the same data.
    pub(crate) restarting: Mutex<()>,
}

/// A message in a queue, whoever may see it.
#[derive(Debug, Clone)]
pub(crate) struct InQueue {
    pub(crate) id: String,
    pub(crate) body: String,
    /// When it may be received, in milliseconds since 1970; 0 if it may be received now.
    pub(crate) visible_at: u64,
    pub(crate) attributes: Value,
}

impl Emulator {
    pub(crate) async fn start(kind: Kind, folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let port = free_port();
        let config = aws::config(&format!("http://127.0.0.1:{port}")).await;
        let emulator = Self {
            kind,
            port,
            client: Client::new(&config),
            folder: folder.to_owned(),
            child: Mutex::default(),
            restarting: Mutex::default(),
        };
        emulator.up().await;
        emulator
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn health(&self) -> String {
        let path = match self.kind {
            Kind::Fauxqs => "/health",
            Kind::MiniStack => "/_ministack/health",
        };
        self.endpoint() + path
    }

    /// Starts it and waits until it answers.
    pub(crate) async fn up(&self) {
        let mut child = self.child.lock().await;
        let log = self.folder.join("log");
        let log = std::fs::File::options().append(true).create(true).open(log);
        let log = log.unwrap();
        let (port, data) = (self.port.to_string(), self.folder.join("data"));
        let mut command = match self.kind {
            Kind::Fauxqs => {
                let modules = services().join("node_modules");
                let mut command = Command::new(modules.join(".bin/node"));
                command
                    .arg(top().join("tests/services/fauxqs.mjs"))
                    .args([modules.join("fauxqs").as_os_str(), port.as_ref()])
                    .arg(data);
                command
            }
            Kind::MiniStack => {
                let mut command = Command::new(services().join("python/bin/ministack"));
                command
                    .env("BIND_HOST", "127.0.0.1")
                    .env("GATEWAY_PORT", &port)
                    .env("PERSIST_STATE", "1")
                    .env("STATE_DIR", data);
                command
            }
        };
        let started = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        *child = Some(started.unwrap());
        for _ in 0..600 {
            if reqwest::get(self.health())
                .await
                .is_ok_and(|it| it.status().is_success())
            {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?} did not start within half a minute", self.kind);
    }

    /// Ends it, as its kind needs it to keep its data.
    pub(crate) async fn down(&self) {
        let Some(mut child) = self.child.lock().await.take() else {
            return;
        };
        match self.kind {
            Kind::Fauxqs => child.kill().await.unwrap(),
            Kind::MiniStack => {
                let id = i32::try_from(child.id().unwrap()).unwrap();
                kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
                let ended = timeout(Duration::from_secs(60), child.wait()).await;
                let status = ended.expect("MiniStack ends within a minute");
                println!("  MiniStack ended: {}", status.unwrap());
            }
        }
    }

    /// Everything in a queue, without receiving it.
    pub(crate) async fn messages(&self, queue: &str) -> Vec<InQueue> {
        let now = clock::now().0;
        match self.kind {
            Kind::Fauxqs => {
                let url = format!("{}/_fauxqs/queues/{queue}", self.endpoint());
                let found = json(&url).await;
                let list = |name: &str| found["messages"][name].as_array().cloned();
                let ready = list("ready").unwrap_or_default();
                let delayed = list("delayed").unwrap_or_default();
                let in_flight = list("inflight").unwrap_or_default();
                let at = |value: &Value| value.as_u64().filter(|at| *at > now).unwrap_or(0);
                let plain = ready.iter().chain(&delayed);
                let plain = plain.map(|it| (it, at(&it["delayUntil"])));
                let hidden = in_flight.iter();
                let hidden = hidden.map(|it| (&it["message"], at(&it["visibilityDeadline"])));
                plain
                    .chain(hidden)
                    .map(|(it, visible_at)| InQueue {
                        id: text(&it["messageId"]),
                        body: text(&it["body"]),
                        visible_at,
                        attributes: it["messageAttributes"].clone(),
                    })
                    .collect()
            }
            Kind::MiniStack => {
                let url = format!(
                    "{0}/_ministack/sqs/messages?QueueUrl={0}/000000000000/{queue}",
                    self.endpoint()
                );
                let found = json(&url).await;
                let mut all = Vec::new();
                for region in found["messages"].as_object().into_iter().flatten() {
                    for queues in region.1.as_object().into_iter().flatten() {
                        for messages in queues.1.as_object().into_iter().flatten() {
                            all.extend(messages.1.as_array().cloned().unwrap_or_default());
                        }
                    }
                }
                all.iter()
                    .map(|it| InQueue {
                        id: text(&it["MessageId"]),
                        body: text(&it["Body"]),
                        visible_at: if it["IsVisible"] == true {
                            0
                        } else {
                            it["VisibleAt"].as_u64().unwrap_or(0) * 1_000
                        },
                        attributes: it["MessageAttributes"].clone(),
                    })
                    .collect()
            }
        }
    }
}

/// What it answers, as soon as it does: it may be about to start again.
async fn json(url: &str) -> Value {
    loop {
        if let Ok(answer) = reqwest::get(url).await
            && let Ok(text) = answer.text().await
            && let Ok(value) = serde_json::from_str(&text)
        {
            return value;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
