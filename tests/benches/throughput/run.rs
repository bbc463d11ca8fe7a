//! Runs one side over a full queue, and measures its process.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::aws::{self, Queues};
use backstop_tests::emulator::{fauxqs, services};
use backstop_tests::process::{peak_memory, processor_seconds};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Work;
use crate::packages::Packages;
use crate::plan::{Case, Latency, Side};
use crate::{fill, settled};

/// The longest that a run may take.
const RUN: Duration = Duration::from_secs(60);

/// One round of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Messages a second.
    pub(crate) rate: f64,
    /// Microseconds of processor time for each message.
    pub(crate) processor: f64,
    /// Requests for each message.
    pub(crate) requests: f64,
    /// Peak memory in MiB.
    pub(crate) memory: f64,
    /// The milliseconds of importing the library, for the sides that do.
    pub(crate) import: Option<f64>,
    /// Milliseconds from the start of the process to its `start`.
    pub(crate) started: f64,
}

/// The stopwatch of a side: prints when it starts and how long it took, which the parent waits for.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        println!("start");
        Self(clock::instant())
    }

    /// Returns when the parent has measured the process.
    pub(crate) fn end(self) {
        println!("end {}", self.0.elapsed().as_secs_f64());
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    }
}

/// The emulator, and the proxy in front of it.
#[derive(Debug)]
pub(crate) struct Services {
    direct: String,
    delayed: String,
    _proxy: Companion,
    packages: Packages,
}

/// A process of this program that prints its address, and ends when it is dropped.
#[derive(Debug)]
struct Companion {
    address: String,
    process: std::process::Child,
}

