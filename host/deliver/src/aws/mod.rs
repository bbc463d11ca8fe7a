//! What the services of AWS share: the SDK's retries are off, and every error is sorted into what can be done about it.

mod error;

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;

pub use error::OpenError;
pub(crate) use error::{entry_result, open_error, request_error};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeouts of a request.
pub(crate) fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(REQUEST_TIMEOUT)
        .build()
}

/// Builds a client's configuration: one call is one request, with timeouts and a limit for responses.
macro_rules! client {
    ($sdk:ident, $config:expr, $limit:expr) => {{
        let mut config = $sdk::config::Builder::from($config)
            .retry_config(aws_config::retry::RetryConfig::disabled())
            .timeout_config($crate::aws::timeouts())
            // The timeout of an attempt is enough, and costs less.
            .stalled_stream_protection($sdk::config::StalledStreamProtectionConfig::disabled());
        config.push_interceptor($limit.into());
        $sdk::Client::from_conf(config.build())
    }};
}

pub(crate) use client;
