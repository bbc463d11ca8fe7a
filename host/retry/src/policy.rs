//! Whoever answers failures: a policy in Rust, or by name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::decision::{Answer, FallbackCause, FallbackKind};
use backstop_core::failure::Failure;
use backstop_core::policy::{LogLine, PartName, Policy};

/// A policy as a retrier is built with it.
pub struct PolicyChoice(pub(crate) Choice);

pub(crate) enum Choice {
    Native(Arc<dyn Policy>),
    /// To be looked up with the settings.
    Named(String),
}

/// What a retrier accepts as its policy: a [`Policy`], or the name of a built-in one.
///
/// `M` only keeps the two apart.
pub trait IntoPolicy<M> {
    /// The policy.
    fn into_policy(self) -> PolicyChoice;
}

/// A [`Policy`] is a policy by itself.
#[derive(Debug)]
pub enum ByValue {}

/// A text names a policy.
#[derive(Debug)]
pub enum ByName {}

impl<P: Policy + 'static> IntoPolicy<ByValue> for P {
    fn into_policy(self) -> PolicyChoice {
        PolicyChoice(Choice::Native(Arc::new(self)))
    }
}

impl IntoPolicy<ByName> for &str {
    fn into_policy(self) -> PolicyChoice {
        PolicyChoice(Choice::Named(self.to_owned()))
    }
}

impl IntoPolicy<ByName> for String {
    fn into_policy(self) -> PolicyChoice {
        PolicyChoice(Choice::Named(self))
    }
}

/// The result of one evaluation.
pub(crate) struct Evaluation {
    /// The policy's answer, or why the fallback decides.
    pub(crate) answer: Result<Answer, FallbackCause>,
    pub(crate) policy: Arc<[PartName]>,
    pub(crate) log: Vec<LogLine>,
    pub(crate) fuel: u64,
    pub(crate) took: Duration,
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
            answer,
            policy: Arc::clone(&self.name),
            log: Vec::new(),
            fuel: 0,
            took: started.elapsed(),
        }
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}
