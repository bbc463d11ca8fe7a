//! The bindings that wasmtime generates from `wit/policy.wit`, and conversions between its types and the host's own.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "most of it is generated"
)]

use backstop_core::decision;
use backstop_core::failure;

wasmtime::component::bindgen!({
    path: "wit",
    world: "policy-with-outage",
    imports: { default: trappable },
});

pub(super) use self::backstop::policy::{default_classifier, log, payload, types};
pub(super) use self::exports::backstop::policy::{
    backoff, classifier, dead_lettering, outage, settings,
};

impl From<&failure::Error> for types::Error {
    fn from(error: &failure::Error) -> Self {
        Self {
            code: error.code.clone(),
            message: error.message.clone(),
            status: error.status,
            retry_after: error.retry_after.map(|delay| delay.0),
            details: error.details.clone(),
        }
    }
}

impl From<&failure::Failure> for types::Failure {
    fn from(failure: &failure::Failure) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact for the next 285,000 years"
        )]
        let failed_at = failure.failed_at.0 as f64;
        Self {
            message_id: failure.message_id.clone(),
            source: failure.source.clone(),
            attempt: failure.attempt.get(),
            age: failure.age.0,
            failed_at,
            previous_delay: failure.previous_delay.map(|delay| delay.0),
            error: (&failure.error).into(),
            attributes: failure.attributes.clone(),
            random: failure.random,
        }
    }
}

impl From<&decision::ErrorClass> for types::ErrorClass {
    fn from(class: &decision::ErrorClass) -> Self {
        match class {
            decision::ErrorClass::Transient => Self::Transient,
            decision::ErrorClass::Throttled => Self::Throttled,
            decision::ErrorClass::Permanent => Self::Permanent,
            decision::ErrorClass::Other(name) => Self::Other(name.clone()),
        }
    }
}

impl From<types::ErrorClass> for decision::ErrorClass {
    fn from(class: types::ErrorClass) -> Self {
        match class {
            types::ErrorClass::Transient => Self::Transient,
            types::ErrorClass::Throttled => Self::Throttled,
            types::ErrorClass::Permanent => Self::Permanent,
            types::ErrorClass::Other(name) => Self::Other(name),
        }
    }
}
