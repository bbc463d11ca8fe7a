//! A worker that is unavailable costs no message an attempt: real workers that are not there, end, come back, and are stopped together with the host.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, read_records};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function, delete};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// An HTTP worker in Python: appends the receive count of each request to a file, waits, and answers with a status.
const WORKER: &str = r#"
import os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, log, seconds, status = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
class Worker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        is_ready = os.path.exists(log + ".ready")
        self.send_response(200 if is_ready else 503)
        self.send_header("content-length", "0")
        self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        with open(log, "a") as file:
            file.write(self.headers["x-aws-sqsd-receive-count"] + "\n")
        time.sleep(seconds)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 512
Server(("127.0.0.1", port), Worker).serve_forever()
"#;

/// Where a worker is, when it runs.
struct Place {
    folder: tempfile::TempDir,
    port: u16,
}

impl Place {
    async fn free() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            port: listener.local_addr().unwrap().port(),
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the worker: each request takes this many seconds, and gets this status.
    fn start(&self, seconds: &str, status: &str) -> Child {
        Command::new("python3")
            .args(["-c", WORKER, &self.port.to_string()])
            .arg(self.path("received"))
            .args([seconds, status])
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Waits until the worker listens.
    async fn listens(&self) {
        eventually("the worker listens", || async {
            TcpStream::connect(("127.0.0.1", self.port)).await.is_ok()
        })
        .await;
    }

    /// The receive counts of the requests so far.
    fn received(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.path("received")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

fn bodies(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("order-{number}"))
}

/// A file of this many messages for a queue in memory.
fn messages(path: &Path, count: usize) -> String {
    std::fs::write(path, bodies(count).collect::<Vec<_>>().join("\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_start_waits_for_its_worker_and_receives_nothing() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(bodies(30)).await;
    let place = Place::free().await;
    let url = place.url();
    let more = [
        &["--http", &url, "--max-attempts", "1"][..],
        &["--admin", "127.0.0.1:0", "--metrics", "127.0.0.1:0"],
    ];
    let running = Running::start(&[&queues.arguments()[..], &more.concat()].concat()).await;
    assert!(running.log().contains("does not answer: ECONNREFUSED"));
    let advice = format!(" at {url}. Start it, or correct its URL");
    assert!(running.log().contains(&advice), "{}", running.log());
    let ready = reqwest::get(format!("{}/readyz", running.admin())).await;
    let ready = ready.unwrap();
    assert_eq!(ready.status(), 503);
    let reasons = ready.text().await.unwrap();
    assert!(
        reasons.contains("is not polled, because its worker is unavailable (ECONNREFUSED"),
        "{reasons}"
    );
    let closed = async || {
        let scrape = Scrape::of(&running.metrics()).await;
        scrape.sum("backstop_gate_closed", &[])
    };
    assert_eq!(closed().await, 1.0);
    let _worker = place.start("0", "200");
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    assert_eq!(closed().await, 0.0);
    running.logged("the worker is available again").await;
    let (_, counts) = running.stop().await;
    // Nothing was received for nobody.
    assert_eq!(place.received(), [1; 30]);
    assert_eq!(
        (counts[0]["received"].as_u64(), queues.dead().await),
        (Some(30), 0)
    );
}

#[tokio::test]
async fn a_worker_that_listens_gets_nothing_before_its_health_path_says_that_it_is_ready() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(bodies(10)).await;
    let place = Place::free().await;
    let _worker = place.start("0", "200");
    place.listens().await;
    let url = place.url();
    let more = ["--http", &url, "--http-health", "/healthz"];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    assert!(
        running
            .log()
            .contains("the worker is not ready, says /healthz"),
        "{}",
        running.log()
    );
    // A probe has asked again.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(place.received().len(), 0);
    std::fs::write(place.path("received.ready"), "").unwrap();
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.stop().await;
    assert_eq!(place.received(), [1; 10]);
}

#[tokio::test]
async fn a_worker_that_ends_and_comes_back_costs_attempts_only_of_what_it_had_received() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(bodies(300)).await;
    let place = Place::free().await;
    let records = place.path("decisions.jsonl");
    let mut worker = place.start("0.02", "200");
    place.listens().await;
    let url = place.url();
    let more = [
        &["--http", &url, "--decisions", records.to_str().unwrap()][..],
        // A second attempt of any message would be its last.
        &["--policy", "linear", "--set", "base=1s"],
        &["--max-attempts", "2", "--max-in-flight", "20"],
    ];
    let running = Running::start(&[&queues.arguments()[..], &more.concat()].concat()).await;
    eventually("it has received some", || async {
        place.received().len() > 40
    })
    .await;
    worker.kill().await.unwrap();
    eventually("the gate is closed", || async {
        running.log().contains("the worker is unavailable")
    })
    .await;
    let _again = place.start("0.02", "200");
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (queues.dead().await, place.received().len() >= 300),
        (0, true)
    );
    assert_eq!(counts[0]["succeeded"].as_u64(), Some(300));
    // Connections that broke after the request was sent.
    let failed = read_records(&records);
    assert!(failed.len() <= 20, "{}", failed.len());
    for record in failed {
        assert_eq!(record["failure"]["error"]["code"], "ECONNRESET", "{record}");
    }
}

#[tokio::test]
async fn without_descriptors_no_message_is_failed_that_was_not_sent() {
    let place = Place::free().await;
    let _worker = place.start("0.1", "200");
    let (url, records) = (place.url(), place.path("decisions.jsonl"));
    place.listens().await;
    let arguments = [
        &["run", "--json", "--queue-url", "local:try", "--http", &url][..],
        &["--messages", &messages(&place.path("messages"), 100)],
        &["--decisions", records.to_str().unwrap()],
        &["--max-attempts", "1", "--max-in-flight", "100"],
    ];
    let backstop = command(&arguments.concat());
    let backstop = backstop.as_std();
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(backstop.get_program())
        .args(backstop.get_args())
        .envs(
            backstop
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let running = Running::start_command(limited).await;
    let warning = "this process may have 64 files open, and its queues may need 238";
    assert!(running.log().contains(warning), "{}", running.log());
    let (code, counts) = running.ended().await;
    assert_eq!(
        (
            code,
            counts[0]["succeeded"].as_u64(),
            counts[0]["dead-lettered"].as_u64()
        ),
        (0, Some(100), Some(0))
    );
    assert!(counts[0]["handed-back"].as_u64() > Some(0), "{counts:?}");
    assert_eq!(
        (place.received().len(), read_records(&records).len()),
        (100, 0)
    );
}

#[tokio::test]
async fn a_program_that_is_replaced_costs_no_message_an_attempt() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::free().await;
    let (script, away) = (place.path("work.sh"), place.path("away.sh"));
    let done = place.path("done");
    std::fs::write(
        &script,
        format!("#!/bin/sh\ncat >> {0}; echo >> {0}", done.display()),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let handled = || {
        let text = std::fs::read_to_string(&done).unwrap_or_default();
        text.lines().count()
    };
    let (records, file) = (
        place.path("decisions.jsonl"),
        messages(&place.path("messages"), 200),
    );
    let more = [
        &[
            "--queue-url",
            "local:try",
            "--exec",
            script.to_str().unwrap(),
        ][..],
        &[
            "--messages",
            &file,
            "--decisions",
            records.to_str().unwrap(),
        ],
        &["--max-attempts", "1", "--max-in-flight", "2"],
    ];
    let running = Running::start(&more.concat()).await;
    eventually("some are done", || async { handled() > 5 }).await;
    std::fs::rename(&script, &away).unwrap();
    eventually("the gate is closed", || async {
        running.log().contains("the worker is unavailable")
    })
    .await;
    std::fs::rename(&away, &script).unwrap();
    let (code, counts) = running.ended().await;
    assert_eq!((code, counts[0]["succeeded"].as_u64()), (0, Some(200)));
    assert_eq!((handled(), read_records(&records).len()), (200, 0));
}

#[tokio::test]
async fn a_function_that_is_gone_costs_no_message_an_attempt() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let function = || Function::python(FAILS_WHEN_TOLD).make(&queues.endpoint, "gone");
    function().await;
    let more = ["--lambda", "gone", "--max-attempts", "1"];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    delete(&queues.endpoint, "gone").await;
    queues
        .send((0..5).map(|_| r#"{"fail": false}"#.to_owned()))
        .await;
    eventually("the gate is closed", || async {
        running.log().contains("the worker is unavailable")
    })
    .await;
    running.logged("ResourceNotFoundException").await;
    function().await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(5), 0)
    );
}

#[tokio::test]
async fn a_worker_that_is_stopped_together_with_its_host_costs_no_attempt() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(bodies(20)).await;
    let place = Place::free().await;
    let records = place.path("decisions.jsonl");
    let mut worker = place.start("60", "200");
    place.listens().await;
    let url = place.url();
    let more = ["--http", &url, "--decisions", records.to_str().unwrap()];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("all are at work", || async { place.received().len() == 20 }).await;
    // The worker's connections break a moment before the host hears of the stop.
    worker.kill().await.unwrap();
    let (_, counts) = running.stop().await;
    assert_eq!(
        (
            counts[0]["handed-back"].as_u64(),
            counts[0]["retried"].as_u64()
        ),
        (Some(20), Some(0))
    );
    assert_eq!(read_records(&records).len(), 0);
    // Nor after a restart, although SQS has counted the receive.
    let _worker = place.start("0", "500");
    place.listens().await;
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("all have failed", || async { place.received().len() >= 40 }).await;
    running.stop().await;
    let first = read_records(&records).into_iter().take(20);
    let attempts: Vec<_> = first
        .map(|record| record["failure"]["attempt"].clone())
        .collect();
    assert_eq!(attempts, [1; 20]);
    assert!(
        place
            .received()
            .iter()
            .skip(20)
            .take(20)
            .all(|receives| *receives == 2)
    );
}
