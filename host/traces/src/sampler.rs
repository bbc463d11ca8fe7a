//! Which traces are recorded. A retry after hours begins a trace with a link to the one before: it is recorded if what its first link leads to is, so that a message is recorded as a whole or not at all.

use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingResult, ShouldSample};

use crate::settings::Sampling;

/// The sampler of the process.
#[derive(Debug, Clone)]
pub(crate) struct Linked {
    /// For what has neither a parent nor a link, and for all if the parent is not respected.
    of_root: Sampler,
    respects_parent: bool,
}

impl Linked {
    pub(crate) fn of(sampling: Sampling) -> Self {
        Self {
            of_root: if sampling.ratio >= 1.0 {
                Sampler::AlwaysOn
            } else {
                Sampler::TraceIdRatioBased(sampling.ratio)
            },
            respects_parent: sampling.respects_parent,
        }
    }
}

impl ShouldSample for Linked {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let of_parent = parent.and_then(|parent| {
            let span = parent.span();
            let context = span.span_context();
            context.is_valid().then(|| context.is_sampled())
        });
        let of_links = || links.first().map(|link| link.span_context.is_sampled());
        let sampler = match of_parent.or_else(of_links) {
            Some(true) if self.respects_parent => &Sampler::AlwaysOn,
            Some(false) if self.respects_parent => &Sampler::AlwaysOff,
            Some(_) | None => &self.of_root,
        };
        sampler.should_sample(parent, trace, name, kind, attributes, links)
    }
}
