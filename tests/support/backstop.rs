//! The `backstop` command as a child process.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::aws::{CREDENTIALS, Queues};
use crate::eventually;
use crate::worker::Worker;

/// The path of a program that `cargo build --workspace --bins` made.
pub fn program(name: &str) -> PathBuf {
    // A test is target/PROFILE/deps/NAME-HASH, a program of the tests target/PROFILE/NAME.
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap();
    let profile = folder.parent().filter(|_| folder.ends_with("deps"));
    let path = profile.unwrap_or(folder).join(name);
    assert!(
        path.exists(),
        "{} is not there: run `cargo build --workspace --bins`",
        path.display()
    );
    path
}

/// The cache of compiled code for all of these programs, so that Python policies are compiled once: `target/tmp`, unless `BACKSTOP_CACHE` is set.
pub fn cache() -> PathBuf {
    match std::env::var_os("BACKSTOP_CACHE") {
        Some(folder) => folder.into(),
        None => program("").with_file_name("tmp/backstop-cache"),
    }
}

/// `backstop` with these arguments, test credentials and no other variable that it reads.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("backstop"));
    command
        .args(arguments)
        .envs(CREDENTIALS)
        .env_remove("RUST_LOG")
        .env_remove("BACKSTOP_ADMIN_TOKEN")
        .env("BACKSTOP_CACHE", cache())
        .env("NO_COLOR", "1")
        .kill_on_drop(true);
    command
}

/// Runs it to its end.
pub async fn run(arguments: &[&str]) -> Output {
    command(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap()
}

/// What a command prints on a terminal with this many columns. `script` makes the terminal.
pub async fn on_terminal(command: &Command, columns: usize) -> String {
    let command = command.as_std();
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words = words.map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''")));
    let line = words.collect::<Vec<_>>().join(" ");
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        terminal.current_dir(folder);
    }
    let columns = columns.to_string();
    let terminal = terminal.env("COLUMNS", columns).env("TERM", "dumb");
    let output = terminal.stdin(Stdio::null()).output().await.unwrap();
    let printed = crate::terminal::plain(&text(&output.stdout));
    printed.replace("\r\n", "\n")
}

/// The text of an output.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running `backstop run`, its lines collected.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Running {
    /// Starts it and waits until it is ready. By default it stops within two seconds: no poll is longer than the grace period.
    pub async fn start(arguments: &[&str]) -> Self {
        let grace: &[&str] = if arguments.contains(&"--grace") {
            &[]
        } else {
            &["--grace", "2s"]
        };
        Self::start_command(command(&[&["run", "--json"], grace, arguments].concat())).await
    }

    /// Starts a command that is `backstop run --json` and waits until it is ready.
    pub async fn start_command(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Lines::collect(child.stdout.take().unwrap());
        let stderr = Lines::collect(child.stderr.take().unwrap());
        let mut running = Self {
            child,
            stdout,
            stderr,
        };
        while !running.log().contains(" ready ") {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("backstop ended with {status}:\n{}", running.log());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        running
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.stderr.text()
    }

    /// Waits until this text is in the log, which is written in the background.
    pub async fn logged(&self, text: &str) {
        eventually(text, || async { self.log().contains(text) }).await;
    }

    /// The URL of its metrics, if it serves them.
    pub fn metrics(&self) -> String {
        let log = self.log();
        let url = log.split("serving metrics at ").nth(1).unwrap();
        url.split_whitespace().next().unwrap().to_owned()
    }

    /// The URL of its admin interface, if it serves one.
    pub fn admin(&self) -> String {
        let log = self.log();
        let url = log.split("serving the admin interface at ").nth(1).unwrap();
        url.split_whitespace().next().unwrap().to_owned()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Kills it at once, as a crash would.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Ends it with SIGTERM; its exit code and the counts of its queues.
    pub async fn stop(self) -> (i32, Vec<Value>) {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits until it ends by itself; its exit code and the counts of its queues.
    pub async fn ended(mut self) -> (i32, Vec<Value>) {
        let status = self.child.wait().await.unwrap();
        self.stdout.done().await;
        let counts = self
            .stdout
            .text()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        (status.code().unwrap_or(-1), counts)
    }
}

/// Serves these queues with this worker and further arguments.
pub async fn serve(queues: &Queues, worker: &Worker, more: &[&str]) -> Running {
    let handler = ["--http", &worker.url];
    Running::start(&[&queues.arguments()[..], &handler, more].concat()).await
}

/// The decision records in a file.
pub fn read_records(path: &Path) -> Vec<Value> {
    let mut lines = record_lines(path);
    lines.retain(|line| line["event"].is_null());
    lines
}

/// The events in a file of decision records.
pub fn read_events(path: &Path) -> Vec<Value> {
    let mut lines = record_lines(path);
    lines.retain(|line| !line["event"].is_null());
    lines
}

fn record_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[derive(Debug)]
struct Lines {
    text: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl Lines {
    fn collect(stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let collected = Arc::clone(&text);
        let reading = tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut text = collected.lock().unwrap();
                text.push_str(&line);
                text.push('\n');
            }
        });
        Self { text, reading }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    async fn done(&mut self) {
        let _ = (&mut self.reading).await;
    }
}
