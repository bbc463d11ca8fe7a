//! Runs one side over a full queue, and measures its process.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::{QueueAttributeName as Q, SendMessageBatchRequestEntry};
use backstop_core::clock;
use backstop_tests::aws::{self, Queues};
use backstop_tests::emulator::{fauxqs, services};
use backstop_tests::process::{peak_memory, processor_seconds};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Work;
use crate::plan::{Case, Latency, Side};

/// The longest that a run may take.
const RUN: Duration = Duration::from_secs(60);

/// How many messages a group of a FIFO queue has.
const GROUP: usize = 10;

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
}

impl Measured {
    /// The median of each figure.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        let median = |figure: fn(&Self) -> f64| {
            let mut figures: Vec<_> = rounds.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        Self {
            rate: median(|it| it.rate),
            processor: median(|it| it.processor),
            requests: median(|it| it.requests),
            memory: median(|it| it.memory),
        }
    }
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
    _proxy: std::process::Child,
}

impl Services {
    pub(crate) fn start() -> Self {
        let direct = fauxqs().endpoint.clone();
        let address = direct.trim_start_matches("http://");
        let mut proxy = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["proxy", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut delayed = String::new();
        let output = proxy.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut delayed).unwrap();
        Self {
            direct,
            delayed: delayed.trim().to_owned(),
            _proxy: proxy,
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

/// Fills a queue, and lets the side empty it.
pub(crate) async fn measure(services: &Services, case: &Case) -> Measured {
    let count = case.messages();
    let queues = if case.fifo {
        Queues::fifo(&services.direct, &[]).await
    } else {
        Queues::standard(&services.direct, &[]).await
    };
    fill(&queues, count, case.fifo).await;
    let work = Work {
        url: queues.url.clone(),
        endpoint: services.endpoint(case.latency).to_owned(),
        messages: count,
        failing: case.failing,
        polls: case.polls,
        in_flight: match case.side {
            Side::Backstop { in_flight } => in_flight,
            Side::Bare | Side::BareWithAttributes | Side::SqsConsumer | Side::Boto3 => 0,
        },
        dead_letters: queues.dead_letters.clone(),
        attributes: case.side == Side::BareWithAttributes,
    };
    let mut command = command(case.side, &work);
    if case.one_thread {
        command.env("TOKIO_WORKER_THREADS", "1");
    }
    let requests = services.requests().await;
    let (mut child, mut output) = spawn(&mut command);
    let measured = async {
        expect(&mut output, "start").await;
        let id = child.id().unwrap();
        let processor = processor_seconds(id);
        let seconds: f64 = expect(&mut output, "end ").await.parse().unwrap();
        let processor = processor_seconds(id) - processor;
        let requests = services.requests().await - requests;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (count, requests) = (count as f64, requests as f64);
        Measured {
            rate: count / seconds,
            processor: processor * 1e6 / count,
            requests: requests / count,
            memory: peak_memory(id),
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

fn command(side: Side, work: &Work) -> Command {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/throughput");
    let program = match side {
        Side::Bare | Side::BareWithAttributes | Side::Backstop { .. } => {
            std::env::current_exe().unwrap()
        }
        Side::SqsConsumer => services().join("node_modules/.bin/node"),
        Side::Boto3 => services().join("python/bin/python"),
    };
    let mut command = Command::new(program);
    match side {
        Side::Bare | Side::BareWithAttributes => command.arg("bare"),
        Side::Backstop { .. } => command.arg("consumer"),
        Side::SqsConsumer => command
            .arg(format!("{scripts}/sqs_consumer.mjs"))
            .arg(services()),
        Side::Boto3 => command.arg(format!("{scripts}/boto3_loop.py")),
    };
    command.args(work.arguments());
    command
}

fn spawn(command: &mut Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command
        .envs(aws::CREDENTIALS)
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("BACKSTOP_CACHE", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, output)
}

/// Reads a line that starts with this, and returns its rest.
async fn expect(output: &mut Lines<BufReader<ChildStdout>>, start: &str) -> String {
    let line = output.next_line().await.unwrap();
    let line = line.expect("the side ended");
    line.strip_prefix(start).unwrap().to_owned()
}

/// Sends messages whose bodies are their numbers, several batches at once.
async fn fill(queues: &Queues, count: usize, fifo: bool) {
    let batches: Vec<_> = (0..count).step_by(10).collect();
    let sent = AtomicUsize::new(0);
    let send = |first: usize| {
        let entries = (first..count.min(first + 10)).map(|number| {
            // A batch has a message of each of ten groups.
            let group = number % (count / GROUP);
            SendMessageBatchRequestEntry::builder()
                .id(number.to_string())
                .message_body(number.to_string())
                .set_message_group_id(fifo.then(|| group.to_string()))
                .build()
                .unwrap()
        });
        let request = queues.client.send_message_batch().queue_url(&queues.url);
        let request = request.set_entries(Some(entries.collect()));
        let sent = &sent;
        async move {
            let answer = request.send().await.unwrap();
            sent.fetch_add(answer.successful.len(), Ordering::Relaxed);
        }
    };
    let at_once = if fifo { 1 } else { 8 };
    let mut sends = stream::iter(batches).map(send).buffer_unordered(at_once);
    while sends.next().await.is_some() {}
    drop(sends);
    assert_eq!(sent.into_inner(), count);
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
        url: queues.url,
        endpoint: services.direct.clone(),
        messages: 0,
        failing: 0,
        polls: 16,
        in_flight: 160,
        dead_letters: queues.dead_letters,
        attributes: false,
    };
    let (child, output) = spawn(this_program("idle").args(work.arguments()));
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
    let (_child, mut output) = spawn(&mut this_program("deciding"));
    expect(&mut output, "").await
}

fn this_program(argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(argument);
    command
}
