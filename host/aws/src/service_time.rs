//! When a service answered, by its own clock: the `Date` of its responses.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_smithy_runtime_api::client::interceptors::{Intercept, SharedInterceptor};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use backstop_core::clock;
use backstop_core::failure::Timestamp;

/// What a service said about its time in one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The service's time, cut to the second.
    pub time: Timestamp,
    /// When the request was sent.
    pub sent: Instant,
    /// When its response had come.
    pub received: Instant,
}

/// An SDK interceptor that reports what a service says about its time. An error is no answer: a proxy may have made it.
#[derive(Clone)]
pub struct ServiceTime(Arc<dyn Fn(Answered) + Send + Sync>);

impl ServiceTime {
    /// Calls `report` for each successful response with a `Date`.
    pub fn new(report: impl Fn(Answered) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }
}

impl fmt::Debug for ServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceTime")
    }
}

impl From<ServiceTime> for SharedInterceptor {
    /// An interceptor that no configuration can turn off, so that no request has to look it up.
    fn from(time: ServiceTime) -> Self {
        Self::permanent(time)
    }
}

/// When a request was sent.
#[derive(Debug)]
struct Sent(Instant);

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

impl Intercept for ServiceTime {
    fn name(&self) -> &'static str {
        "ServiceTime"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(Sent(clock::instant()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let date = response.headers().get("date");
        if let (true, Some(time), Some(sent)) = (
            response.status().is_success(),
            date.and_then(timestamp),
            bag.load::<Sent>(),
        ) {
            let received = clock::instant();
            (self.0)(Answered {
                time,
                sent: sent.0,
                received,
            });
        }
        Ok(())
    }
}

/// A date of HTTP (RFC 9110, section 5.6.7).
fn timestamp(date: &str) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(date).ok()?;
    let since: Duration = date.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp(u64::try_from(since.as_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_to_the_second() {
        let date = "Wed, 21 Oct 2015 07:27:30 GMT";
        assert_eq!(timestamp(date), Some(Timestamp(1_445_412_450_000)));
        for other in ["", "1445412450", "soon", "Wed, 21 Oct 1915 07:27:30 GMT"] {
            assert_eq!(timestamp(other), None, "{other}");
        }
    }
}
