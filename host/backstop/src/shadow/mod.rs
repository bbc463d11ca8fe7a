//! Shadows: a policy that is asked about the same failures as the live one, to see what it would do. It acts on nothing.
//!
//! The live decision is made, and its message goes its way; then the case is put in front of the shadow, whose answer is compared, counted and recorded. What a shadow costs or breaks is its own: it has a thread, a bounded line in front of it, and an engine apart from the live policies'.

mod comparison;
mod counts;
mod waiting;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::decision::{DecidedBy, Decision};
use crate::policy::{
    Catalog, Evaluation, Limits, LivePolicy, Policy, PolicyDigest, PolicySpec, Sandbox,
    SandboxError,
};
use crate::text::chain;
use waiting::{Next, Question, Waiting};

pub use comparison::{Aspect, Outcome, Shadowed, Skipped};
pub use counts::{Counts, Tally};
pub(crate) use waiting::Case;

/// How long the end waits for a shadow's last answers.
pub const SETTLING: Duration = Duration::from_secs(1);

/// After an answer that broke, a shadow rests for so many times what it took: an endless loop takes a tenth of a processor, and not all of one.
const REST: u32 = 9;

/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// A policy beside the live one of a queue. Until it is dropped, it takes cases; every case's observers are told, with its answer or without.
pub struct Shadow {
    shared: Arc<Shared>,
}

/// What the shadow's thread shares with whoever puts cases before it.
struct Shared {
    queue: String,
    policy: Arc<LivePolicy>,
    counts: Arc<Counts>,
    waiting: Waiting,
    complaints: Mutex<Complaints>,
}

/// What was said of a version already: nothing is said for every message.
#[derive(Default)]
struct Complaints {
    version: Vec<PolicyDigest>,
    is_broken: bool,
    is_slow: bool,
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("queue", &self.shared.queue)
            .field("policy", &self.shared.policy)
            .finish_non_exhaustive()
    }
}

/// Where shadows come from and run, beside the live policies of this catalog: an engine of their own, without a pool, so that none of the live policies' places, memory or instances can be taken by one. One decision at a time, whatever the number of shadows: they have one processor together at most. An instance without a pool costs some microseconds more, which nobody waits for. Nothing of a shadow is kept between two starts, where it could be taken for a live version.
pub(crate) fn catalog(live: &Catalog, limits: Limits) -> Result<Catalog, SandboxError> {
    let sandbox = sandbox(limits)?.with_compiled(live.sandbox.compiled().clone());
    Ok(Catalog {
        sandbox,
        store: None,
        ..live.clone()
    })
}

/// An engine for shadows: see `catalog`.
pub fn sandbox(limits: Limits) -> Result<Sandbox, SandboxError> {
    Ok(Sandbox::on_demand(limits)?.deciding_at_once(1))
}

impl Shadow {
    /// A shadow of the queue of this name; blocks while it is fetched and compiled. A policy that can't be loaded stops nothing: it is told, every case counts as broken, and a good version takes its place when there is one.
    pub fn load(queue: &str, catalog: impl Into<Catalog>, spec: PolicySpec) -> Arc<Self> {
        let (policy, refused) = LivePolicy::load_or_fall_back(catalog, spec, None);
        if let Some(error) = refused {
            tracing::error!(
                queue,
                "the shadow can't be asked until there is a version that is good: {}",
                chain(&error)
            );
        }
        Self::beside(queue, policy)
    }

    /// A shadow of the queue of this name, of a policy whose sandbox is that of [`sandbox`].
    pub fn beside(queue: &str, policy: Arc<LivePolicy>) -> Arc<Self> {
        let shared = Arc::new(Shared {
            queue: queue.to_owned(),
            policy,
            counts: Arc::new(Counts::of(queue)),
            waiting: Waiting::new(),
            complaints: Mutex::default(),
        });
        let worker = Arc::clone(&shared);
        let started = thread::Builder::new()
            .name("shadow".to_owned())
            .spawn(move || {
                // What goes wrong here costs the case that it went wrong with.
                while catch_unwind(AssertUnwindSafe(|| worker.work())).is_err() {}
            });
        if let Err(error) = started {
            tracing::error!(queue, %error, "there is no thread for the shadow: it is not asked");
            shared.waiting.close();
        }
        Arc::new(Self { shared })
    }

