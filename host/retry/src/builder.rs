//! How a retrier is built.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::call::Limits;
use backstop_core::policy::{BudgetName, PolicyError, Profile, SettingsError, by_name};
use backstop_core::settings::Settings;
use backstop_records::Recorder;
use backstop_time::{Clock, TokioClock};

use crate::breaker::Breaker;
use crate::budget::{Budget, BudgetSettings};
use crate::bulkhead::Bulkhead;
use crate::decider::{Decider, Native};
use crate::event::Observer;
use crate::into_policy::{Choice, IntoPolicy};
use crate::record::Records;
use crate::retrier::{CallOptions, Ids, Inner, Retrier};
use crate::telemetry::Metrics;

/// Builds a [`Retrier`].
///
/// ```
/// use std::time::Duration;
///
/// use backstop_retry::{Budget, DecorrelatedJitter, Retrier};
///
/// let policy = DecorrelatedJitter::default().base(Duration::from_millis(20));
/// let retrier = Retrier::builder()
///     .name("orders-table")
///     .policy(policy)
///     .max_attempts(5)
///     .attempt_timeout(Duration::from_millis(500))
///     .budget(&Budget::aws_2_1())
///     .build()?;
/// assert_eq!(retrier.name(), "orders-table");
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
#[must_use = "it makes a retrier with `build`"]
pub struct RetrierBuilder {
    name: String,
    source: Option<String>,
    policy: Choice,
    settings: Vec<(String, String)>,
    max_attempts: Option<NonZeroU32>,
    max_delay: Option<Duration>,
    max_retry_after: Option<Duration>,
    options: CallOptions,
    budget: Option<Budget>,
    budget_of_profile: Option<BudgetName>,
    breaker: Option<Breaker>,
    bulkhead: Option<Bulkhead>,
    observers: Vec<Arc<dyn Observer>>,
    clock: Arc<dyn Clock>,
    seed: Option<u64>,
    #[cfg(feature = "wasm")]
    wasm: crate::wasm::WasmOptions,
}

/// Why a retrier can't be built. The text names the setting and what is expected.
///
/// ```
/// use backstop_retry::{BuildError, Retrier};
///
/// let refused = Retrier::builder().policy("full-jitter").set("bass", "2s").build().unwrap_err();
/// assert!(matches!(refused, BuildError::Policy(_)));
/// assert!(refused.to_string().contains("unknown setting `bass`"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No built-in policy has this name, or it rejects its settings.
    #[error(transparent)]
    Policy(PolicyError),
    /// The policy's own settings are invalid.
    #[error(transparent)]
    Settings(SettingsError),
    /// A policy that is a value has its settings already: `set` is for policies by name.
    #[error("setting `{0}` is for a policy by its name: use the methods of the policy")]
    NotNamed(String),
    /// The WebAssembly policy can't be used.
    #[cfg(feature = "wasm")]
    #[error(transparent)]
    Wasm(crate::wasm::WasmError),
}

impl Retrier {
    /// A retrier with full jitter from 50 ms to 20 s and 3 attempts, unless the builder has others.
    pub fn builder() -> RetrierBuilder {
        RetrierBuilder::new()
    }
}

impl RetrierBuilder {
    fn new() -> Self {
        Self {
            name: "default".to_owned(),
            source: None,
            policy: Choice::Native(Profile::Http.policy()),
            settings: Vec::new(),
            max_attempts: None,
            max_delay: None,
            max_retry_after: None,
            options: CallOptions::default(),
            budget: None,
            budget_of_profile: None,
            breaker: None,
            bulkhead: None,
            observers: Vec::new(),
            clock: Arc::new(TokioClock),
            seed: None,
            #[cfg(feature = "wasm")]
            wasm: crate::wasm::WasmOptions::default(),
        }
    }

