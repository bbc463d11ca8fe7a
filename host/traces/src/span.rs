//! Spans that are recorded and sent.

use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task;
use std::time::Duration;

use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt,
    TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};

use crate::describe::{Attributes, Kind, Start, Under, Value};
use crate::otlp::Otlp;
use crate::{Creation, Settings, StartError, TraceContext};

/// The one exporter of the process.
static OTLP: OnceLock<Otlp> = OnceLock::new();

/// Whether spans are recorded now.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Starts to record and to send spans, unless this process does so already. The exporter of gRPC belongs to the async runtime in which this is called.
pub fn start(settings: Settings) -> Result<(), StartError> {
    if OTLP.get().is_none() {
        let _ = OTLP.set(Otlp::start(settings)?);
    }
    IS_ON.store(true, Ordering::Release);
    Ok(())
}

/// Starts no more spans.
pub fn stop() {
    IS_ON.store(false, Ordering::Release);
}

/// Whether spans are recorded.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// Sends what has ended so far, for this long at most. Returns whether all of it was sent. Blocks: never call it on a thread of the async runtime.
pub fn flush(timeout: Duration) -> bool {
    OTLP.get().is_none_or(|otlp| otlp.flush(timeout))
}

/// A span, or nothing. It ends with [`end`](Self::end), or when nobody has it any more.
#[derive(Debug, Clone, Default)]
pub struct Span(Option<Context>);

impl Span {
    /// No span.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Starts a span. Nothing is evaluated while none are recorded.
    pub fn start<'a>(what: impl FnOnce() -> Start<'a>) -> Self {
        match OTLP.get().filter(|_| is_on()) {
            Some(otlp) => Self::started(otlp, what()),
            None => Self::none(),
        }
    }

    fn started(otlp: &Otlp, start: Start<'_>) -> Self {
        let Start {
            kind,
            at,
            under,
            links,
            others,
            since,
        } = start;
        let parent = match under {
            Under::Nothing => Context::new(),
            Under::Sender(creation) => {
                Context::new().with_remote_span_context(of_creation(&creation))
            }
            Under::Current => {
                match Context::map_current(|it| it.has_active_span().then(|| it.clone())) {
                    Some(current) => current,
                    None => return Self::none(),
                }
            }
        };
        let links = links.into_iter().map(|link| {
            let state = TraceState::default();
            Link::with_context(remote(link, state))
        });
        let mut builder = SpanBuilder::from_name(format!("{} {}", kind.operation(), at.name()))
            .with_kind(span_kind(kind))
            .with_links(links.collect());
        if let Some(since) = since {
            builder = builder.with_start_time(since);
        }
        let mut span = otlp.tracer.build_with_context(builder, &parent);
        for other in others {
            span.add_link(remote(other, TraceState::default()), Vec::new());
        }
        let span = Self(Some(parent.with_span(span)));
        span.record(|attributes| *attributes = at.attributes(kind));
        span
    }

    /// Adds attributes. Nothing is evaluated for a span that is not recorded.
    pub fn record(&self, add: impl FnOnce(&mut Attributes)) {
        let Some(context) = &self.0 else { return };
        let span = context.span();
        if !span.is_recording() {
            return;
        }
        let mut attributes = Attributes::default();
        add(&mut attributes);
        let attributes = attributes.0.into_iter().map(|(name, value)| match value {
            Value::Text(text) => KeyValue::new(name, text),
            Value::Number(number) => KeyValue::new(name, number),
            Value::Seconds(seconds) => KeyValue::new(name, seconds),
        });
        span.set_attributes(attributes);
    }

    /// Notes that it failed, with the code of the error. What the error says besides may come from the body of a message.
    pub fn fail(&self, code: &str) {
        self.record(|attributes| attributes.text("error.type", code));
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(code.to_owned()));
        }
    }

    /// Where it is; `None` if it is nothing.
    pub fn context(&self) -> Option<TraceContext> {
        let context = self.0.as_ref()?;
        of_span(context.span().span_context())
    }

    /// Runs a future inside of it.
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        Scoped {
            context: self.0.clone(),
            future,
        }
    }

    /// Ends it, now. What is inside of it may still run.
    pub fn end(&self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }
}

pin_project_lite::pin_project! {
    /// A future inside of a span.
    #[must_use = "it does nothing until it is polled"]
    pub struct Scoped<F> {
        context: Option<Context>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> task::Poll<F::Output> {
        let this = self.project();
        let _inside = this.context.clone().map(Context::attach);
        this.future.poll(cx)
    }
}

/// The span in whose scope this is called.
pub fn current() -> Option<Creation> {
    if !is_on() {
        return None;
    }
    Context::map_current(|current| {
        let span = current.span();
        let found = span.span_context();
        let state = found.trace_state().header();
        Some(Creation {
            context: of_span(found)?,
            state: (!state.is_empty()).then_some(state),
        })
    })
}

/// Runs a future in the scope in which this is called: for one that another task runs.
pub fn scope<F: Future>(future: F) -> Scoped<F> {
    Scoped {
        context: is_on().then(Context::current),
        future,
    }
}

fn of_creation(creation: &Creation) -> SpanContext {
    let state = creation.state.as_deref().and_then(|it| it.parse().ok());
    remote(creation.context, state.unwrap_or_default())
}

fn remote(context: TraceContext, state: TraceState) -> SpanContext {
    SpanContext::new(
        TraceId::from(context.trace),
        SpanId::from(context.span),
        TraceFlags::default().with_sampled(context.is_sampled),
        true,
        state,
    )
}

fn of_span(found: &SpanContext) -> Option<TraceContext> {
    found.is_valid().then(|| TraceContext {
        trace: u128::from_be_bytes(found.trace_id().to_bytes()),
        span: u64::from_be_bytes(found.span_id().to_bytes()),
        is_sampled: found.is_sampled(),
    })
}

fn span_kind(kind: Kind) -> SpanKind {
    match kind {
        Kind::Process => SpanKind::Consumer,
        Kind::Send | Kind::Redrive => SpanKind::Producer,
        Kind::Receive | Kind::Settle(_) | Kind::Invoke | Kind::Wake => SpanKind::Client,
        Kind::Decide => SpanKind::Internal,
    }
}