    /// The policy, to be watched and to be told of.
    pub fn policy(&self) -> &Arc<LivePolicy> {
        &self.shared.policy
    }

    /// Its counts.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.shared.counts
    }

    /// Puts a case before the shadow, or tells at once that it was not. Never waits.
    pub(crate) fn compare(&self, case: Case) {
        if let Some(case) = self.shared.waiting.offer(case) {
            self.shared.skip(case, Skipped::Slow);
        }
    }

    /// Waits until every case so far has its answer, for at most so long; tells what is without one then. Blocks.
    pub fn settle(&self, within: Duration) {
        for case in self.shared.waiting.take_all(within) {
            self.shared.skip(case, Skipped::Ended);
        }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        self.shared.waiting.close();
        self.settle(Duration::ZERO);
    }
}

impl Shared {
    /// Asks, tells and rests, until the line is closed.
    fn work(&self) {
        if let Some(case) = self.waiting.answered() {
            let broken = "failed: the host did while it asked".to_owned();
            let broken = Outcome::Broken { broken, took_us: 0 };
            self.tell(*case, &self.policy.current(), broken);
        }
        while let Some(next) = self.waiting.next() {
            match next {
                Next::Late(case) => {
                    self.skip(*case, Skipped::Slow);
                    self.waiting.rest(Duration::ZERO);
                }
                Next::Ask(question) => {
                    let policy = self.policy.current();
                    let asked = policy.evaluate(&question.failure, &question.payload);
                    let rest = match asked.answer {
                        Ok(_) => Duration::ZERO,
                        Err(_) => asked.took.saturating_mul(REST).min(LONGEST_REST),
                    };
                    if let Some(case) = self.waiting.answered() {
                        let outcome = outcome(&case.record.decision, &question, asked);
                        self.tell(*case, &policy, outcome);
                    }
                    self.waiting.rest(rest);
                }
            }
        }
    }

    fn tell(&self, case: Case, policy: &Policy, outcome: Outcome) {
        if let Outcome::Broken { broken, .. } = &outcome
            && self.is_first(|complaints| &mut complaints.is_broken)
        {
            tracing::warn!(
                queue = self.queue,
                "message-id" = case.record.failure.message_id,
                policy = policy.title(),
                "the shadow {broken}: told once for this version, and counted"
            );
        }
        let policy = policy.parts().collect();
        self.record(case, Shadowed { policy, outcome });
    }

    fn skip(&self, case: Case, skipped: Skipped) {
        if skipped == Skipped::Slow && self.is_first(|complaints| &mut complaints.is_slow) {
            tracing::warn!(
                queue = self.queue,
                "the shadow can't keep up: what it is not asked about is counted"
            );
        }
        let shadowed = Shadowed {
            policy: Vec::new(),
            outcome: Outcome::Skipped { skipped },
        };
        self.record(case, shadowed);
    }

    fn record(&self, mut case: Case, shadowed: Shadowed) {
        self.counts.add(&shadowed.outcome);
        case.record.shadow = Some(shadowed);
        for observer in &case.observers {
            observer.decided(&case.record);
        }
    }

    /// Whether this is the first complaint of its kind about the version that is asked now.
    fn is_first(&self, kind: impl Fn(&mut Complaints) -> &mut bool) -> bool {
        let version = self.policy.current().digests();
        let mut complaints = self
            .complaints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if complaints.version != version {
            *complaints = Complaints {
                version,
                ..Complaints::default()
            };
        }
        !std::mem::replace(kind(&mut complaints), true)
    }
}

/// What the shadow's answer comes to within the bounds that the live one was held to.
fn outcome(live: &Decision, question: &Question, asked: Evaluation) -> Outcome {
    let took_us = u64::try_from(asked.took.as_micros()).unwrap_or(u64::MAX);
    match asked.answer {
        Ok(answer) => {
            let Question {
                failure,
                bounds,
                room,
                ..
            } = question;
            let decision = bounds.keep(failure, answer, DecidedBy::Policy, *room);
            Outcome::compared(live, decision, took_us)
        }
        Err(broken) => Outcome::Broken {
            broken: broken.to_string(),
            took_us,
        },
    }
}
