//! The trait that a policy implements, its defaults, and the macro that exports it.

use backstop_backoff::reason_if_permanent;

use crate::{Duration, Error, ErrorClass, Failure, Milliseconds, Verdict, classify};

/// A policy: created from its settings, then evaluated for one failure.
///
/// It is a pure function of the two. The host creates a fresh instance for every decision, so no state survives it.
pub trait Policy: Sized + Send + Sync + 'static {
    /// Creates the policy with these settings. The error rejects them; the operator sees it.
    fn configure(settings: &[(String, String)]) -> Result<Self, String>;

    /// The delay before the next attempt. Called only if the verdict is to retry.
    fn delay(&self, failure: &Failure, class: &ErrorClass) -> Duration;

    /// The class of an error: [`default_class`] unless overridden.
    fn classify(&self, error: &Error) -> ErrorClass {
        default_class(error)
    }

    /// Whether there is a next attempt: [`default_verdict`] unless overridden.
    fn judge(&self, failure: &Failure, class: &ErrorClass) -> Verdict {
        default_verdict(failure, class)
    }

    /// How long, from this failure, what is behind the message is down: nothing else with the same key is attempted for this time if the queue has a breaker, at most 5 minutes at once. The message itself follows its verdict. `None`, unless overridden, says nothing.
    ///
    /// ```
    /// # use backstop_policy::{Duration, ErrorClass, Failure, Policy};
    /// # struct Payments;
    /// # impl Policy for Payments {
    /// #     fn configure(_: &[(String, String)]) -> Result<Self, String> { Ok(Self) }
    /// #     fn delay(&self, _: &Failure, _: &ErrorClass) -> Duration { Duration::ZERO }
    /// fn down_for(&self, failure: &Failure, _class: &ErrorClass) -> Option<Duration> {
    ///     let is_maintenance = failure.error.code == "Maintenance";
    ///     is_maintenance.then(|| failure.error.asked_for().unwrap_or(Duration::from_secs(300)))
    /// }
    /// # }
    /// ```
    fn down_for(&self, _failure: &Failure, _class: &ErrorClass) -> Option<Duration> {
        None
    }
}

/// The default classification: the table of `backstop_backoff`.
pub fn default_class(error: &Error) -> ErrorClass {
    classify(&error.code, error.status).into()
}

/// Dead-letters permanent errors and retries all others.
pub fn default_verdict(failure: &Failure, class: &ErrorClass) -> Verdict {
    reason_if_permanent(class.known(), &failure.error.code)
        .map_or(Verdict::Retry, Verdict::DeadLetter)
}

/// Rounds up, so that no delay is too short. Saturates at 49 days.
#[doc(hidden)]
pub fn whole_milliseconds(delay: Duration) -> Milliseconds {
    delay
        .as_nanos()
        .div_ceil(1_000_000)
        .try_into()
        .unwrap_or(Milliseconds::MAX)
}

/// Runs first in every instance. With the feature `messages`, it logs the message and location of panics in the host's log.
#[doc(hidden)]
pub fn start() {
    #[cfg(all(feature = "messages", target_arch = "wasm32"))]
    std::panic::set_hook(Box::new(|panic| {
        crate::log::log(crate::log::Level::Error, &panic.to_string());
    }));
}

/// Support for [`export!`](crate::export).
pub(crate) mod exported {
    use std::sync::OnceLock;

    /// Stores the configured policy between the calls of one decision.
    #[doc(hidden)]
    pub trait Exported {
        type Policy: super::Policy;
        fn cell() -> &'static OnceLock<Self::Policy>;

        /// The configured policy. The host calls `configure` before anything else.
        fn get() -> &'static Self::Policy {
            #[expect(
                clippy::expect_used,
                reason = "a policy reports a fault to the host by a trap"
            )]
            Self::cell().get().expect("configure is called first")
        }
    }
}

/// Exports a type that implements [`Policy`](crate::Policy) as the component's policy. It has an effect only on WebAssembly, so that the policy can be tested natively.
#[macro_export]
macro_rules! export {
    // All but `outage`, for policies that never say that anything is down.
    (@without_outage $policy:ty) => {
            use $crate::bindings::exports::backstop::policy as contract;
            use $crate::{Exported as _, Policy as _};

            struct Component;

            impl $crate::Exported for Component {
                type Policy = $policy;
                fn cell() -> &'static std::sync::OnceLock<$policy> {
                    static CONFIGURED: std::sync::OnceLock<$policy> = std::sync::OnceLock::new();
                    &CONFIGURED
                }
            }

            impl contract::settings::Guest for Component {
                fn configure(settings: Vec<(String, String)>) -> Result<(), String> {
                    $crate::start();
                    let configured = <$policy>::configure(&settings)?;
                    Self::cell()
                        .set(configured)
                        .map_err(|_| "configure is called once".to_owned())
                }
            }

            impl contract::classifier::Guest for Component {
                fn classify(error: $crate::Error) -> $crate::ErrorClass {
                    Self::get().classify(&error)
                }
            }

            impl contract::backoff::Guest for Component {
                fn delay(
                    failure: $crate::Failure,
                    class: $crate::ErrorClass,
                ) -> $crate::Milliseconds {
                    $crate::whole_milliseconds(Self::get().delay(&failure, &class))
                }
            }

            impl contract::dead_lettering::Guest for Component {
                fn judge(failure: $crate::Failure, class: $crate::ErrorClass) -> $crate::Verdict {
                    Self::get().judge(&failure, &class)
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::bindings::export_bindings!(Component with_types_in $crate::bindings);
    };
    ($policy:ty) => {
        const _: () = {
            $crate::export!(@without_outage $policy);

            impl $crate::outage_bindings::exports::backstop::policy::outage::Guest for Component {
                fn down_for(
                    failure: $crate::Failure,
                    class: $crate::ErrorClass,
                ) -> Option<$crate::Milliseconds> {
                    let down_for = Self::get().down_for(&failure, &class);
                    down_for.map($crate::whole_milliseconds)
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::outage_bindings::export_outage!(Component with_types_in $crate::outage_bindings);
        };
    };
}
