//! The policy of a retrier, and its evaluation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::call::refused_by_call;
use backstop_core::clock;
use backstop_core::decision::{Answer, FallbackCause, FallbackKind};
use backstop_core::failure::Failure;
use backstop_core::policy::{LogLine, PartName, Policy};
use backstop_time::Clock;

/// The result of one evaluation.
pub(crate) struct Evaluation {
    /// The policy's answer, or why the fallback decides.
    pub(crate) answer: Result<Answer, FallbackCause>,
    pub(crate) policy: Arc<[PartName]>,
    pub(crate) log: Vec<LogLine>,
    pub(crate) fuel: u64,
    pub(crate) took: Duration,
    /// The call itself decided, and no policy was evaluated.
    pub(crate) is_by_call: bool,
}

impl Evaluation {
    /// An evaluation of which no more is known.
    pub(crate) fn of(answer: Result<Answer, FallbackCause>, policy: Arc<[PartName]>) -> Self {
        Self {
            answer,
            policy,
            log: Vec::new(),
            fuel: 0,
            took: Duration::ZERO,
            is_by_call: false,
        }
    }

    /// The call's own `retry_if` refuses this error.
    pub(crate) fn refused_by_call(failure: &Failure) -> Self {
        let answer = refused_by_call(failure);
        Self {
            is_by_call: true,
            ..Self::of(Ok(answer), Arc::new([]))
        }
    }
}

/// The policy of a retrier.
pub(crate) enum Decider {
    Native(Native),
    #[cfg(feature = "wasm")]
    Wasm(crate::wasm::Watched),
}

/// An evaluation that is done, or under way on another thread.
pub(crate) enum Evaluating {
    Done(Box<Failure>, Evaluation),
    #[cfg(feature = "wasm")]
    UnderWay(Pending),
}

/// An evaluation on another thread. Dropped, it ends by itself.
#[cfg(feature = "wasm")]
pub(crate) type Pending =
    std::pin::Pin<Box<dyn Future<Output = (Box<Failure>, Evaluation)> + Send>>;

impl Decider {
    #[cfg_attr(
        not(feature = "wasm"),
        expect(unused_variables, reason = "a policy in Rust takes no time")
    )]
    /// Evaluates the policy for a failure. A WebAssembly policy is evaluated on a thread for blocking work, so that a slow one delays only its own call.
    pub(crate) fn evaluate(&self, failure: Failure, clock: &dyn Clock) -> Evaluating {
        match self {
            Self::Native(native) => {
                let evaluation = native.evaluate(&failure);
                Evaluating::Done(Box::new(failure), evaluation)
            }
            #[cfg(feature = "wasm")]
            Self::Wasm(watched) => {
                let runtime = tokio::runtime::Handle::try_current();
                let failure = Box::new(failure);
                match runtime {
                    Ok(runtime) if !clock.is_virtual() => {
                        Evaluating::UnderWay(on_a_thread(&runtime, watched, failure))
                    }
                    Ok(_) | Err(_) => {
                        let evaluation = evaluate(&watched.policy, &failure);
                        Evaluating::Done(failure, evaluation)
                    }
                }
            }
        }
    }

    /// Evaluates the policy on this thread.
    #[cfg(feature = "tower")]
    pub(crate) fn evaluate_now(&self, failure: &Failure) -> Evaluation {
        match self {
            Self::Native(native) => native.evaluate(failure),
            #[cfg(feature = "wasm")]
            Self::Wasm(watched) => evaluate(&watched.policy, failure),
        }
    }

    #[cfg(feature = "wasm")]
    pub(crate) fn live(&self) -> Option<&Arc<backstop_versions::LivePolicy>> {
        match self {
            Self::Native(_) => None,
            Self::Wasm(watched) => Some(&watched.policy),
        }
    }
}

#[cfg(feature = "wasm")]
fn on_a_thread(
    runtime: &tokio::runtime::Handle,
    watched: &crate::wasm::Watched,
    failure: Box<Failure>,
) -> Pending {
    let policy = Arc::clone(&watched.policy);
    let input = failure.clone();
    let evaluating = runtime.spawn_blocking(move || evaluate(&policy, &input));
    Box::pin(async move {
        let evaluation = evaluating.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, id = failure.message_id, "the evaluation failed: the fallback decides");
            let text = "the host failed while it evaluated the policy";
            let cause = FallbackCause::new(FallbackKind::HostFailed, text);
            Evaluation::of(Err(cause), Arc::new([]))
        });
        (failure, evaluation)
    })
}

/// Evaluates the active version for a failure. Blocks for as long as the sandbox allows.
#[cfg(feature = "wasm")]
fn evaluate(live: &Arc<backstop_versions::LivePolicy>, failure: &Failure) -> Evaluation {
    let policy = live.current();
    let evaluation = policy.evaluate(failure, &Arc::<backstop_engine::Payload>::default());
    live.record(&policy, failure, &evaluation);
    Evaluation {
        is_by_call: false,
        answer: evaluation.answer.map_err(|error| error.cause()),
        policy: policy.parts().collect(),
        log: evaluation.log,
        fuel: evaluation.fuel,
        took: evaluation.took,
    }
}

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(native) => native.fmt(f),
            #[cfg(feature = "wasm")]
            Self::Wasm(watched) => watched.fmt(f),
        }
    }
}

/// A policy in Rust.
pub(crate) struct Native {
    policy: Arc<dyn Policy>,
    name: Arc<[PartName]>,
}

impl Native {
    pub(crate) fn new(policy: Arc<dyn Policy>) -> Self {
        let name = [PartName::native(&*policy)].into();
        Self { policy, name }
    }

    pub(crate) fn evaluate(&self, failure: &Failure) -> Evaluation {
        let started = clock::instant();
        let answer = self.policy.answer(failure).validate().map_err(|invalid| {
            let text = format!("the policy answered {invalid}");
            FallbackCause::new(FallbackKind::InvalidAnswer, text)
        });
        Evaluation {
            took: started.elapsed(),
            ..Evaluation::of(answer, Arc::clone(&self.name))
        }
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}
