//! A host with an admin interface: one queue in memory, and a policy in a folder of the test's own.

use std::path::PathBuf;

use backstop_tests::backstop::{Running, command, text};
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A token.
pub(super) const TOKEN: &str = "a-token-for-tests-0123456789abcdef";

pub(super) struct World {
    pub(super) folder: TempDir,
    pub(super) running: Running,
    /// `http://127.0.0.1:PORT`
    pub(super) url: String,
    /// `127.0.0.1:PORT`
    pub(super) address: String,
}

impl World {
    /// A host without a token.
    pub(super) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &[]).await
    }

    /// A host with the token in a file.
    pub(super) async fn with_token(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
        let token = ["--admin-token-file", path.to_str().unwrap()];
        Self::start_in(folder, &[&token, more].concat()).await
    }

    pub(super) async fn start_in(folder: TempDir, more: &[&str]) -> Self {
        let policy = folder.path().join("policy.wat");
        std::fs::write(&policy, waits(1)).unwrap();
        let cache = folder.path().join("kept");
        let arguments = [
            "--queue-url",
            "local:orders",
            "--exec",
            "true",
            "--policy",
            policy.to_str().unwrap(),
            "--cache",
            cache.to_str().unwrap(),
            "--admin",
            "127.0.0.1:0",
        ];
        let running = Running::start(&[&arguments, more].concat()).await;
        Self::ready(folder, running).await
    }

    /// A host with this configuration.
    pub(super) async fn of_config(folder: TempDir, config: &str) -> Self {
        let path = folder.path().join("backstop.toml");
        std::fs::write(&path, config).unwrap();
        let arguments = ["run", "--json", "--config", path.to_str().unwrap()];
        let running = Running::start_command(command(&arguments)).await;
        Self::ready(folder, running).await
    }

    async fn ready(folder: TempDir, running: Running) -> Self {
        let url = running.admin();
        let address = url.trim_start_matches("http://").to_owned();
        let world = Self {
            folder,
            running,
            url,
            address,
        };
        eventually("the host is ready", || async {
            world.get("/readyz").await.0 == 200
        })
        .await;
        world
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Activates a second version of the policy, so that there is one to roll back to.
    pub(super) async fn swap(&self) {
        std::fs::write(self.at("policy.wat"), waits(2)).unwrap();
        eventually("the new version is active", || async {
            let log = self.running.log();
            log.contains("a new version of the policy is active")
        })
        .await;
    }

    /// How many rollbacks there were, from the metrics: the log is written in the background.
    pub(super) async fn rollbacks(&self) -> u64 {
        let token = std::fs::read_to_string(self.at("token")).unwrap_or_default();
        let metrics = reqwest::Client::new().get(format!("{}/metrics", self.url));
        let metrics = metrics.bearer_auth(token.trim()).send().await.unwrap();
        let metrics = metrics.error_for_status().unwrap().text().await.unwrap();
        let mut lines = metrics.lines();
        let counts = lines
            .by_ref()
            .filter(|line| line.starts_with("backstop_policy_rollbacks_total{"));
        counts
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// The status and the JSON of a GET, without a token.
    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        let request = reqwest::Client::new().get(format!("{}{path}", self.url));
        answer(request).await
    }

    /// The status and the JSON of a GET with the token.
    pub(super) async fn get_with_token(&self, path: &str) -> (u16, Value) {
        let request = reqwest::Client::new().get(format!("{}{path}", self.url));
        answer(request.bearer_auth(TOKEN)).await
    }

    /// The status and the JSON of a POST.
    pub(super) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url));
        answer(request.json(body)).await
    }

    /// What is answered to these bytes.
    pub(super) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        text(&answer)
    }

    /// A subcommand of `backstop policy`: its exit code, its output and its errors.
    pub(super) async fn policy(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = command(&[&["policy"], arguments].concat())
            .env("USER", "ana")
            .output()
            .await
            .unwrap();
        let code = output.status.code().unwrap();
        (code, text(&output.stdout), text(&output.stderr))
    }
}

/// The status and the JSON of an answer.
pub(super) async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// The status in the first line of an answer; 0 if the connection was closed without one.
pub(super) fn status_of(answer: &str) -> u16 {
    let status = answer.strip_prefix("HTTP/1.1 ");
    status.map_or(0, |rest| rest.split(' ').next().unwrap().parse().unwrap())
}
