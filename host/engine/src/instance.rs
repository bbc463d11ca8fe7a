//! One fresh instance of a component: created, configured, called and dropped.

use std::sync::Arc;

use wasmtime::component::Instance;
use wasmtime::{Store, Trap};

use backstop_core::decision::{FallbackCause, FallbackKind, InvalidAnswer, REASON_BYTES};
use backstop_core::settings::Settings;
use backstop_core::text::{cut, one_line};

use crate::bindings::types;
use crate::component::Component;
use crate::host::{Host, StoppedClock};
use crate::payload::Payload;
use crate::sandbox::Sandbox;

/// How a policy failed to answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// It executed too many instructions.
    #[error("ran out of fuel after {0} units in {1}")]
    OutOfFuel(u64, Phase),
    /// It ran for too long.
    #[error("was stopped after {0:?} in {1}")]
    OutOfTime(std::time::Duration, Phase),
    /// It requested more than its limit, and failed when that was refused.
    #[error("wanted more {0} than its limit and gave up in {1}")]
    OutOfBounds(&'static str, Phase),
    /// It trapped: it aborted, or violated a rule of WebAssembly.
    #[error("failed in {1}: {0}")]
    Trapped(String, Phase),
    /// It rejects its settings.
    #[error("refuses its settings: {0}")]
    Settings(String),
    /// It takes no settings, but was given some.
    #[error("takes no settings, but has {0}: it does not export backstop:policy/settings")]
    NoSettings(String),
    /// It could not be loaded.
    #[error("is not loaded: {0}")]
    NotLoaded(String),
    /// Its answer is invalid.
    #[error("answered {0}")]
    InvalidAnswer(#[from] InvalidAnswer),
}

impl EvaluationError {
    /// The kind of this error, for programs.
    pub fn kind(&self) -> FallbackKind {
        match self {
            Self::OutOfFuel(..) => FallbackKind::OutOfFuel,
            Self::OutOfTime(..) => FallbackKind::OutOfTime,
            Self::OutOfBounds(..) => FallbackKind::OutOfBounds,
            Self::Trapped(..) => FallbackKind::Trapped,
            Self::Settings(_) => FallbackKind::RejectedSettings,
            Self::NoSettings(_) => FallbackKind::NoSettings,
            Self::NotLoaded(_) => FallbackKind::NotLoaded,
            Self::InvalidAnswer(_) => FallbackKind::InvalidAnswer,
        }
    }

    /// Why the fallback decides.
    pub fn cause(&self) -> FallbackCause {
        FallbackCause::new(self.kind(), format!("the policy {self}"))
    }
}

backstop_core::names! {
    /// The step of an evaluation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[expect(
        missing_docs,
        reason = "each is the function of the contract, or the start of an instance"
    )]
    pub enum Phase {
        Start = "its start",
        Configure = "configure",
        Classify = "classify",
        Judge = "judge",
        Delay = "delay",
        DownFor = "down-for",
    }
}

/// A row for each question of the contract: its step, its function here, the component's part that answers it, and the part's function.
macro_rules! questions {
    ($($phase:ident: $ask:ident($($input:ident: $of:ty),+) -> $answer:ty = $part:ident.$call:ident;)+) => {$(
        pub(super) fn $ask(&mut self, $($input: &$of),+) -> Result<$answer, EvaluationError> {
            let indices = self.component.$part.as_ref();
            self.call(Phase::$phase, indices, |indices, store, instance| {
                indices.load(&mut *store, instance)?.$call(store, $($input),+)
            })
        }
    )+};
}

/// One instance and its store, from before its first instruction to the end of the decision.
pub(super) struct Live<'a> {
    sandbox: &'a Sandbox,
    component: &'a Component,
    store: Store<Host>,
    instance: Option<Instance>,
}

