//! A release folder: a policy's file and keys.

use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::backstop::{command, text};
use crate::policies::waits;

/// A folder with a policy, `orders.wasm`, and two key pairs, `team` and `other`; commands run in it.
#[derive(Debug)]
pub struct Bench(TempDir);

impl Bench {
    /// A folder with both.
    pub async fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.write("orders.wasm", &component());
        for name in ["team", "other"] {
            let made = bench.run(&["keygen", name, "--no-password"]).await;
            assert!(made.status.success(), "{}", text(&made.stderr));
        }
        bench
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// The content of a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// `backstop policy` in the folder, with Docker's configuration in `docker` there.
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = command(&[&["policy"], arguments].concat());
        command
            .current_dir(self.0.path())
            .env("DOCKER_CONFIG", self.path("docker"))
            .env_remove("SOURCE_DATE_EPOCH")
            .env_remove("BACKSTOP_KEY_PASSWORD")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    /// The JSON output of a command that succeeds.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A command fails with this exit code and these words.
    pub async fn fails(&self, arguments: &[&str], code: i32, words: &str) {
        let output = self.run(arguments).await;
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{shown}");
        assert!(shown.contains(words), "{words:?} is not in:\n{shown}");
    }

    /// Docker's configuration.
    pub fn log_in(&self, config: &Value) {
        std::fs::create_dir_all(self.path("docker")).unwrap();
        self.write("docker/config.json", config.to_string().as_bytes());
    }
}

/// A policy as a component.
pub fn component() -> Vec<u8> {
    let module = include_bytes!("../../host/engine/builtin/linear.wasm");
    let mut encoder = wit_component::ComponentEncoder::default();
    encoder.module(module).unwrap().encode().unwrap()
}

/// A policy that waits this long, as a core module written by hand.
pub fn module(milliseconds: u32) -> Vec<u8> {
    wat::parse_str(waits(milliseconds)).unwrap()
}
