//! A size limit for the responses of AWS services. The SDK reads a complete response into memory before it parses it, so a malicious endpoint could fill the host's memory.

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, SharedInterceptor};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use http_body_util::Limited;

/// The largest response of SQS, in bytes: ten messages of 1 MiB, where JSON may escape each character as six.
const SQS: usize = 64 << 20;

/// The largest response of DynamoDB, in bytes: a request of 16 MB that is unprocessed, with a margin for its JSON.
const DYNAMODB: usize = 64 << 20;

/// The largest response of Lambda, in bytes: 6 MiB from a function, with a margin.
const LAMBDA: usize = 16 << 20;

/// The largest error response, in bytes.
const ERROR: usize = 1 << 20;

/// An SDK interceptor that fails the read of a response with too many bytes.
#[derive(Debug, Clone, Copy)]
pub struct ResponseLimit {
    success: usize,
}

impl ResponseLimit {
    /// For SQS: 64 MiB.
    pub const SQS: Self = Self { success: SQS };

    /// For DynamoDB: 64 MiB.
    pub const DYNAMODB: Self = Self { success: DYNAMODB };

    /// For Firehose: 1 MiB, for the results of 500 records.
    pub const FIREHOSE: Self = Self { success: 1 << 20 };

    /// For Lambda: 16 MiB.
    pub const LAMBDA: Self = Self { success: LAMBDA };

    /// For S3: only errors are limited here. Objects are streamed and have their own limit.
    pub const S3: Self = Self {
        success: usize::MAX,
    };
}

impl From<ResponseLimit> for SharedInterceptor {
    /// An interceptor that no configuration can turn off, so that no request has to look it up.
    fn from(limit: ResponseLimit) -> Self {
        Self::permanent(limit)
    }
}

impl Intercept for ResponseLimit {
    fn name(&self) -> &'static str {
        "ResponseLimit"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response_mut();
        let limit = if response.status().is_success() {
            self.success
        } else {
            ERROR
        };
        let body = std::mem::replace(response.body_mut(), SdkBody::taken());
        *response.body_mut() = SdkBody::from_body_1_x(Limited::new(body, limit));
        Ok(())
    }
}
