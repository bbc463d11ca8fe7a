//! Decides as `full-jitter` does with Rhai and with Extism.
//!
//! Reads lines `SIDE DECISIONS` and answers each with the nanoseconds that one decision took on average, so that a benchmark lets the sides take turns. Usage: `peers PLUGIN.wasm`
#![allow(clippy::unwrap_used, reason = "a benchmark that can't go on fails")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use backstop_backoff::{FailedAttempt, Settings, classify, formula};
use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Wasm};
use rhai::{AST, Dynamic, Engine, Scope};
use serde::Serialize;

/// The same failure and settings as on Backstop's side.
#[derive(Serialize)]
struct Input {
    settings: BTreeMap<&'static str, &'static str>,
    failure: Failure,
}

#[derive(Serialize)]
struct Failure {
    message_id: &'static str,
    source: &'static str,
    attempt: u32,
    age: u32,
    failed_at: f64,
    previous_delay: Option<u32>,
    code: &'static str,
    message: &'static str,
    status: Option<u16>,
    retry_after: Option<u32>,
    attributes: BTreeMap<&'static str, &'static str>,
    random: f64,
}

fn input() -> Input {
    Input {
        settings: [("base", "2s"), ("max-attempts", "8")].into(),
        failure: Failure {
            message_id: "5e0b8a3c-6f9d-4c43-9d8e-0f0e6a3b7c11",
            source: "arn:aws:sqs:eu-west-1:123456789012:orders",
            attempt: 3,
            age: 12_000,
            failed_at: 1_700_000_000_000.0,
            previous_delay: None,
            code: "HTTP 503",
            message: "Service Unavailable",
            status: Some(503),
            retry_after: None,
            attributes: BTreeMap::new(),
            random: 0.25,
        },
    }
}

/// What all sides have to answer: the rule in Rust.
fn expected() -> u32 {
    let input = input();
    let settings = Settings::parse(input.settings).unwrap();
    let failure = input.failure;
    let failed = FailedAttempt {
        code: failure.code,
        status: failure.status,
        retry_after: failure.retry_after,
        attempt: failure.attempt,
        age: failure.age,
        previous_delay: failure.previous_delay,
        random: failure.random,
    };
    let _ = classify(failed.code, failed.status);
    settings.delay(formula::full_jitter(&settings, &failed), &failed)
}

/// The rule as a script: the formula in Rhai, the table of codes from the host, as a policy of Backstop has it from its host.
const SCRIPT: &str = r#"
fn parse_duration(text) {
    if text.ends_with("ms") { text.crop(0, text.len() - 2); return parse_int(text); }
    if text.ends_with("s") { text.crop(0, text.len() - 1); return parse_int(text) * 1000; }
    throw `not a duration: ${text}`
}

fn decide(input) {
    let settings = input.settings;
    let failure = input.failure;
    let base = parse_duration(settings.base);
    let cap = 12 * 3600000;
    let class = classify(failure.code, failure.status);
    if class == "Permanent" { return #{ class: class, dead_letter: failure.code, delay: 0 }; }
    let ceiling = base;
    for n in 1..failure.attempt { ceiling *= 2; if ceiling > cap { ceiling = cap; break; } }
    let delay = (failure.random * (ceiling + 1).to_float()).to_int();
    let after = failure.retry_after;
    if after != () && after > delay { delay = after; }
    #{ class: class, dead_letter: (), delay: delay }
}
"#;

struct Rhai {
    engine: Engine,
    script: AST,
}

impl Rhai {
    fn new() -> Self {
        let mut engine = Engine::new();
        // The bound of a sandbox: a script that loops ends.
        engine.set_max_operations(1_000_000);
        engine.register_fn("classify", |code: &str, status: i64| {
            format!("{:?}", classify(code, u16::try_from(status).ok()))
        });
        let script = engine.compile(SCRIPT).unwrap();
        Self { engine, script }
    }

    /// A scope of its own for each decision.
    fn decide(&self, input: &Input) -> u32 {
        let input = rhai::serde::to_dynamic(input).unwrap();
        let decide = |argument: Dynamic| {
            self.engine
                .call_fn::<rhai::Map>(&mut Scope::new(), &self.script, "decide", (argument,))
                .unwrap()
        };
        let answer = decide(input);
        u32::try_from(answer["delay"].as_int().unwrap()).unwrap()
    }
}

struct Extism {
    compiled: CompiledPlugin,
    reused: Plugin,
}

impl Extism {
    fn new(file: &str) -> Self {
        let manifest = Manifest::new([Wasm::data(std::fs::read(file).unwrap())]);
        // The bounds of a sandbox, as Backstop has them: fuel, and a time limit.
        let manifest = manifest.with_timeout(std::time::Duration::from_millis(100));
        let builder = PluginBuilder::new(manifest).with_fuel_limit(1_000_000_000);
        let compiled = builder.compile().unwrap();
        let reused = Plugin::new_from_compiled(&compiled).unwrap();
        Self { compiled, reused }
    }

    fn fresh(&self, input: &Input) -> u32 {
        let mut plugin = Plugin::new_from_compiled(&self.compiled).unwrap();
        decide(&mut plugin, input)
    }

    fn reused(&mut self, input: &Input) -> u32 {
        decide(&mut self.reused, input)
    }
}

fn decide(plugin: &mut Plugin, input: &Input) -> u32 {
    let input = serde_json::to_vec(input).unwrap();
    let answer: &[u8] = plugin.call("decide", input).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap();
    u32::try_from(answer["delay"].as_u64().unwrap()).unwrap()
}

fn main() {
    let file = std::env::args().nth(1).expect("usage: peers PLUGIN.wasm");
    let (rhai, mut extism) = (Rhai::new(), Extism::new(&file));
    let (input, expected) = (input(), expected());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (side, count) = line.split_once(' ').expect("SIDE DECISIONS");
        let count: u32 = count.parse().unwrap();
        let started = Instant::now();
        for _ in 0..count {
            let input = black_box(&input);
            let delay = match side {
                "rhai" => rhai.decide(input),
                "extism-fresh" => extism.fresh(input),
                "extism-reused" => extism.reused(input),
                _ => panic!("no side `{side}`"),
            };
            assert_eq!(black_box(delay), expected);
        }
        println!("{}", started.elapsed().as_nanos() / u128::from(count));
        std::io::stdout().flush().unwrap();
    }
}
