//! The AWS SDK's own retries (feature `aws`).
//!
//! By default, an SDK client makes up to three attempts for each request. Inside a retrier these multiply: three attempts of the retrier become nine requests, and the policy sees every third failure. Turn the client's retries off:
//!
//! ```
//! // Of `aws_config::retry` and of each client's `config::retry` too.
//! use aws_smithy_types::retry::RetryConfig;
//! use backstop_retry::aws::warn_of_client_retries;
//!
//! // For `aws_config::from_env().retry_config(..)`, or the builder of one client's configuration.
//! let retries = RetryConfig::disabled();
//! assert!(!warn_of_client_retries(Some(&retries)));
//! ```
//!
//! A client that other code uses without a retrier keeps its retries there and loses them inside a retrier with [`ClientRetries::Off`]. [`ClientRetries::Warn`] only logs a warning, once in a process. [`warn_of_client_retries`] does the same at the start of a program.

use std::sync::atomic::{AtomicBool, Ordering};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeSerializationInterceptorContextRef;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::retry::RetryConfig;

use crate::inside::is_inside;

/// The attempts of a client whose retries nobody has configured.
const DEFAULT_ATTEMPTS: u32 = 3;

static WARNED: AtomicBool = AtomicBool::new(false);

/// An interceptor for an SDK client that finds the client's own retries inside an attempt of a retrier.
///
/// It knows the attempt by the thread that runs it, so it does not see a request that the function sends from another task.
///
/// ```
/// use aws_smithy_runtime_api::client::interceptors::SharedInterceptor;
/// use backstop_retry::aws::ClientRetries;
///
/// // For `aws_sdk_sqs::config::Builder::interceptor`.
/// let interceptor = SharedInterceptor::new(ClientRetries::Off);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRetries {
    /// Logs a warning, once in a process.
    Warn,
    /// The client makes one attempt inside a retrier, and as many as it is configured for everywhere else.
    Off,
}

impl Intercept for ClientRetries {
    fn name(&self) -> &'static str {
        "ClientRetries"
    }

    /// The first hook that sees the configuration of the operation too.
    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if !is_inside() {
            return Ok(());
        }
        let Some(retries) = config.load::<RetryConfig>().filter(|it| it.has_retry()) else {
            return Ok(());
        };
        match self {
            Self::Warn => warn(retries.max_attempts()),
            Self::Off => {
                let once = retries.clone().with_max_attempts(1);
                config.interceptor_state().store_put(once);
            }
        }
        Ok(())
    }
}

/// Logs a warning, once in a process, if a client with this configuration retries by itself: `client.config().retry_config()`, or `SdkConfig::retry_config()`. Returns whether it does. Without a configuration, the SDK's default of three attempts counts.
pub fn warn_of_client_retries(config: Option<&RetryConfig>) -> bool {
    let attempts = config.map_or(DEFAULT_ATTEMPTS, RetryConfig::max_attempts);
    if attempts > 1 {
        warn(attempts);
    }
    attempts > 1
}

fn warn(attempts: u32) {
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            attempts,
            "an AWS client retries by itself inside a retrier, so that attempts multiply: configure it with RetryConfig::disabled()"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_retries_is_no_reason_to_warn() {
        assert!(!warn_of_client_retries(Some(&RetryConfig::disabled())));
        assert!(warn_of_client_retries(Some(&RetryConfig::standard())));
        assert!(warn_of_client_retries(None));
    }
}