    /// Its name: the label of its metrics and the field of its spans; `default` unless set. Give each dependency its own.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The `source` of its failures, which a policy sees; `retrier:NAME` unless set.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The policy: a value such as [`FullJitter`](crate::FullJitter), or the name of a built-in one. With the feature `wasm` also a file, a folder of versions, `s3://…` or `oci://…`, with or without a pin.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use backstop_retry::{FullJitter, Retrier};
    ///
    /// let policy = FullJitter::default().base(Duration::from_millis(50)).max_attempts(8);
    /// Retrier::builder().policy(policy).build()?;
    /// Retrier::builder().policy("full-jitter").set("base", "50ms").set("max-attempts", "8").build()?;
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn policy<M>(mut self, policy: impl IntoPolicy<M>) -> Self {
        self.policy = policy.into_policy().0;
        self
    }

    /// The policy for calls to this service, and a retry budget with the numbers that suit it, unless [`budget`](Self::budget) gives another. Each retrier has a budget of its own, named like the retrier.
    ///
    /// ```
    /// use backstop_retry::{Profile, Retrier};
    ///
    /// let retrier = Retrier::builder().name("orders-table").profile(Profile::DynamoDb).build()?;
    /// assert_eq!(retrier.budget().unwrap().name(), "orders-table");
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn profile(mut self, profile: Profile) -> Self {
        self.policy = Choice::Native(profile.policy());
        self.budget_of_profile = Some(profile.budget());
        self
    }

    /// A setting of a policy by its name, as on a command line.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// The most attempts of a call, whatever the policy decides. By default only the policy limits them. Zero counts as one.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN));
        self
    }

    /// The longest delay, whatever the policy decides; 14 days by default. With zero, every retry comes at once, and with less than a millisecond, after that: a policy has whole milliseconds only. A longer one is shortened, also one that a service asks for in `Retry-After`: [`max_retry_after`](Self::max_retry_after) has no default then.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = Some(delay);
        self
    }

    /// The longest time that a service may ask for in `Retry-After`; a minute by default, unless [`max_delay`](Self::max_delay) is set, which limits every delay. The policy sees a longer one as this: a service that asks for ten days must not hold a program for as long.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use backstop_retry::Retrier;
    ///
    /// let patient = Retrier::builder().max_retry_after(Duration::from_secs(600)).build()?;
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    pub fn max_retry_after(mut self, time: Duration) -> Self {
        self.max_retry_after = Some(time);
        self
    }

    /// The longest that one attempt may take, see [`Run::attempt_timeout`](crate::Run::attempt_timeout).
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.options.attempt_timeout = Some(timeout);
        self
    }

    /// The least time before the deadline that makes an attempt worthwhile, see [`Run::min_attempt_time`](crate::Run::min_attempt_time).
    pub fn min_attempt_time(mut self, time: Duration) -> Self {
        self.options.min_attempt_time = time;
        self
    }

    /// Whether the deadline cuts an attempt short, see [`Run::interrupt_at_deadline`](crate::Run::interrupt_at_deadline).
    pub fn interrupt_at_deadline(mut self, interrupt: bool) -> Self {
        self.options.interrupt_at_deadline = interrupt;
        self
    }

    /// The retry budget, which it shares with every other retrier that has it. Without one, and without a [`profile`](Self::profile), nothing limits the retries of many calls together.
    pub fn budget(mut self, budget: &Budget) -> Self {
        self.budget = Some(budget.clone());
        self
    }

    /// The circuit breaker, which it shares with every other retrier that has it. Each attempt asks it, also the first one of a call; one that is refused ends the call with [`RetryError::BreakerOpen`](crate::RetryError::BreakerOpen) at once.
    pub fn breaker(mut self, breaker: &Breaker) -> Self {
        self.breaker = Some(breaker.clone());
        self
    }

    /// The limit of attempts that are under way at once, which it shares with every other retrier that has it.
    pub fn bulkhead(mut self, bulkhead: &Bulkhead) -> Self {
        self.bulkhead = Some(bulkhead.clone());
        self
    }

    /// Passes every event to this observer too.
    pub fn observe(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Records every decision, for `backstop policy replay`. The recorder writes on a thread of its own and never holds up a call; [`flush`](Recorder::flush) it before the program ends.
    ///
    /// ```
    /// use backstop_retry::{Recorder, Retrier};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("decisions.jsonl");
    /// let recorder = Recorder::to_file(&path)?;
    /// let retrier = Retrier::builder().name("articles").record(&recorder).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(self, recorder: &Arc<Recorder>) -> Self {
        self.observe(Records(Arc::clone(recorder)))
    }

    /// The clock; tokio's by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Makes the ids of its calls, and so the randomness of their delays, the same in every run of the program: for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// What its WebAssembly policy shares with others: sandbox, cache, keys; [`default_catalog`](crate::wasm::default_catalog) unless set.
    #[cfg(feature = "wasm")]
    pub fn catalog(mut self, catalog: crate::wasm::Catalog) -> Self {
        self.wasm.catalog = Some(catalog);
        self
    }

    /// A file of [scenarios](crate::wasm) that every version of its WebAssembly policy must pass before it decides.
    #[cfg(feature = "wasm")]
    pub fn scenarios(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.wasm.scenarios = Some(path.into());
        self
    }

    /// The retrier. Binds its metrics to the exporter that is installed now.
    ///
    /// Blocks while a WebAssembly policy is fetched and compiled; `load` does not.
    pub fn build(self) -> Result<Retrier, BuildError> {
        let policy = decider(
            self.policy,
            self.settings,
            #[cfg(feature = "wasm")]
            self.wasm,
        )?;
        let name: Arc<str> = self.name.into();
        let of_profile = self.budget_of_profile.map(BudgetSettings::named);
        let of_profile = || of_profile.map(|settings| Budget::new(&name, settings));
        let budget = self.budget.or_else(of_profile);
        let seed = self.seed.unwrap_or_else(random_seed);
        Ok(Retrier(Arc::new(Inner {
            limits: Limits::new(
                self.source.unwrap_or_else(|| format!("retrier:{name}")),
                self.max_attempts,
                self.max_delay,
                self.max_retry_after,
            ),
            metrics: Metrics::of(&name),
            name,
            policy,
            options: self.options,
            budget,
            breaker: self.breaker,
            bulkhead: self.bulkhead,
            observers: self.observers,
            clock: self.clock,
            ids: Ids::seeded(seed),
        })))
    }

    /// As [`build`](Self::build), on another thread, since it takes seconds to fetch and compile a policy. Needs a tokio runtime.
    #[cfg(feature = "wasm")]
    pub async fn load(self) -> Result<Retrier, BuildError> {
        match tokio::task::spawn_blocking(|| self.build()).await {
            Ok(built) => built,
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        }
    }
}

