//! A service manager, such as systemd, learns from a host when it is ready, that it lives, what it does, and that it stops.

use std::process::{Child, Stdio};
use std::time::Duration;

use backstop_tests::backstop::command;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixDatagram};
use tokio::time::timeout;

/// The socket of a service manager whose watchdog waits for 300 ms.
struct Manager {
    folder: TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        Self { folder, socket }
    }

    /// Starts a host, as systemd would.
    fn run(&self, arguments: &[&str], watched: Option<u32>) -> Host {
        let mut host = command(&[&["run"], arguments].concat());
        host.env("NOTIFY_SOCKET", self.folder.path().join("notify"))
            .env("WATCHDOG_USEC", "300000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(id) = watched {
            host.env("WATCHDOG_PID", id.to_string());
        }
        Host(host.into_std().spawn().unwrap())
    }

    /// The lines of the next datagram, if one comes within this time.
    async fn next(&self, within: Duration) -> Option<String> {
        let mut buffer = [0; 4096];
        let received = timeout(within, self.socket.recv(&mut buffer)).await.ok()?;
        Some(String::from_utf8_lossy(&buffer[..received.unwrap()]).into_owned())
    }

    /// All lines up to the datagram that has this one.
    async fn until(&self, line: &str) -> String {
        let mut lines = String::new();
        while !lines.lines().any(|it| it == line) {
            let next = self.next(Duration::from_secs(30)).await;
            lines += &next.unwrap_or_else(|| panic!("no {line}:\n{lines}"));
        }
        lines
    }
}

struct Host(Child);

impl Host {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_service_manager_learns_that_a_host_is_ready_lives_and_stops() {
    let manager = Manager::start();
    let messages = manager.folder.path().join("messages");
    std::fs::write(&messages, "one\n").unwrap();
    let messages = messages.to_str().unwrap();
    let work = ["--exec", "sleep 3", "--messages", messages];
    let host = manager.run(
        &[&["--queue-url", "local:orders"], &work[..]].concat(),
        None,
    );
    let started = manager.until("READY=1").await;
    assert!(
        started.starts_with("STATUS=checking queues, handlers and policies\n"),
        "{started}"
    );
    assert!(started.contains("READY=1\nWATCHDOG=1\n"), "{started}");
    manager
        .until("STATUS=serving orders; messages in hand: 1")
        .await;
    let pinged = manager.until("WATCHDOG=1").await;
    assert!(!pinged.contains("READY"), "{pinged}");

    host.signal(Signal::TERM);
    let stopping = manager.until("STOPPING=1").await;
    assert!(
        stopping.ends_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000\nWATCHDOG=1\nSTATUS=stopping; messages in hand: 1\n"),
        "{stopping}"
    );
    // The attempt under way is finished, and may take its time.
    let draining = manager.until("WATCHDOG=1").await;
    assert!(draining.contains("EXTEND_TIMEOUT_USEC="), "{draining}");
}

#[tokio::test]
async fn a_host_whose_queues_are_not_checked_is_not_ready_and_a_stopped_process_does_not_ping() {
    let manager = Manager::start();
    // Nothing answers there, so the queue is being checked for seconds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let queue = format!("{endpoint}/000000000000/orders");
    let arguments = [
        "--queue-url",
        &queue,
        "--endpoint-url",
        &endpoint,
        "--exec",
        "true",
    ];
    let checking = manager.run(&arguments, None);
    let first = manager.next(Duration::from_secs(30)).await.unwrap();
    assert_eq!(first, "STATUS=checking queues, handlers and policies\n");
    assert_eq!(manager.next(Duration::from_secs(1)).await, None);
    drop(checking);

    let host = manager.run(&["--queue-url", "local:orders", "--exec", "true"], None);
    manager.until("WATCHDOG=1").await;
    host.signal(Signal::STOP);
    // What was sent before.
    while manager.next(Duration::from_millis(300)).await.is_some() {}
    assert_eq!(manager.next(Duration::from_secs(1)).await, None);
    host.signal(Signal::CONT);
    manager.until("WATCHDOG=1").await;
}

#[tokio::test]
async fn a_watchdog_of_another_process_gets_no_pings() {
    let manager = Manager::start();
    let host = manager.run(&["--queue-url", "local:orders", "--exec", "true"], Some(1));
    manager.until("READY=1").await;
    host.signal(Signal::TERM);
    let lines = manager.until("STOPPING=1").await;
    assert!(!lines.contains("WATCHDOG"), "{lines}");
}
