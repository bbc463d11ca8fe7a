//! SIGHUP: a host reads its configuration again, all of it or nothing, at any time of its life.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::{Worker, numbered};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A folder with a configuration of one queue.
struct Folder {
    folder: TempDir,
    common: String,
}

impl Folder {
    fn of(queues: &Queues, handler: &str) -> Self {
        let common = format!(
            "[policies]\ncache = \"cache\"\n[queues.orders]\nurl = \"{}\"\ndead-letter-queue = \"{}\"\nhandler = {{ {handler} }}\n",
            queues.url, queues.dead_letters
        );
        let common = format!("endpoint-url = \"{}\"\n{common}", queues.endpoint);
        let folder = tempfile::tempdir().unwrap();
        let folder = Self { folder, common };
        folder.write("");
        folder
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("backstop.toml")
    }

    /// Writes these keys of the queue, in addition to what it needs.
    fn write(&self, keys: &str) {
        std::fs::write(self.path(), format!("{}{keys}\n", self.common)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = command(arguments);
        command
            .current_dir(&self.folder)
            .env_remove("BACKSTOP_CACHE");
        command
    }

    async fn start(&self, more: &[&str]) -> Running {
        let own = ["run", "--json", "--config", "backstop.toml"];
        Running::start_command(self.command(&[&own, more].concat())).await
    }

    /// How the queue is served.
    async fn serving(&self) -> Value {
        let output = self.command(&["status", "--json"]).output().await.unwrap();
        let status: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        status["queues"][0]["serving"].clone()
    }

    async fn has_rate(&self, rate: &str) {
        eventually(rate, || async { self.serving().await["rate"] == rate }).await;
    }
}

#[tokio::test]
async fn a_hangup_changes_what_can_change_and_names_what_needs_a_restart() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::answering(|_| 200).await;
    let folder = Folder::of(&queues, &format!("http = \"{}\"", worker.url));
    folder.write("rate = \"50/s\"");
    let running = folder
        .start(&["--grace", "2s", "--metrics", "127.0.0.1:0"])
        .await;
    let outdated = || async {
        let scrape = Scrape::of(&running.metrics()).await;
        scrape.sum("backstop_configuration_outdated", &[])
    };
    assert_eq!(outdated().await, 0.0);
    folder.write("rate = \"10/s\"\nmax-in-flight = 7\nlinger = \"50ms\"\ngrace = \"9s\"");
    running.signal(Signal::HUP);
    folder.has_rate("10/s").await;
    assert_eq!(folder.serving().await["max-in-flight"], 7);
    running
        .logged("queues.orders.max-in-flight: 100 -> 7; queues.orders.rate: 50/s -> 10/s")
        .await;
    running.logged("overridden=\"queues.orders.grace\"").await;
    running
        .logged("need a restart of this host keys=\"queues.orders.linger\"")
        .await;
    assert_eq!(outdated().await, 1.0);

    // What an operator has set stays, as long as its key does.
    let set = ["set", "orders", "rate=20/s"];
    assert!(folder.command(&set).status().await.unwrap().success());
    folder.write("rate = \"10/s\"\nmax-in-flight = 8");
    running.signal(Signal::HUP);
    running.logged("max-in-flight: 7 -> 8").await;
    assert_eq!(outdated().await, 0.0);
    assert_eq!(folder.serving().await["rate"], "20/s");

    // A mistake, a file that has gone, and a queue that has: nothing changes, and the host works.
    folder.write("rate = \"1/s\"\nmax-in-flight = 0");
    running.signal(Signal::HUP);
    running
        .logged("nothing has changed, and the host goes on as before")
        .await;
    assert_eq!(outdated().await, 1.0);
    running
        .logged("line 9, column 1: queues.orders.max-in-flight")
        .await;
    folder.write("rate = 5");
    running.signal(Signal::HUP);
    running
        .logged("expected a text in quotes, not the number 5")
        .await;
    std::fs::remove_file(folder.path()).unwrap();
    running.signal(Signal::HUP);
    running
        .logged("can't read the configuration backstop.toml")
        .await;
    let serving = folder.serving_elsewhere().await;
    assert_eq!(
        (&serving["rate"], &serving["max-in-flight"]),
        (&"20/s".into(), &8.into())
    );
    queues.send(numbered("fine", 3)).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (code, counts) = running.stop().await;
    assert_eq!((code, counts[0]["succeeded"].as_u64()), (0, Some(3)));
}

impl Folder {
    /// How the queue is served, without the configuration.
    async fn serving_elsewhere(&self) -> Value {
        let cache = ["status", "--json", "--cache", "cache"];
        let output = self.command(&cache).output().await.unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["queues"][0]["serving"].clone()
    }
}

