//! Calls that are retried. Python makes the attempts and waits; what comes next is decided here, step by step.

use std::sync::Mutex;
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_core::policy::Profile;
use backstop_files::values::parse_span;
use backstop_retry::stepped::{self, Options, Stepped, SteppedClock};
use backstop_retry::{BreakerSettings, BreakerState, BudgetSettings, Event, RetryError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::Described;
use crate::policy::Decision;
use crate::text;

/// A time in seconds, as Python gives it.
fn time(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{name}: expected a time from 0")))
}

/// The seconds of a text such as `1m30s`.
#[pyfunction]
pub(crate) fn seconds(name: &str, text: &str) -> PyResult<f64> {
    let span =
        parse_span(text).map_err(|error| PyValueError::new_err(format!("{name}: {error}")))?;
    Ok(span.as_secs_f64())
}

/// A clock for tests, which moves on when a call waits.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Clock(SteppedClock);

#[pymethods]
impl Clock {
    #[new]
    fn new() -> Self {
        Self(SteppedClock::by_hand())
    }

    /// The seconds that have passed.
    #[getter]
    fn elapsed(&self) -> f64 {
        self.0.elapsed().unwrap_or_default().as_secs_f64()
    }

    fn advance(&self, seconds: f64) -> PyResult<()> {
        self.0.advance(time("advance", seconds)?);
        Ok(())
    }
}

/// A retry budget, which any number of retriers share.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Budget(backstop_retry::Budget);

#[pymethods]
impl Budget {
    /// A budget with the numbers of AWS's SDKs, 2.1 or 2.0, or with other ones.
    #[new]
    #[pyo3(signature = (name, numbers, *, capacity=None, transient_cost=None, throttled_cost=None, other_cost=None, first_success=None, refill_per_second=None, floor_per_second=None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        name: &str,
        numbers: &str,
        capacity: Option<u32>,
        transient_cost: Option<u32>,
        throttled_cost: Option<u32>,
        other_cost: Option<u32>,
        first_success: Option<u32>,
        refill_per_second: Option<f64>,
        floor_per_second: Option<f64>,
    ) -> PyResult<Self> {
        let mut it = match numbers {
            "aws-2.1" => BudgetSettings::AWS_2_1,
            "aws-2.0" => BudgetSettings::AWS_2_0,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "numbers: `{numbers}` is unknown: expected `aws-2.1` or `aws-2.0`"
                )));
            }
        };
        it.capacity = capacity.unwrap_or(it.capacity);
        it.transient_cost = transient_cost.unwrap_or(it.transient_cost);
        it.throttled_cost = throttled_cost.unwrap_or(it.throttled_cost);
        it.other_cost = other_cost.unwrap_or(it.other_cost);
        it.first_success = first_success.unwrap_or(it.first_success);
        it.refill_per_second = refill_per_second.unwrap_or(it.refill_per_second);
        it.floor_per_second = floor_per_second.unwrap_or(it.floor_per_second);
        Ok(Self(backstop_retry::Budget::new(name, it)))
    }

    /// The tokens that are left.
    #[getter]
    fn left(&self) -> f64 {
        self.0.left()
    }
}

/// A circuit breaker, which any number of retriers share.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Breaker(backstop_retry::Breaker);

#[pymethods]
impl Breaker {
    #[new]
    #[pyo3(signature = (name, *, minimum=None, shortest_outage=None, longest_retry_after=None, most=None, growth=None, share=None, cut=None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        name: &str,
        minimum: Option<u32>,
        shortest_outage: Option<f64>,
        longest_retry_after: Option<f64>,
        most: Option<u32>,
        growth: Option<u32>,
        share: Option<f64>,
        cut: Option<f64>,
    ) -> PyResult<Self> {
        let mut it = BreakerSettings::default();
        it.minimum = minimum.unwrap_or(it.minimum);
        if let Some(seconds) = shortest_outage {
            it.shortest_outage = time("shortest_outage", seconds)?;
        }
        if let Some(seconds) = longest_retry_after {
            it.longest_retry_after = time("longest_retry_after", seconds)?;
        }
        it.most = most.unwrap_or(it.most);
        it.growth = growth.unwrap_or(it.growth);
        it.share = share.unwrap_or(it.share);
        it.cut = cut.unwrap_or(it.cut);
        Ok(Self(backstop_retry::Breaker::new(name, it)))
    }

    /// Its state: `closed`, `open` or `growing`.
    #[getter]
    fn state(&self) -> &'static str {
        match self.0.status().state {
            BreakerState::Closed => "closed",
            BreakerState::Open { .. } | BreakerState::Probing => "open",
            BreakerState::Growing { .. } => "growing",
        }
    }
}

