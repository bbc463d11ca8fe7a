//! Shadows: a second policy that is evaluated for the same failures as the live one, for comparison only.
//!
//! After the live decision, `Shadow::compare` adds the case to a bounded backlog. The shadow's own thread evaluates it, compares the decisions, counts the result and records it. A slow or crashing shadow cannot affect the live policy: it has its own thread and its own engine.

mod backlog;
mod counts;
mod samples;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::decision::{Decision, FallbackKind, decide};
use crate::policy::{
    Catalog, Evaluation, Limits, LivePolicy, Policy, PolicyDigest, PolicySpec, Sandbox,
    SandboxError,
};
use crate::record::{ShadowOutcome, Shadowed, Skipped};
use crate::text::chain;
use backlog::{Backlog, Input, Next};
use backstop_core::lock::lock;
use samples::Samples;

pub(crate) use backlog::Case;
pub use counts::{Counts, Tally};
pub use samples::{Compared, Difference};

/// How long a shutdown waits for a shadow's last answers.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// After a broken evaluation the shadow pauses for this many times its duration. An endless loop therefore takes a tenth of a processor.
const PAUSE_FACTOR: u32 = 9;

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A policy that is compared with the live one of a queue. Every case is reported to its observers, with the shadow's answer or without.
pub struct Shadow {
    shared: Arc<Shared>,
}

/// The state that the shadow shares with its thread.
struct Shared {
    queue: String,
    policy: Arc<LivePolicy>,
    counts: Arc<Counts>,
    samples: Samples,
    backlog: Backlog,
    warnings: Mutex<Warnings>,
}

/// The warnings that were logged for a version: each only once, and not for every message.
#[derive(Default)]
struct Warnings {
    version: Vec<PolicyDigest>,
    is_broken: bool,
    is_slow: bool,
}

backstop_core::shown!(Shadow, shadow => queue = shadow.shared.queue, policy = shadow.shared.policy);

/// An engine for shadows: without a pool, one decision at a time.
pub fn sandbox(limits: Limits) -> Result<Sandbox, SandboxError> {
    Ok(Sandbox::on_demand(limits)?.deciding_at_once(1))
}

impl Shadow {
    /// Loads a shadow for the queue with this name. Blocks while the policy is fetched and compiled. A policy that cannot be loaded is logged, and every case counts as broken until a valid version replaces it.
    pub fn load(queue: &str, catalog: impl Into<Catalog>, spec: PolicySpec) -> Arc<Self> {
        let (policy, rejected) = LivePolicy::load_or_fall_back(catalog, spec, None);
        if let Some(error) = rejected {
            tracing::error!(
                queue,
                "the shadow can't be evaluated until it has a valid version: {}",
                chain(&error)
            );
        }
        Self::new(queue, policy)
    }

    /// A shadow for the queue with this name. The policy's sandbox is that of [`sandbox`].
    pub fn new(queue: &str, policy: Arc<LivePolicy>) -> Arc<Self> {
        let shared = Arc::new(Shared {
            queue: queue.to_owned(),
            policy,
            counts: Arc::new(Counts::of(queue)),
            samples: Samples::default(),
            backlog: Backlog::new(),
            warnings: Mutex::default(),
        });
        let worker = Arc::clone(&shared);
        let started = thread::Builder::new()
            .name("shadow".to_owned())
            .spawn(move || {
                // A panic affects only the case that caused it.
                while catch_unwind(AssertUnwindSafe(|| worker.run())).is_err() {}
            });
        if let Err(error) = started {
            tracing::error!(queue, %error, "can't start the shadow's thread: the shadow is not evaluated");
            shared.backlog.close();
        }
        Arc::new(Self { shared })
    }

    /// The shadow's policy.
    pub fn policy(&self) -> &Arc<LivePolicy> {
        &self.shared.policy
    }

