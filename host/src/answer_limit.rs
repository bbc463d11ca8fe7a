//! A limit on what is read of one answer of an AWS service. The SDK reads an answer whole before it looks at it, however long it is: a false endpoint could fill the host's memory.

use aws_sdk_lambda::primitives::SdkBody;
use aws_sdk_sqs::config::interceptors::BeforeDeserializationInterceptorContextMut;
use aws_sdk_sqs::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sqs::error::BoxError;
use http_body_util::Limited;

/// The longest answer of SQS, in bytes: ten messages of 1 MiB, each character of which may be escaped as six.
const SQS: usize = 64 << 20;

/// The longest answer of Lambda, in bytes: a function's 6 MiB, with room.
const LAMBDA: usize = 16 << 20;

/// The longest answer that is an error, in bytes.
const ERROR: usize = 1 << 20;

/// An interceptor of the SDK's that ends an answer of too many bytes as one that can't be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerLimit {
    success: usize,
}

impl AnswerLimit {
    /// For SQS: 64 MiB.
    pub(crate) const SQS: Self = Self { success: SQS };

    /// For Lambda: 16 MiB.
    pub(crate) const LAMBDA: Self = Self { success: LAMBDA };

    /// For S3, whose objects are read piece by piece and have a limit of their own: errors alone are limited.
    pub(crate) const S3: Self = Self {
        success: usize::MAX,
    };
}

impl Intercept for AnswerLimit {
    fn name(&self) -> &'static str {
        "AnswerLimit"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response_mut();
        let most = match answer.status().is_success() {
            true => self.success,
            false => ERROR,
        };
        let body = std::mem::replace(answer.body_mut(), SdkBody::taken());
        *answer.body_mut() = SdkBody::from_body_1_x(Limited::new(body, most));
        Ok(())
    }
}