impl<'a> Live<'a> {
    /// A store with the sandbox's limits. The policy does not run before [`Live::start`].
    pub(super) fn new(
        sandbox: &'a Sandbox,
        component: &'a Component,
        payload: Arc<Payload>,
        random: f64,
        clock: StoppedClock,
    ) -> Self {
        let host = Host::new(sandbox.limits, payload, random, clock);
        let mut store = Store::new(&sandbox.engine, host);
        store.limiter(|host| &mut host.meter);
        store.set_hostcall_fuel(sandbox.limits.strings);
        store.set_epoch_deadline(sandbox.ticks());
        Self {
            sandbox,
            component,
            store,
            instance: None,
        }
    }

    /// Instantiates and configures.
    pub(super) fn start(&mut self, settings: &Settings) -> Result<(), EvaluationError> {
        let fuel = self.sandbox.limits.fuel;
        let started = self
            .store
            .set_fuel(fuel)
            .and_then(|()| self.component.pre.instantiate(&mut self.store));
        self.instance = Some(started.map_err(|error| self.error_of(Phase::Start, &error))?);
        let Some(indices) = &self.component.settings else {
            let names: Vec<_> = settings
                .iter()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            return if names.is_empty() {
                Ok(())
            } else {
                Err(EvaluationError::NoSettings(names.join(", ")))
            };
        };
        self.call(
            Phase::Configure,
            Some(indices),
            |indices, store, instance| {
                indices
                    .load(&mut *store, instance)?
                    .call_configure(store, settings)
            },
        )?
        .map_err(|mut refusal| {
            cut(&mut refusal, REASON_BYTES);
            EvaluationError::Settings(one_line(&refusal))
        })
    }

    /// Prepares the instance for another evaluation: everything that is counted for each answer starts at zero again.
    pub(super) fn renew(&mut self, random: f64) -> Result<(), EvaluationError> {
        self.store.set_epoch_deadline(self.sandbox.ticks());
        self.store.data_mut().renew(random);
        self.store
            .set_fuel(self.sandbox.limits.fuel)
            .map_err(|error| self.error_of(Phase::Start, &error))
    }

    questions! {
        Classify: classify(error: types::Error) -> types::ErrorClass = classifier.call_classify;
        Judge: judge(failure: types::Failure, class: types::ErrorClass) -> types::Verdict = dead_lettering.call_judge;
        Delay: delay(failure: types::Failure, class: types::ErrorClass) -> u32 = backoff.call_delay;
        DownFor: down_for(failure: types::Failure, class: types::ErrorClass) -> Option<u32> = outage.call_down_for;
    }

    /// The fuel used so far.
    pub(super) fn fuel_used(&self) -> u64 {
        self.sandbox.limits.fuel - self.store.get_fuel().unwrap_or(0)
    }

    pub(super) fn into_host(self) -> Host {
        self.store.into_data()
    }

    fn call<I, T>(
        &mut self,
        phase: Phase,
        indices: Option<&I>,
        call: impl FnOnce(&I, &mut Store<Host>, &Instance) -> wasmtime::Result<T>,
    ) -> Result<T, EvaluationError> {
        let (Some(instance), Some(indices)) = (self.instance, indices) else {
            return Err(EvaluationError::Trapped(
                "it was not started".to_owned(),
                phase,
            ));
        };
        self.store.data_mut().start_evaluation();
        call(indices, &mut self.store, &instance).map_err(|error| self.error_of(phase, &error))
    }

    /// The meaning of a trap or of a failed conversion. Refused memory takes precedence over the `unreachable` that most runtimes execute next.
    fn error_of(&self, phase: Phase, error: &wasmtime::Error) -> EvaluationError {
        let limits = &self.sandbox.limits;
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => return EvaluationError::OutOfFuel(limits.fuel, phase),
            Some(Trap::Interrupt) => return EvaluationError::OutOfTime(limits.time, phase),
            _ => {}
        }
        if let Some(resource) = self.store.data().meter.refused() {
            return EvaluationError::OutOfBounds(resource, phase);
        }
        // The trace's frames are addresses in a stripped file; the last line of the chain is the cause.
        let mut cause = error.root_cause().to_string();
        cut(&mut cause, REASON_BYTES);
        EvaluationError::Trapped(one_line(&cause), phase)
    }
}
