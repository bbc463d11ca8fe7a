//! What a retrier accepts as its policy: a value, or a name.

use std::sync::Arc;

use backstop_core::policy::Policy;

/// A policy as a retrier is built with it.
pub struct PolicyChoice(pub(crate) Choice);

pub(crate) enum Choice {
    Native(Arc<dyn Policy>),
    /// To be looked up with the settings.
    Named(String),
    #[cfg(feature = "wasm")]
    Spec(Box<backstop_versions::PolicySpec>),
}

/// What a retrier accepts as its policy: a [`Policy`], or the name of a built-in one.
///
/// `M` only keeps the two apart. By name, and as a value:
///
/// ```
/// use std::time::Duration;
///
/// use backstop_retry::{Linear, Retrier};
///
/// Retrier::builder().policy("equal-jitter").set("base", "50ms").build()?;
/// Retrier::builder().policy(Linear::default().base(Duration::from_millis(50))).build()?;
/// # Ok::<(), backstop_retry::BuildError>(())
/// ```
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

/// A specification names the parts of a composed policy.
#[cfg(feature = "wasm")]
#[derive(Debug)]
pub enum BySpec {}

#[cfg(feature = "wasm")]
impl IntoPolicy<BySpec> for backstop_versions::PolicySpec {
    fn into_policy(self) -> PolicyChoice {
        PolicyChoice(Choice::Spec(Box::new(self)))
    }
}
