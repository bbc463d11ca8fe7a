//! A policy: one component, or several that answer together. It is evaluated for one failure at a time, in fresh instances.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_core::clock;
use backstop_core::decision::{Action, Answer};
use backstop_core::failure::{Failure, Milliseconds};
use backstop_core::fallback;
use backstop_core::policy::{LogLine, PartName, PolicyDigest};
use backstop_core::settings::Settings;

use crate::bindings::types;
use crate::component::Component;
use crate::host::StoppedClock;
use crate::instance::{EvaluationError, Live};
use crate::pace::{Pace, quick};
use crate::parts::{Parts, Role};
use crate::payload::Payload;
use crate::payload_reads::PayloadReads;
use crate::sandbox::Sandbox;

/// One component of a policy, with its settings.
#[derive(Debug, Clone)]
pub struct Part {
    /// The compiled component.
    pub component: Arc<Component>,
    /// Names and values, in the operator's order.
    pub settings: Settings,
}

/// A policy: for each question, the part that answers it. The host's default answers questions without a part.
#[derive(Clone)]
pub struct Policy {
    sandbox: Sandbox,
    /// The same one, with the limits of a quick answer.
    quick: Sandbox,
    /// That of its answers so far, with any settings.
    pub(super) pace: Arc<Pace>,
    parts: Vec<Part>,
    /// The part that fills each role.
    roles: Parts<usize>,
    /// Why the policy is unavailable, if it is.
    unavailable: Option<String>,
}

/// A part of a policy does not export the interface of its role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is named as the {role}, but exports only {exported}")]
pub struct MissingRole {
    /// The operator's name for the part.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The interfaces that it exports.
    pub exported: String,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}

/// The result of one evaluation: the answer, and its cost.
#[derive(Debug)]
pub struct Evaluation {
    /// The answer, or why there is none.
    pub answer: Result<Answer, EvaluationError>,
    /// The lines that the policy logged, at most [`Limits::log`](crate::Limits::log) bytes and 256 lines for each part.
    pub log: Vec<LogLine>,
    /// The parts of the payload that it read.
    pub payload_reads: PayloadReads,
    /// The fuel that all of its parts used.
    pub fuel: u64,
    /// The linear memory of all of its parts, in bytes.
    pub memory: usize,
    /// Whether it read a clock, which shows 1970. Reads by a language's runtime at its start do not count.
    pub read_clock: bool,
    /// How long it took.
    pub took: Duration,
}

impl Policy {
    /// A policy of one component. The host's defaults answer the questions whose interface it does not export.
    pub fn single(sandbox: &Sandbox, part: Part) -> Self {
        let filled = |role| part.component.fills(role).then_some(0);
        let roles = Parts {
            classifier: filled(Role::Classifier),
            dead_lettering: filled(Role::DeadLettering),
            backoff: filled(Role::Backoff),
            outage: filled(Role::Outage),
        };
        Self::of(sandbox, vec![part], roles)
    }

    /// A policy of several components: each fills one role, and the host's defaults fill the rest. A part that does not export the interface of its role is an error.
    pub fn composed(sandbox: &Sandbox, parts: Parts<Part>) -> Result<Self, MissingRole> {
        let mut filled = Vec::new();
        let roles = parts.try_map(|role, part| {
            let component = &part.component;
            if !component.fills(role) {
                return Err(MissingRole {
                    name: component.name().to_owned(),
                    role,
                    exported: component.exports().collect::<Vec<_>>().join(", "),
                });
            }
            filled.push(part);
            Ok(filled.len() - 1)
        })?;
        Ok(Self::of(sandbox, filled, roles))
    }

    fn of(sandbox: &Sandbox, parts: Vec<Part>, roles: Parts<usize>) -> Self {
        Self {
            sandbox: sandbox.clone(),
            quick: sandbox.within(quick(sandbox.limits)),
            pace: Arc::default(),
            parts,
            roles,
            unavailable: None,
        }
    }

    /// A policy that could not be loaded: every evaluation is an error, so that the fallback decides.
    pub fn unavailable(sandbox: &Sandbox, why: String) -> Self {
        Self {
            unavailable: Some(why),
            ..Self::of(sandbox, Vec::new(), Parts::default())
        }
    }