/// A retrier, which makes no attempts itself.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Retrier(Stepped);

/// What a retrier is built of.
#[derive(FromPyObject)]
struct Parts {
    name: String,
    policy: Option<String>,
    profile: Option<String>,
    settings: Vec<(String, String)>,
    max_attempts: Option<u32>,
    max_delay: Option<f64>,
    max_retry_after: Option<f64>,
    attempt_timeout: Option<f64>,
    min_attempt_time: Option<f64>,
    seed: Option<u64>,
    budget: Option<Py<Budget>>,
    breaker: Option<Py<Breaker>>,
    clock: Option<Py<Clock>>,
    observer: Option<Py<PyAny>>,
}

#[pymethods]
impl Retrier {
    #[new]
    fn new(py: Python<'_>, parts: Parts) -> PyResult<Self> {
        let mut builder = backstop_retry::Retrier::builder().name(parts.name);
        if let Some(profile) = &parts.profile {
            let profile: Profile =
                profile
                    .parse()
                    .map_err(|error: backstop_core::policy::UnknownProfile| {
                        PyValueError::new_err(format!("profile: {error}"))
                    })?;
            builder = builder.profile(profile);
        }
        if let Some(policy) = parts.policy {
            builder = builder.policy(policy);
        }
        for (name, value) in parts.settings {
            builder = builder.set(name, value);
        }
        if let Some(most) = parts.max_attempts {
            builder = builder.max_attempts(most);
        }
        if let Some(seconds) = parts.max_delay {
            builder = builder.max_delay(time("max_delay", seconds)?);
        }
        if let Some(seconds) = parts.max_retry_after {
            builder = builder.max_retry_after(time("max_retry_after", seconds)?);
        }
        if let Some(seconds) = parts.attempt_timeout {
            builder = builder.attempt_timeout(time("attempt_timeout", seconds)?);
        }
        if let Some(seconds) = parts.min_attempt_time {
            builder = builder.min_attempt_time(time("min_attempt_time", seconds)?);
        }
        if let Some(seed) = parts.seed {
            builder = builder.seed(seed);
        }
        if let Some(budget) = parts.budget {
            builder = builder.budget(&budget.get().0);
        }
        if let Some(breaker) = parts.breaker {
            builder = builder.breaker(&breaker.get().0);
        }
        if let Some(observer) = parts.observer {
            builder = builder.observe(move |event: &Event<'_>| report(&observer, event));
        }
        let clock = parts
            .clock
            .map_or_else(SteppedClock::real, |it| it.get().0.clone());
        let built = py.detach(|| Stepped::with(builder, clock));
        built
            .map(Self)
            .map_err(|error| PyValueError::new_err(text(&error)))
    }

    /// Begins a call. `deadline` is in seconds from now.
    fn call(
        &self,
        deadline: Option<f64>,
        id: Option<String>,
        attributes: Vec<(String, String)>,
    ) -> PyResult<Call> {
        let deadline = deadline
            .map(|seconds| time("deadline", seconds.max(0.0)))
            .transpose()?;
        let options = Options {
            deadline: deadline.map(Into::into),
            id,
            attributes,
        };
        Ok(Call(Mutex::new(self.0.call(options))))
    }
}

/// Reports to Python what happened in a call: `observer(event, attempt, code, class, delay, end)`.
fn report(observer: &Py<PyAny>, event: &Event<'_>) {
    let (kind, attempts, decision, code, delay, end) = match event {
        Event::Succeeded { attempts, .. } => ("succeeded", *attempts, None, None, None, None),
        Event::Retrying {
            failure,
            evaluated,
            delay,
            ..
        } => (
            "retrying",
            failure.attempt.get(),
            Some(&evaluated.decision),
            Some(&failure.error.code),
            Some(delay.as_secs_f64()),
            None,
        ),
        Event::Ended {
            end,
            attempts,
            failed,
            ..
        } => (
            "ended",
            *attempts,
            failed.map(|(_, evaluated)| &evaluated.decision),
            failed.map(|(failure, _)| &failure.error.code),
            None,
            Some(end.to_string()),
        ),
        _ => return,
    };
    Python::attach(|py| {
        let decision = decision.map(Decision::from);
        let reported = observer.call1(py, (kind, attempts, code, decision, delay, end));
        if let Err(error) = reported {
            error.write_unraisable(py, None);
        }
    });
}

/// A call under way. Dropped, it is cancelled.
#[pyclass(frozen, module = "backstop")]
pub(crate) struct Call(Mutex<stepped::Call>);

/// What is next in a call.
#[pyclass(frozen, get_all, module = "backstop")]
pub(crate) struct Step {
    /// `attempt`, `wait`, `succeeded` or `ended`.
    kind: &'static str,
    /// The number of the attempt, or how many there were.
    attempt: u32,
    /// Seconds: of a wait, or after which the attempt is cut short.
    seconds: Option<f64>,
    /// Seconds until the deadline, of an attempt.
    left: Option<f64>,
    /// How the call has ended: `gave-up` and so on.
    end: Option<String>,
    /// The same for people.
    text: Option<String>,
    /// The last failure's code.
    code: Option<String>,
    /// The decision about it.
    decision: Option<Py<Decision>>,
}

#[pymethods]
impl Call {
    fn begin(&self, py: Python<'_>) -> PyResult<Step> {
        self.step(py, stepped::Call::begin)
    }