/// The policy: in Rust if there is one, else in WebAssembly.
fn decider(
    choice: Choice,
    settings: Vec<(String, String)>,
    #[cfg(feature = "wasm")] wasm: crate::wasm::WasmOptions,
) -> Result<Decider, BuildError> {
    let native = match choice {
        Choice::Native(policy) => {
            no_settings(settings)?;
            policy.validate().map_err(BuildError::Settings)?;
            policy
        }
        Choice::Named(name) => match by_name(&name, &Settings::from(settings.clone())) {
            Ok(policy) => policy,
            #[cfg(feature = "wasm")]
            Err(PolicyError::Unknown(name)) => {
                return wasm
                    .load_named(&name, settings.into())
                    .map(Decider::Wasm)
                    .map_err(BuildError::Wasm);
            }
            Err(error) => return Err(BuildError::Policy(error)),
        },
        #[cfg(feature = "wasm")]
        Choice::Spec(spec) => {
            no_settings(settings)?;
            let loaded = wasm.load(*spec).map(Decider::Wasm);
            return loaded.map_err(BuildError::Wasm);
        }
    };
    Ok(Decider::Native(Native::new(native)))
}

fn no_settings(settings: Vec<(String, String)>) -> Result<(), BuildError> {
    match settings.into_iter().next() {
        Some((name, _)) => Err(BuildError::NotNamed(name)),
        None => Ok(()),
    }
}

/// A seed that differs in every process and for every retrier: the standard library draws it from the operating system.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

backstop_core::shown!(RetrierBuilder, builder => name = builder.name);
