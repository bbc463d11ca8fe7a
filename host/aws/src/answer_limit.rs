//! A limit on what is read of one answer of an AWS service. The SDK reads an answer whole before it looks at it, however long it is: a false endpoint could fill the host's memory.

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextMut;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use http_body_util::Limited;

/// The longest answer of SQS, in bytes: ten messages of 1 MiB, each character of which may be escaped as six.
const SQS: usize = 64 << 20;

/// The longest answer of Lambda, in bytes: a function's 6 MiB, with room.
const LAMBDA: usize = 16 << 20;

/// The longest answer that is an error, in bytes.
const ERROR: usize = 1 << 20;

/// An interceptor of the SDK's that ends an answer of too many bytes as one that can't be read.
#[derive(Debug, Clone, Copy)]
pub struct AnswerLimit {
    success: usize,
}

impl AnswerLimit {
    /// For SQS: 64 MiB.
    pub const SQS: Self = Self { success: SQS };

    /// For Lambda: 16 MiB.
    pub const LAMBDA: Self = Self { success: LAMBDA };

    /// For S3, whose objects are read piece by piece and have a limit of their own: errors alone are limited.
    pub const S3: Self = Self {
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
