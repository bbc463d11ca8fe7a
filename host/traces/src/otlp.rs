//! Sends spans over OTLP, in a thread of its own and in batches. What can't be sent is dropped: neither a message nor the memory of the host has to do with a collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{self as sdk, SdkTracer, SdkTracerProvider, SpanData};

use crate::sampler::Linked;
use crate::{Settings, StartError};

/// The name of what makes the spans.
const SCOPE: &str = "backstop";

/// The spans of this process, and where they go.
#[derive(Debug)]
pub(crate) struct Otlp {
    provider: SdkTracerProvider,
    pub(crate) tracer: SdkTracer,
}

impl Otlp {
    /// Makes the exporter, with the standard variables.
    pub(crate) fn start(settings: Settings) -> Result<Self, StartError> {
        let exporter = SpanExporter::builder().build();
        let exporter = exporter.map_err(|error| StartError::Unusable(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Logged {
                exporter,
                has_failed: AtomicBool::new(false),
            })
            .with_sampler(Linked::of(settings.sampling))
            .with_resource(resource(&settings.service))
            .build();
        let tracer = provider.tracer(SCOPE);
        Ok(Self { provider, tracer })
    }

    /// Sends what has ended so far. The exporter has time-outs and repetitions of its own, so it is waited for in a thread of its own.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let provider = self.provider.clone();
        let (done, ended) = mpsc::sync_channel(1);
        let flushing = thread::Builder::new().name("traces-flush".to_owned());
        let flushing = flushing.spawn(move || {
            let _ = done.send(provider.force_flush().is_ok());
        });
        flushing.is_ok() && ended.recv_timeout(timeout).unwrap_or(false)
    }
}

/// What all spans say. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` precede.
fn resource(service: &str) -> Resource {
    let own = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", service.to_owned()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .build();
    let of_environment = Resource::builder().build();
    let is_unknown = |value: &str| value.starts_with("unknown_service");
    let given = of_environment
        .iter()
        .filter(|(key, value)| key.as_str() != "service.name" || !is_unknown(&value.as_str()))
        .map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let given: Vec<_> = given.collect();
    let own = own
        .iter()
        .map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    // The later ones replace the earlier ones.
    let all: Vec<_> = own.chain(given).collect();
    Resource::builder_empty().with_attributes(all).build()
}

/// An exporter whose first failure is logged, and the success after it.
#[derive(Debug)]
struct Logged {
    exporter: SpanExporter,
    has_failed: AtomicBool,
}

impl sdk::SpanExporter for Logged {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        let has_failed = self.has_failed.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !has_failed => {
                tracing::warn!(%error, "traces can't be sent: they are dropped until that works");
            }
            Ok(()) if has_failed => tracing::info!("traces are sent again"),
            Err(_) | Ok(()) => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