    /// Merges these settings over its own, in each of its parts.
    pub fn with_settings(&self, above: &Settings) -> Self {
        let mut policy = self.clone();
        for part in &mut policy.parts {
            part.settings = part.settings.merge(above);
        }
        policy
    }

    /// Whether it represents a policy that could not be loaded.
    pub fn is_unavailable(&self) -> bool {
        self.unavailable.is_some()
    }

    /// The parts, in the order in which they are evaluated.
    pub fn parts(&self) -> impl Iterator<Item = PartName> {
        self.parts.iter().map(|part| PartName {
            name: part.component.name().to_owned(),
            digest: part.component.digest(),
            settings: part.settings.clone(),
        })
    }

    /// The components of the parts, in the order in which they are evaluated.
    pub fn components(&self) -> impl Iterator<Item = &Arc<Component>> {
        self.parts.iter().map(|part| &part.component)
    }

    /// The names of the parts, which do not change with their files.
    pub fn name(&self) -> String {
        self.joined(|part| part.name)
    }

    /// The names of the parts with the digests of their files, for people: `full-jitter (3f2a91c04d17)`.
    pub fn title(&self) -> String {
        self.joined(|part| part.to_string())
    }

    fn joined(&self, name: impl Fn(PartName) -> String) -> String {
        if self.parts.is_empty() {
            return "the fallback".to_owned();
        }
        self.parts().map(name).collect::<Vec<_>>().join(" + ")
    }

    /// The digests of the files, in the order of the parts. They identify a version of the policy.
    pub fn digests(&self) -> Vec<PolicyDigest> {
        let components = self.components();
        components.map(|component| component.digest()).collect()
    }

    /// A session: see [`Session`].
    pub fn session<'a>(&'a self, payload: &'a Arc<Payload>) -> Session<'a> {
        self.session_at(&self.sandbox, StoppedClock::AT_WORK, 0.0, payload)
    }

    fn session_at<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        clock: StoppedClock,
        random: f64,
        payload: &'a Arc<Payload>,
    ) -> Session<'a> {
        Session {
            policy: self,
            sandbox,
            payload,
            random,
            clock,
            lives: BTreeMap::new(),
        }
    }

    /// Evaluates the policy for a failure, in fresh instances under the sandbox's limits. Blocks no longer than they allow, and never panics because of the policy.
    pub fn evaluate(&self, failure: &Failure, payload: &Arc<Payload>) -> Evaluation {
        self.evaluate_at(StoppedClock::AT_WORK, failure, payload)
    }

    /// Like [`Policy::evaluate`], with clocks that show another time, to find out whether the answers depend on it.
    pub fn evaluate_at(
        &self,
        clock: StoppedClock,
        failure: &Failure,
        payload: &Arc<Payload>,
    ) -> Evaluation {
        let started = clock::instant();
        let _slot = self.sandbox.slot();
        let run = self.session_at(&self.sandbox, clock, failure.random, payload);
        let evaluation = run.evaluation(failure, started);
        self.pace
            .note(evaluation.answer.is_ok().then_some(evaluation.took));
        evaluation
    }

    /// Like [`Policy::evaluate`], if the policy answers so quickly that a thread with other work can wait for it. `None` if that is not expected, or if it does not answer within narrow limits: then it is to be evaluated elsewhere.
    pub fn evaluate_quickly(
        &self,
        failure: &Failure,
        payload: &Arc<Payload>,
    ) -> Option<Evaluation> {
        if !self.pace.is_quick(payload.size()) {
            return None;
        }
        let started = clock::instant();
        let _slot = self.quick.free_slot()?;
        let run = self.session_at(&self.quick, StoppedClock::AT_WORK, failure.random, payload);
        let evaluation = run.evaluation(failure, started);
        let took = evaluation.answer.is_ok().then_some(evaluation.took);
        self.pace.note(took);
        took.map(|_| evaluation)
    }
}

