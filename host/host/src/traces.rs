//! Traces: started once for the process, as the configuration and the environment say, and flushed at the end.

use std::sync::Mutex;
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_traces::{Settings, Wish, flush, start as start_sending};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

pub use backstop_traces::StartError;

/// How long the end of a host waits for its last spans to be sent: with the longest shutdown, 30 s in total.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the end of a batch waits for its spans to be sent.
const BATCH_TIMEOUT: Duration = Duration::from_millis(500);

/// How long nothing waits for a collector that did not take the spans of a batch.
const REST: Duration = Duration::from_secs(60);

/// Sends spans from now on, if they are wanted. `service` is the name of this program, if `OTEL_SERVICE_NAME` has none.
pub fn start(wish: Option<Wish>, service: &str) -> Result<(), StartError> {
    let variable = |name: &str| std::env::var(name).ok();
    match Settings::of(wish, service, &variable)? {
        Some(settings) => {
            start_sending(settings)?;
            tracing::info!("traces are sent over OTLP");
        }
        None => {
            let endpoints = [
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            ];
            let has_endpoint = endpoints.into_iter().any(|name| variable(name).is_some());
            if wish.is_none() && has_endpoint && variable("OTEL_TRACES_EXPORTER").is_none() {
                tracing::info!(
                    "the environment names a collector, but no traces are sent to it: set traces or OTEL_TRACES_EXPORTER to otlp"
                );
            }
        }
    }
    Ok(())
}

/// Sends the spans of a batch, before Lambda freezes the process. After a failure, a minute passes without another try: each would be paid for.
pub async fn flush_batch(left: Duration) {
    static FAILED: Mutex<Option<Instant>> = Mutex::new(None);
    let rests = lock(&FAILED).is_some_and(|failed| failed.elapsed() < REST);
    if !backstop_traces::is_on() || rests {
        return;
    }
    let timeout = BATCH_TIMEOUT.min(left / 2);
    let is_flushed = spawn_blocking(move || flush(timeout)).await;
    *lock(&FAILED) = (!is_flushed.unwrap_or(false)).then(Instant::now);
}

/// Sends the last spans, within a deadline: a collector that does not answer costs the end of a host this long at most.
pub async fn end() {
    if backstop_traces::is_on() {
        let flushing = spawn_blocking(|| flush(FLUSH_TIMEOUT)).await;
        if !flushing.unwrap_or(false) {
            tracing::warn!("the last spans may be lost: they could not be sent in time");
        }
    }
}
