//! Traces of messages: the [trace context](context) that a message carries from its sender, and the [`Span`]s of what is done with it.
//!
//! Trace context is read and passed on in any build. With the feature `otlp`, and once [`start`] was called, spans are recorded and sent to an OpenTelemetry collector. Without the feature, a [`Span`] has no size, and what describes it is never evaluated.
//!
//! Spans are made with OpenTelemetry's own interface and not out of the spans of the log: those have neither links nor a parent in another process, and whoever filters the log must not lose a trace.

pub mod context;
mod creation;
mod describe;
#[doc(hidden)]
pub mod disabled;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod sampler;
mod settings;
#[cfg(feature = "otlp")]
mod span;

pub use context::TraceContext;
pub use creation::{Creation, TRACEPARENT, TRACESTATE, Variables};
pub use describe::{Attributes, Destination, Kind, Start, Under, Value};
#[cfg(not(feature = "otlp"))]
pub use disabled::{Scoped, Span, current, flush, is_on, scope, start, stop};
pub use settings::{Sampling, Settings, StartError, Wish};
#[cfg(feature = "otlp")]
pub use span::{Scoped, Span, current, flush, is_on, scope, start, stop};