/// Evaluates a policy many times in the same instances, which are configured once. Only for measuring and simulating, never for a message: the policy's memory may leak from one answer to the next.
pub struct Session<'a> {
    policy: &'a Policy,
    sandbox: &'a Sandbox,
    payload: &'a Arc<Payload>,
    random: f64,
    clock: StoppedClock,
    /// The started instances, by the index of their part.
    lives: BTreeMap<usize, Live<'a>>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(self.policy).finish()
    }
}

impl Session<'_> {
    /// The answer, or why there is none; after one error, all further evaluations fail. Fuel, time, log and payload are counted for each answer separately; an instance keeps the memory that it has allocated.
    pub fn evaluate(&mut self, failure: &Failure) -> Result<Answer, EvaluationError> {
        self.random = failure.random;
        for live in self.lives.values_mut() {
            live.renew(failure.random)?;
        }
        self.answer(failure)
    }
}

impl<'a> Session<'a> {
    /// The answer, and what it cost since `started`. Ends the session.
    fn evaluation(mut self, failure: &Failure, started: Instant) -> Evaluation {
        let answer = self.answer(failure);
        let mut evaluation = Evaluation {
            answer,
            log: Vec::new(),
            payload_reads: PayloadReads::default(),
            fuel: 0,
            memory: 0,
            read_clock: false,
            took: Duration::ZERO,
        };
        for live in self.lives.into_values() {
            evaluation.fuel += live.fuel_used();
            let host = live.into_host();
            evaluation.memory += host.meter.memory();
            evaluation.read_clock |= host.has_read_clock();
            let (log, payload_reads) = host.into_traces();
            evaluation.log.extend(log);
            evaluation.payload_reads.extend(payload_reads);
        }
        evaluation.took = started.elapsed();
        evaluation
    }

    /// Classify and judge; then, on `retry`, delay; at last, whether there is an outage. This is the only place that passes a failure to a policy; it truncates it to the sizes of the contract.
    fn answer(&mut self, failure: &Failure) -> Result<Answer, EvaluationError> {
        if let Some(why) = &self.policy.unavailable {
            return Err(EvaluationError::NotLoaded(why.clone()));
        }
        let roles = &self.policy.roles;
        let failure = &*failure.within_bounds();
        let failure_args = types::Failure::from(failure);
        let class = match &roles.classifier {
            Some(part) => self.live(*part)?.classify(&failure_args.error)?.into(),
            None => fallback::class(&failure.error),
        };
        let class_args = types::ErrorClass::from(&class);
        let verdict = match &roles.dead_lettering {
            Some(part) => self.live(*part)?.judge(&failure_args, &class_args)?,
            None => fallback::reason_to_dead_letter(failure, &class)
                .map_or(types::Verdict::Retry, types::Verdict::DeadLetter),
        };
        let action = match verdict {
            types::Verdict::DeadLetter(reason) => Action::DeadLetter { reason },
            types::Verdict::Discard(reason) => Action::Discard { reason },
            types::Verdict::Retry => {
                let delay = match &roles.backoff {
                    Some(part) => {
                        Milliseconds(self.live(*part)?.delay(&failure_args, &class_args)?)
                    }
                    None => fallback::delay(failure),
                };
                Action::Retry { delay }
            }
        };
        let down_for = match &roles.outage {
            Some(part) => self.live(*part)?.down_for(&failure_args, &class_args)?,
            None => None,
        };
        Ok(Answer {
            class,
            action,
            down_for: down_for.map(Milliseconds),
        }
        .validate()?)
    }

    /// The instance of a part, created and configured on first use.
    fn live(&mut self, index: usize) -> Result<&mut Live<'a>, EvaluationError> {
        match self.lives.entry(index) {
            Entry::Occupied(live) => Ok(live.into_mut()),
            Entry::Vacant(entry) => {
                #[expect(
                    clippy::indexing_slicing,
                    reason = "the index of a role is that of one of the parts"
                )]
                let part = &self.policy.parts[index];
                let live = entry.insert(Live::new(
                    self.sandbox,
                    &part.component,
                    Arc::clone(self.payload),
                    self.random,
                    self.clock,
                ));
                live.start(&part.settings)?;
                Ok(live)
            }
        }
    }
}
