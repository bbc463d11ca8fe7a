//! Metrics for Prometheus: kept in memory, and served as text on an address of the operator's.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::telemetry::{self, Kind, METRICS, Versions};

/// How often what was measured is folded into its buckets, where nobody reads it.
const UPKEEP: Duration = Duration::from_secs(5);

/// The text format, by its version.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why metrics can't be had.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// Somebody else listens there, or it is no address of this machine's.
    #[error("can't serve metrics at {address}")]
    Address {
        /// Where they should have been.
        address: SocketAddr,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// The program around this library keeps metrics in its own way.
    #[error("can't serve metrics: {0}")]
    Taken(String),
}

/// An address that is listened on, and the metrics to be served there. From its start on, what is counted is kept.
pub(crate) struct Exporter {
    listener: TcpListener,
    metrics: PrometheusHandle,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exporter").field(&self.listener).finish()
    }
}

impl Exporter {
    /// Listens, and begins to keep what is counted. Whoever asks already waits for [`Exporter::serve`].
    pub(crate) async fn start(address: SocketAddr) -> Result<Self, ExporterError> {
        let refused = |cause| ExporterError::Address { address, cause };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let metrics = keep().map_err(ExporterError::Taken)?;
        let address = listener.local_addr().map_err(refused)?;
        tracing::info!("metrics are at http://{address}/metrics");
        Ok(Self { listener, metrics })
    }

    /// Answers `GET /metrics` until the set is dropped.
    pub(crate) fn serve(self, versions: Versions) -> JoinSet<()> {
        let Self { listener, metrics } = self;
        let mut tasks = JoinSet::new();
        let kept = metrics.clone();
        tasks.spawn(async move {
            let mut ticks = interval(UPKEEP);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                kept.run_upkeep();
            }
        });
        let versions = Arc::new(versions);
        let answer = move || {
            let (versions, metrics) = (Arc::clone(&versions), metrics.clone());
            async move {
                versions.tell();
                ([(CONTENT_TYPE, TEXT)], metrics.render())
            }
        };
        tasks.spawn(async move {
            let router = Router::new().route("/metrics", get(answer));
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "metrics are no longer served");
            }
        });
        tasks
    }
}

/// The metrics of this process: one set, however often it is asked for.
fn keep() -> Result<PrometheusHandle, String> {
    static KEPT: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(metrics) = kept.as_ref() {
        return Ok(metrics.clone());
    }
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if let Kind::Histogram(bounds) = metric.kind {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder
                .set_buckets_for_metric(name, bounds)
                .map_err(|error| error.to_string())?;
        }
    }
    let recorder = builder.build_recorder();
    let metrics = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    telemetry::describe();
    *kept = Some(metrics.clone());
    Ok(metrics)
}