    fn succeeded(&self, py: Python<'_>) -> PyResult<Step> {
        self.step(py, stepped::Call::succeeded)
    }

    fn failed(&self, py: Python<'_>, failure: Described) -> PyResult<Step> {
        self.step(py, |call| call.failed(failure.into_error()))
    }

    fn waited(&self, py: Python<'_>) -> PyResult<Step> {
        self.step(py, stepped::Call::waited)
    }
}

impl Call {
    fn step(
        &self,
        py: Python<'_>,
        go_on: impl FnOnce(&mut stepped::Call) -> stepped::Step + Send,
    ) -> PyResult<Step> {
        let step = py.detach(|| go_on(&mut lock(&self.0)));
        Step::of(py, step)
    }
}

impl Step {
    fn of(py: Python<'_>, step: stepped::Step) -> PyResult<Self> {
        let of = |kind| Self {
            kind,
            attempt: 0,
            seconds: None,
            left: None,
            end: None,
            text: None,
            code: None,
            decision: None,
        };
        Ok(match step {
            stepped::Step::Attempt { attempt, cut_after } => Self {
                attempt: attempt.number(),
                seconds: cut_after.map(|it| it.as_secs_f64()),
                left: attempt.deadline().map(|at| {
                    at.saturating_duration_since(backstop_core::clock::instant())
                        .as_secs_f64()
                }),
                ..of("attempt")
            },
            stepped::Step::Wait(time) => Self {
                seconds: Some(time.as_secs_f64()),
                ..of("wait")
            },
            stepped::Step::Succeeded => of("succeeded"),
            stepped::Step::Ended(error) => Self::ended(py, &error)?,
        })
    }

    fn ended(py: Python<'_>, error: &RetryError<backstop::Error>) -> PyResult<Self> {
        let ended = error.ended();
        let decision = ended.decision().map(Decision::from);
        Ok(Self {
            kind: "ended",
            attempt: ended.attempts(),
            seconds: ended.next_probe().map(|it| it.as_secs_f64()),
            left: ended.time_left().map(|it| it.as_secs_f64()),
            end: Some(error.end().to_string()),
            text: Some(error.to_string()),
            code: ended.description().map(|it| it.code.clone()),
            decision: decision.map(|it| Py::new(py, it)).transpose()?,
        })
    }
}