#[tokio::test]
async fn a_maintenance_window_opens_and_goes_by_a_hangup() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::answering(|_| 200).await;
    let folder = Folder::of(&queues, &format!("http = \"{}\"", worker.url));
    let running = folder.start(&["--grace", "2s"]).await;
    // Two of them fill each day.
    folder.write(
        "pause = [{ at = \"0 0 * * *\", zone = \"UTC\", for = \"13h\" }, { at = \"0 12 * * *\", zone = \"UTC\", for = \"13h\" }]",
    );
    running.signal(Signal::HUP);
    running
        .logged("a maintenance window of the configuration is open")
        .await;
    // A poll that was under way has ended.
    tokio::time::sleep(Duration::from_secs(3)).await;
    queues.send(numbered("fine", 2)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((worker.attempts().len(), queues.held().await), (0, 2));
    folder.write("");
    running.signal(Signal::HUP);
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.logged("the maintenance window is over").await;
    running.stop().await;
}

#[tokio::test]
async fn hangups_in_quick_succession_end_with_the_last_file() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = Folder::of(&queues, "exec = \"true\"");
    let running = folder.start(&["--grace", "2s"]).await;
    for rate in 1..=50 {
        folder.write(&format!("rate = \"{rate}/s\""));
        running.signal(Signal::HUP);
    }
    folder.has_rate("50/s").await;
    let log = running.log();
    let read = log.matches("the configuration was read again").count();
    assert!((1..=50).contains(&read), "{log}");
    running.stop().await;
}

#[tokio::test]
async fn a_hangup_during_the_start_counts_when_the_start_has_ended() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let proxy = Proxy::start(&queues.endpoint, |_, _| Fault::Slow).await;
    let folder = Folder::of(&queues.behind(&proxy.endpoint), "exec = \"true\"");
    folder.write("rate = \"5/s\"");
    let log = folder.folder.path().join("log");
    let mut starting = folder
        .command(&["run", "--config", "backstop.toml", "--grace", "2s"])
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let logged = |text: &'static str| {
        let log = log.clone();
        eventually(text, move || {
            let said = std::fs::read_to_string(&log).unwrap();
            async move { said.contains(text) }
        })
    };
    logged("loading the policy").await;
    folder.write("rate = \"7/s\"");
    let id = starting.id().unwrap();
    signal(id, Signal::HUP);
    logged(" ready ").await;
    logged("queues.orders.rate: 5/s -> 7/s").await;
    signal(id, Signal::TERM);
    assert!(starting.wait().await.unwrap().success());
}

fn signal(id: u32, signal: Signal) {
    let id = Pid::from_raw(id.try_into().unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

#[tokio::test]
async fn a_hangup_while_the_host_stops_changes_nothing() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["slow".to_owned()]).await;
    let folder = Folder::of(
        &queues,
        "exec = [\"sh\", \"-c\", \"touch started; sleep 2\"]",
    );
    let started = folder.folder.path().join("started");
    let running = folder.start(&["--grace", "25s"]).await;
    eventually("the work has started", || async { started.exists() }).await;
    running.signal(Signal::TERM);
    running.logged("stopping").await;
    folder.write("max-in-flight = 1");
    running.signal(Signal::HUP);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!running.log().contains("read again"), "{}", running.log());
    let (code, counts) = running.ended().await;
    assert_eq!((code, counts[0]["succeeded"].as_u64()), (0, Some(1)));
}

/// `script` makes a terminal, and its end closes it.
#[tokio::test]
async fn a_host_whose_terminal_closes_stops_and_one_whose_terminal_is_there_reads_its_file() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = Folder::of(&queues, "exec = \"true\"");
    let at = |name: &str| folder.folder.path().join(name);
    let host = folder.command(&["run", "--config", "backstop.toml", "--grace", "2s"]);
    let line = format!(
        "echo $$ > id; exec '{}' run --config backstop.toml --grace 2s 2> log",
        Path::new(host.as_std().get_program()).display()
    );
    let mut terminal = tokio::process::Command::new("script");
    terminal
        .args(["-qec", &line, "/dev/null"])
        .current_dir(&folder.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    for (name, value) in host.as_std().get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    let mut terminal = terminal.spawn().unwrap();
    let logged = |text: &'static str| {
        let log = at("log");
        eventually(text, move || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            async move { said.contains(text) }
        })
    };
    logged(" ready ").await;
    let id = std::fs::read_to_string(at("id")).unwrap();
    let id: u32 = id.trim().parse().unwrap();
    folder.write("rate = \"7/s\"");
    signal(id, Signal::HUP);
    logged("queues.orders.rate: none -> 7/s").await;
    terminal.kill().await.unwrap();
    logged("stopping: waiting for messages in progress").await;
    let process = PathBuf::from(format!("/proc/{id}"));
    eventually("the host has ended", || async { !process.exists() }).await;
}
