//! What many queues cost: hosts at rest with up to 1,000 queues, and messages over 1,000 queues with as many hosts as fit on this machine.
//!
//! `make bench` runs it, against fauxqs. The hosts are processes of the `backstop` command, with a worker behind HTTP.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark that can't go on fails"
)]

#[path = "throughput/worker.rs"]
mod worker;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use backstop_core::clock;
use backstop_tests::aws;
use backstop_tests::backstop::{Running, command};
use backstop_tests::emulator::fauxqs;
use backstop_tests::process::{peak_memory, processor_seconds, resident_memory};
use futures_util::{StreamExt, stream};
use tests_benches::{Better, Chapter, Figure, Table, Unit};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::sleep;

const QUEUES: usize = 1_000;

/// How many messages each queue gets.
const EACH: usize = 20;

/// How long hosts at rest are left alone, and then watched: the polls of 20 s are spread by then.
const SETTLED: Duration = Duration::from_secs(25);
const WATCHED: Duration = Duration::from_secs(40);

const ABOUT: &str = "Hosts are processes of the `backstop` command with `idle-poll = \"20s\"`, `max-polls = 2` and `max-in-flight = 20` for each queue, and a worker behind HTTP; SQS is fauxqs. At rest, no queue has messages. Then each of 1,000 queues gets 20 messages at once, and the hosts share the queues. Hosts, worker and emulator share this machine's processors, so more hosts show that nothing is lost or done twice, and not that they are faster.";

fn main() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build().unwrap();
    match std::env::args().nth(1).as_deref() {
        Some("worker") => runtime.block_on(worker::run()),
        _ => runtime.block_on(measure()),
    }
}

async fn measure() {
    let client = Client::new(&aws::config(&fauxqs().endpoint).await);
    create(&client, "scale-dead").await;
    let names = (0..QUEUES).map(|number| format!("scale-{number}"));
    let urls: Vec<String> = stream::iter(names)
        .map(|name| create(&client, name))
        .buffered(8)
        .collect()
        .await;
    let mut chapter = Chapter::new("scale", "Many queues", ABOUT);
    let mut table = Table::new("One host at rest")
        .column("start until ready", Unit::Seconds, Better::Less)
        .column("resident memory", Unit::Mebibytes, Better::Less)
        .column("open files", Unit::Number, Better::Less)
        .column("requests a second", Unit::Number, Better::Less)
        .column("processor time a minute", Unit::Milliseconds, Better::Less);
    for count in [1, 10, 100, QUEUES] {
        let figures = at_rest(&urls[..count]).await;
        table.ours(format!("{count} queues"), figures.map(Figure::exact));
    }
    chapter.add(table);
    let mut table = Table::new("20,000 messages over 1,000 queues")
        .column("messages a second", Unit::PerSecond, Better::More)
        .column("processor time a message", Unit::Microseconds, Better::Less)
        .column("requests a message", Unit::Number, Better::Less)
        .column("peak memory of all hosts", Unit::Mebibytes, Better::Less);
    for hosts in [1, 2, 4] {
        let figures = under_load(&client, &urls, hosts).await;
        table.ours(format!("{hosts} hosts"), figures.map(Figure::exact));
    }
    chapter.add(table);
    chapter.write();
}

async fn create(client: &Client, name: impl Into<String>) -> String {
    let created = client.create_queue().queue_name(name);
    created.send().await.unwrap().queue_url.unwrap()
}

/// A host that serves these queues, ready.
async fn host(urls: &[String], worker: &str, folder: &Path) -> Running {
    let dead = format!(
        "{}-dead",
        urls[0].trim_end_matches(|it: char| it.is_ascii_digit() || it == '-')
    );
    let mut config = format!("endpoint-url = {:?}\n", fauxqs().endpoint);
    for (number, url) in urls.iter().enumerate() {
        write!(
            config,
            "\n[queues.q{number}]\nurl = {url:?}\ndead-letter-queue = {dead:?}\nhandler = {{ http = {worker:?} }}\npolicy = \"full-jitter\"\nidle-poll = \"20s\"\nmax-polls = 2\nmax-in-flight = 20\n"
        )
        .unwrap();
    }
    let file = folder.join("backstop.toml");
    std::fs::write(&file, config).unwrap();
    Running::start_command(command(&[
        "run",
        "--json",
        "--config",
        file.to_str().unwrap(),
    ]))
    .await
}