    /// Its counts.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.shared.counts
    }

    /// How it compares with the live policy since the last swap of one of them.
    pub fn compared(&self) -> Compared {
        self.shared.samples.now()
    }

    /// Passes a case to the shadow, or reports it as skipped at once if the backlog is full. Never blocks.
    pub(crate) fn compare(&self, case: Case) {
        if let Some(case) = self.shared.backlog.push(case) {
            self.shared.skip(case, Skipped::Slow);
        }
    }

    /// Waits until every case has its answer, for at most `timeout`, then reports the others as skipped. Blocks.
    pub fn settle(&self, timeout: Duration) {
        for case in self.shared.backlog.take_all(timeout) {
            self.shared.skip(case, Skipped::Ended);
        }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        self.shared.backlog.close();
        self.settle(Duration::ZERO);
    }
}

impl Shared {
    /// Evaluates, reports and pauses until the backlog is closed.
    fn run(&self) {
        // The case of a panic in the last run.
        if let Some(case) = self.backlog.evaluated() {
            let broken = ShadowOutcome::Broken {
                broken: "failed: the host panicked during the evaluation".to_owned(),
                kind: Some(FallbackKind::HostFailed),
                took_us: 0,
            };
            self.report(*case, &self.policy.current(), broken);
        }
        while let Some(next) = self.backlog.next() {
            match next {
                Next::Skip(case) => {
                    self.skip(*case, Skipped::Slow);
                    self.backlog.pause(Duration::ZERO);
                }
                Next::Evaluate(input) => {
                    let policy = self.policy.current();
                    let evaluation = policy.evaluate(&input.failure, &input.payload);
                    let pause = match evaluation.answer {
                        Ok(_) => Duration::ZERO,
                        Err(_) => {
                            let pause = evaluation.took.saturating_mul(PAUSE_FACTOR);
                            pause.min(LONGEST_PAUSE)
                        }
                    };
                    if let Some(case) = self.backlog.evaluated() {
                        let outcome = outcome(&case.record.decision, &input, evaluation);
                        self.report(*case, &policy, outcome);
                    }
                    self.backlog.pause(pause);
                }
            }
        }
    }

    fn report(&self, case: Case, policy: &Policy, outcome: ShadowOutcome) {
        if let ShadowOutcome::Broken { broken, .. } = &outcome
            && self.is_first(|warnings| &mut warnings.is_broken)
        {
            tracing::warn!(
                queue = self.queue,
                "message-id" = case.record.failure.message_id,
                policy = policy.title(),
                "the shadow {broken}: logged once for this version, and counted"
            );
        }
        let policy = policy.parts().collect();
        self.record(case, Shadowed { policy, outcome });
    }

    fn skip(&self, case: Case, skipped: Skipped) {
        if skipped == Skipped::Slow && self.is_first(|warnings| &mut warnings.is_slow) {
            tracing::warn!(
                queue = self.queue,
                "the shadow can't keep up: skipped decisions are counted"
            );
        }
        let shadowed = Shadowed {
            policy: Vec::new(),
            outcome: ShadowOutcome::Skipped { skipped },
        };
        self.record(case, shadowed);
    }

    fn record(&self, mut case: Case, shadowed: Shadowed) {
        self.counts.add(&shadowed.outcome);
        self.samples.add(&case.record, &shadowed);
        case.record.shadow = Some(shadowed);
        for observer in &case.observers {
            observer.decided(&case.record);
        }
    }

    /// Whether this is the first warning of its kind for the current version.
    fn is_first(&self, kind: impl Fn(&mut Warnings) -> &mut bool) -> bool {
        let version = self.policy.current().digests();
        let mut warnings = lock(&self.warnings);
        if warnings.version != version {
            *warnings = Warnings {
                version,
                ..Warnings::default()
            };
        }
        !std::mem::replace(kind(&mut warnings), true)
    }
}

/// The shadow's decision within the bounds of the live one, compared with it.
fn outcome(live: &Decision, input: &Input, evaluation: Evaluation) -> ShadowOutcome {
    let took_us = u64::try_from(evaluation.took.as_micros()).unwrap_or(u64::MAX);
    match evaluation.answer {
        Ok(answer) => {
            let Input {
                failure,
                bounds,
                reach,
                ..
            } = input;
            let decision = decide(failure, Ok(answer), bounds, *reach);
            ShadowOutcome::compared(live, decision, took_us)
        }
        Err(error) => ShadowOutcome::Broken {
            broken: error.to_string(),
            kind: Some(error.kind()),
            took_us,
        },
    }
}