impl Companion {
    fn start(arguments: &[&str]) -> Self {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let output = process.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut address).unwrap();
        Self {
            address: address.trim().to_owned(),
            process,
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

impl Services {
    pub(crate) fn start() -> Self {
        let direct = fauxqs().endpoint.clone();
        let proxy = Companion::start(&["proxy", direct.trim_start_matches("http://")]);
        Self {
            direct,
            delayed: proxy.address.clone(),
            _proxy: proxy,
            packages: Packages::install(),
        }
    }

    fn endpoint(&self, latency: Latency) -> &str {
        match latency {
            Latency::None => &self.direct,
            Latency::TenMilliseconds => &self.delayed,
        }
    }

    /// The receives, deletes and changes of visibility that have reached the emulator so far.
    async fn requests(&self) -> usize {
        let answer = reqwest::get(format!("{}/requests", self.direct)).await;
        answer.unwrap().text().await.unwrap().parse().unwrap()
    }
}

/// Fills the queues, and lets the side empty them.
pub(crate) async fn measure(services: &Services, case: &Case) -> Measured {
    // As many for each queue.
    let count = case.messages() / case.queues * case.queues;
    let mut queues = Vec::new();
    for _ in 0..case.queues {
        let made = if case.fifo {
            Queues::fifo(&services.direct, &[]).await
        } else {
            Queues::standard(&services.direct, &[]).await
        };
        fill::fill(&made, count / case.queues, case).await;
        queues.push(made);
    }
    let worker = case
        .side
        .has_http_worker()
        .then(|| Companion::start(&["worker"]));
    let joined = |url: fn(&Queues) -> &str| queues.iter().map(url).collect::<Vec<_>>().join(",");
    let work = Work {
        urls: joined(|it| &it.url),
        endpoint: services.endpoint(case.latency).to_owned(),
        messages: count,
        failing: case.failing,
        polls: case.polls,
        in_flight: case.side.in_flight(),
        dead_letters: joined(|it| &it.dead_letters),
        attributes: case.side == Side::BareWithAttributes,
        worker: worker
            .as_ref()
            .map(|it| it.address.clone())
            .unwrap_or_default(),
        load: case.load.argument().to_owned(),
    };
    let mut command = command(case.side, &work, services.packages.node());
    if case.side.is_package() {
        services.packages.prepare(&mut command);
    } else {
        command.env("BACKSTOP_CACHE", "off");
    }
    if let Some(threads) = case.threads {
        command.env("TOKIO_WORKER_THREADS", threads.to_string());
    }
    let before = services.requests().await;
    let spawned = clock::instant();
    let (mut child, mut output) = spawn(&mut command);
    let measured = async {
        let id = child.id().unwrap();
        let (mut import, mut started) = (None, 0.0);
        let (processor, seconds) = if matches!(case.side, Side::Command { .. }) {
            settled::by_the_command(id, &work.worker, &queues[0], count).await
        } else {
            import = start(&mut output).await;
            started = spawned.elapsed().as_secs_f64() * 1e3;
            let processor = processor_seconds(id);
            let seconds: f64 = expect(&mut output, "end ").await.parse().unwrap();
            (processor_seconds(id) - processor, seconds)
        };
        let requests = services.requests().await - before;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (count, requests) = (count as f64, requests as f64);
        Measured {
            rate: count / seconds,
            processor: processor * 1e6 / count,
            requests: requests / count,
            memory: peak_memory(id),
            import,
            started,
        }
    };
    let measured = timeout(RUN, measured).await;
    let measured = measured.unwrap_or_else(|_| panic!("{} took too long", case.title()));
    child.kill().await.unwrap();
    log(case, &measured);
    measured
}

#[expect(clippy::print_stderr, reason = "the tables come minutes later")]
fn log(case: &Case, measured: &Measured) {
    let (rate, processor) = (measured.rate, measured.processor);
    eprintln!("{}: {rate:.0}/s, {processor:.1} µs", case.title());
}

fn command(side: Side, work: &Work, packaged: &Path) -> Command {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/throughput");
    let python = |script: &str| {
        let mut python = Command::new(services().join("python/bin/python"));
        python.arg(format!("{scripts}/{script}"));
        python
    };
    let mut command = match side {
        Side::Bare | Side::BareWithAttributes | Side::BareHttp => this_program("bare"),
        Side::Backstop { .. } => this_program("consumer"),
        Side::Command { .. } => return settled::command(work),
        Side::SqsConsumer => {
            let mut node = Command::new(services().join("node_modules/.bin/node"));
            node.arg(format!("{scripts}/sqs_consumer.mjs"));
            node.arg(services());
            node
        }
        Side::Node { .. } => {
            let mut node = Command::new(services().join("node_modules/.bin/node"));
            node.arg(format!("{scripts}/backstop_worker.mjs"));
            node.arg(packaged);
            node
        }
        Side::Boto3 => python("boto3_loop.py"),
        Side::Aiobotocore { .. } => python("aiobotocore_loop.py"),
        Side::PythonFunction { .. } | Side::PythonCoroutine { .. } => {
            let mut python = python("backstop_worker.py");
            let is_coroutine = matches!(side, Side::PythonCoroutine { .. });
            python.arg(if is_coroutine {
                "coroutine"
            } else {
                "function"
            });
            python
        }
    };
    command.args(work.arguments());
    command
}

fn spawn(command: &mut Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command
        .envs(aws::CREDENTIALS)
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, output)
}

/// Waits until the side starts. Returns how long the import of its library took, in milliseconds, if it says so.
async fn start(output: &mut Lines<BufReader<ChildStdout>>) -> Option<f64> {
    let line = expect(output, "").await;
    let seconds: f64 = line.strip_prefix("import ")?.parse().unwrap();
    expect(output, "start").await;
    Some(seconds * 1e3)
}

/// Reads a line that starts with this, and returns its rest.
async fn expect(output: &mut Lines<BufReader<ChildStdout>>, start: &str) -> String {
    let line = output.next_line().await.unwrap();
    let line = line.expect("the side ended");
    line.strip_prefix(start).unwrap().to_owned()
}

/// A consumer of an empty queue, watched while other sides run.
#[derive(Debug)]
pub(crate) struct Idle {
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

/// Starts it.
pub(crate) async fn idle(services: &Services) -> Idle {
    let queues = Queues::standard(&services.direct, &[(Q::VisibilityTimeout, "30")]).await;
    let work = Work {
        urls: queues.url,
        endpoint: services.direct.clone(),
        messages: 0,
        failing: 0,
        polls: 16,
        in_flight: 160,
        dead_letters: queues.dead_letters,
        attributes: false,
        worker: String::new(),
        load: String::new(),
    };
    let mut command = this_program("idle");
    command.args(work.arguments()).env("BACKSTOP_CACHE", "off");
    let (child, output) = spawn(&mut command);
    Idle {
        output,
        _child: child,
    }
}

impl Idle {
    /// What it printed at its end.
    pub(crate) async fn ended(mut self) -> String {
        expect(&mut self.output, "").await
    }
}

/// Measures decisions in a process of their own.
pub(crate) async fn deciding() -> String {
    let mut command = this_program("deciding");
    let (_child, mut output) = spawn(command.env("BACKSTOP_CACHE", "off"));
    expect(&mut output, "").await
}

fn this_program(argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(argument);
    command
}