async fn requests() -> f64 {
    let answer = reqwest::get(format!("{}/requests", fauxqs().endpoint)).await;
    answer.unwrap().text().await.unwrap().parse().unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
async fn at_rest(urls: &[String]) -> [f64; 5] {
    let folder = tempfile::tempdir().unwrap();
    let started = clock::instant();
    // Nobody calls it.
    let host = host(urls, "http://127.0.0.1:9/", folder.path()).await;
    let ready = started.elapsed().as_secs_f64();
    sleep(SETTLED).await;
    let (before, processor) = (requests().await, processor_seconds(host.id()));
    sleep(WATCHED).await;
    let seconds = WATCHED.as_secs_f64();
    let requests = (requests().await - before) / seconds;
    let processor = (processor_seconds(host.id()) - processor) * 1e3 * 60.0 / seconds;
    let open = std::fs::read_dir(format!("/proc/{}/fd", host.id())).unwrap();
    let figures = [
        ready,
        resident_memory(host.id()),
        open.count() as f64,
        requests,
        processor,
    ];
    // Not killed: the emulator would give the next messages to a poll that nobody waits for.
    host.stop().await;
    figures
}

/// The worker, as a process of its own.
async fn worker() -> (Child, String) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let address = lines.next_line().await.unwrap().unwrap();
    (process, address)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
async fn under_load(client: &Client, urls: &[String], hosts: usize) -> [f64; 4] {
    let (_process, worker) = worker().await;
    let folders: Vec<_> = (0..hosts).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut sends = stream::iter(urls)
        .map(|url| send(client, url))
        .buffer_unordered(8);
    while sends.next().await.is_some() {}
    let before = requests().await;
    // At the same time, so that all of them are there from the beginning.
    let shares = urls.chunks(urls.len().div_ceil(hosts)).zip(&folders);
    let running = shares.map(|(share, folder)| host(share, &worker, folder.path()));
    let running = futures_util::future::join_all(running).await;
    let messages = QUEUES * EACH;
    let seconds = loop {
        let answer = reqwest::get(format!("{worker}/seen")).await.unwrap();
        let answer = answer.text().await.unwrap();
        let (seen, seconds) = answer.split_once(' ').unwrap();
        let seen: usize = seen.parse().unwrap();
        if seen >= messages {
            assert_eq!(seen, messages, "a message was attempted twice");
            break seconds.parse::<f64>().unwrap();
        }
        sleep(Duration::from_millis(20)).await;
    };
    // The last deletes.
    sleep(Duration::from_secs(1)).await;
    let all = |of: fn(u32) -> f64| running.iter().map(|host| of(host.id())).sum::<f64>();
    let (processor, memory) = (all(processor_seconds), all(peak_memory));
    let requests = requests().await - before;
    for host in running {
        host.stop().await;
    }
    let messages = messages as f64;
    [
        messages / seconds,
        processor * 1e6 / messages,
        requests / messages,
        memory,
    ]
}

async fn send(client: &Client, url: &str) {
    for first in (0..EACH).step_by(10) {
        let entries = (first..EACH.min(first + 10)).map(|number| {
            let entry = SendMessageBatchRequestEntry::builder().id(number.to_string());
            entry.message_body(number.to_string()).build().unwrap()
        });
        let batch = client.send_message_batch().queue_url(url);
        let sent = batch.set_entries(Some(entries.collect())).send().await;
        assert!(sent.unwrap().failed.is_empty());
    }
}
