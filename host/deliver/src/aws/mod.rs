//! What the services of AWS share: the SDK's retries are off, and every error is sorted into what can be done about it.

mod error;

pub use error::OpenError;
pub(crate) use error::{open_error, request_error};

/// The timeouts of a request.
#[cfg(any(feature = "dynamodb", feature = "firehose"))]
pub(crate) fn timeouts() -> aws_config::timeout::TimeoutConfig {
    aws_config::timeout::TimeoutConfig::builder()
        .connect_timeout(std::time::Duration::from_secs(3))
        .operation_attempt_timeout(std::time::Duration::from_secs(30))
        .build()
}

/// Builds a client's configuration: one call is one request, with timeouts and a limit for responses.
#[cfg(any(feature = "dynamodb", feature = "firehose"))]
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

#[cfg(any(feature = "dynamodb", feature = "firehose"))]
pub(crate) use client;
