//! What a decision costs: in a fresh instance, in a live one, without WebAssembly, in what others embed to run rules, and compared with the smallest request to SQS.
//!
//! `make bench` runs it. The sides take turns.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark that can't go on fails"
)]

use std::cell::RefCell;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Failure;
use backstop_engine::{Limits, Payload, Policy, Sandbox};
use backstop_policy::{Settings, default_class, default_verdict, testing};
use backstop_queue::{Queue, Sqs, VisibilityTimeout};
use backstop_tests::aws::{self, Queues};
use backstop_tests::emulator::fauxqs;
use tests_benches::timing::{self, Side, scaled, side};
use tests_benches::{Better, Chapter, Table, Unit, folder};

const ROUNDS: usize = 51;

const SETTINGS: [(&str, &str); 2] = [("base", "2s"), ("max-attempts", "8")];

fn main() {
    let mut chapter = Chapter::new(
        "decision",
        "A decision",
        "`full-jitter` decides about one failure: class, verdict and delay, with its settings parsed each time. In a fresh instance, nothing of an earlier decision is left. Extism runs the same Rust code as a plugin that takes and returns JSON, with fuel and a time limit; Rhai runs the formula as a script, with a limit of operations and the table of codes from its host. Both are releases that this Rust compiles. The sides take turns, 51 rounds.",
    );
    chapter.add(compared());
    chapter.add(built_in());
    chapter.write();
}

fn failure() -> Failure {
    backstop_tests::failure("HTTP 503")
}

/// Instantiate, configure, classify, judge, delay, drop: what the host does for every failure.
fn fresh(policy: &Policy) -> Side<'_> {
    let (failure, payload) = (failure(), Arc::new(Payload::new("{}")));
    side(move || {
        let evaluated = policy.evaluate(black_box(&failure), &payload);
        evaluated.answer.unwrap()
    })
}

fn load(sandbox: &Sandbox, name: &str) -> Arc<Policy> {
    backstop_versions::load(sandbox, name, &SETTINGS).unwrap()
}

/// The rule of full jitter as a Rust function, which parses the settings each time like the policy.
fn natively() -> impl FnMut() {
    let failure = backstop_policy::Failure {
        attempt: 3,
        random: 0.25,
        ..testing::failure("HTTP 503")
    };
    move || {
        let settings = Settings::parse(black_box(SETTINGS)).unwrap();
        let class = default_class(black_box(&failure.error));
        let verdict = default_verdict(&failure, &class);
        black_box((verdict, full_jitter::delay(&settings, &failure)));
    }
}

fn compared() -> Table {
    let pooled = load(&Sandbox::new(Limits::default()).unwrap(), "full-jitter");
    let on_demand = load(
        &Sandbox::on_demand(Limits::default()).unwrap(),
        "full-jitter",
    );
    let endless = Limits {
        fuel: u64::MAX,
        time: Duration::from_secs(600),
        ..Limits::default()
    };
    let live = load(&Sandbox::new(endless).unwrap(), "full-jitter");
    let (failure, payload) = (failure(), Arc::new(Payload::new("{}")));
    let mut session = live.session(&payload);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let queue = runtime.block_on(empty_queue());
    let peers = RefCell::new(Peers::start());
    let peer = |name: &'static str| -> Side<'_> {
        Box::new(|times| peers.borrow_mut().decide(name, times))
    };
    let mut sides: [(u32, Side<'_>); 8] = [
        (200, fresh(&pooled)),
        (200, fresh(&on_demand)),
        (200, side(|| session.evaluate(black_box(&failure)).unwrap())),
        (5_000, side(natively())),
        (20, peer("extism-fresh")),
        (100, peer("extism-reused")),
        (200, peer("rhai")),
        (20, side(|| receive(&runtime, &queue))),
    ];
    let figures = timing::rounds(ROUNDS, &mut sides);
    drop(sides);
    let micros = |index: usize| [scaled(figures[index], 1e-3)];
    let mut table = Table::new("One decision, all told")
        .column("decision", Unit::Microseconds, Better::Less)
        .because("A function that is compiled into the program has no boundary to cross: nothing is copied, and nothing bounds it. It is what a policy would cost if every change of it were a deployment. A script in Rhai runs in the memory of its host, in one language, and an Extism plugin that is reused keeps what earlier decisions left in it.");
    table.ours(
        "Backstop, a fresh instance: what the host does for each failure",
        micros(0),
    );
    table.ours("Backstop, a fresh instance without the pool", micros(1));
    table.ours(
        "Backstop, a live instance: what the simulator does",
        micros(2),
    );
    table.theirs("the same rule as a function in Rust", micros(3));
    table.theirs("Extism, a fresh plugin of a compiled one", micros(4));
    table.theirs("Extism, a plugin that is reused", micros(5));
    table.theirs("Rhai, a compiled script with a scope of its own", micros(6));
    table.theirs(
        "for scale: an empty receive from an SQS emulator",
        micros(7),
    );
    table
}

fn built_in() -> Table {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let names: Vec<_> = backstop_engine::builtin::names().collect();
    let policies: Vec<_> = names.iter().map(|name| load(&sandbox, name)).collect();
    let mut sides: Vec<_> = policies.iter().map(|policy| (200, fresh(policy))).collect();
    let figures = timing::rounds(ROUNDS, &mut sides);
    let mut table = Table::new("Each built-in policy in a fresh instance")
        .column("decision", Unit::Microseconds, Better::Less)
        .not_drawn();
    for (name, figure) in names.iter().zip(figures) {
        table.ours(*name, [scaled(figure, 1e-3)]);
    }
    table
}

/// A queue without messages on the loopback address: no request to SQS is cheaper.
async fn empty_queue() -> impl Queue {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    Sqs::new(&aws::config(&queues.endpoint).await).queue(&queues.url)
}

fn receive(runtime: &tokio::runtime::Runtime, queue: &impl Queue) {
    let receive = queue.receive(1, Duration::ZERO, VisibilityTimeout::ZERO);
    assert!(runtime.block_on(receive).unwrap().is_empty());
}

/// The program of `peers`, which decides with other engines.
struct Peers {
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Peers {
    fn start() -> Self {
        let built: PathBuf = folder().with_file_name("peers");
        let program = built.join("release/peers");
        assert!(
            program.exists(),
            "`make bench` builds {}",
            program.display()
        );
        let plugin = built.join("wasm32-unknown-unknown/release/peers_plugin.wasm");
        let mut process = Command::new(program)
            .arg(plugin)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, answers }
    }

    /// The nanoseconds of one decision.
    fn decide(&mut self, side: &str, times: u32) -> f64 {
        writeln!(self.process.stdin.as_mut().unwrap(), "{side} {times}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().parse().unwrap()
    }
}

/// It ends when its input does.
impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
