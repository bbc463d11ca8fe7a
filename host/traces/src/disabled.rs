//! Spans of a build without the feature `otlp`: they have no size, and nothing that describes them is evaluated.

use std::time::Duration;

use crate::{Attributes, Creation, Settings, Start, StartError, TraceContext};

/// Says that this build sends no spans.
pub fn start(_: Settings) -> Result<(), StartError> {
    Err(StartError::NotBuilt)
}

/// Does nothing.
pub fn stop() {}

/// No spans are recorded.
pub const fn is_on() -> bool {
    false
}

/// There is nothing to send.
pub const fn flush(_: Duration) -> bool {
    true
}

/// No span.
#[derive(Debug, Clone, Default)]
pub struct Span;

impl Span {
    /// No span.
    pub const fn none() -> Self {
        Self
    }

    /// No span.
    #[inline]
    pub fn start<'a>(_: impl FnOnce() -> Start<'a>) -> Self {
        Self
    }

    /// Does nothing.
    #[inline]
    pub fn record(&self, _: impl FnOnce(&mut Attributes)) {}

    /// Does nothing.
    #[inline]
    pub const fn fail(&self, _: &str) {}

    /// Nowhere.
    #[inline]
    pub const fn context(&self) -> Option<TraceContext> {
        None
    }

    /// The future itself.
    #[inline]
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        future
    }

    /// Does nothing.
    #[inline]
    pub const fn end(&self) {}
}

/// The future itself.
pub type Scoped<F> = F;

/// There is none.
pub const fn current() -> Option<Creation> {
    None
}

/// The future itself.
#[inline]
pub fn scope<F: Future>(future: F) -> Scoped<F> {
    future
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Kind, Under};

    #[test]
    fn a_span_has_no_size_and_nothing_of_it_is_evaluated() {
        assert_eq!(size_of::<Span>(), 0);
        let at = Destination::queue("local:try");
        let mut evaluated = 0;
        let span = Span::start(|| {
            evaluated += 1;
            Start::new(Kind::Process, &at, Under::Nothing)
        });
        span.record(|_| evaluated += 1);
        span.fail("Timeout");
        assert_eq!((evaluated, span.context(), is_on()), (0, None, false));
        let future = async { 7 };
        let bytes = size_of_val(&future);
        assert_eq!(size_of_val(&span.scope(future)), bytes);
    }
}
