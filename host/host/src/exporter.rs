//! Metrics for Prometheus: recorded in memory, and served as text at an address that the operator names.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::lock;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::http_server::{self, App, FullResponse};
use crate::telemetry::{self, Kind, METRICS};

/// How often recorded measurements are folded into their buckets when nobody reads them.
const UPKEEP: Duration = Duration::from_secs(5);

/// The content type of the text format.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why metrics can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The address is in use, or not one of this machine.
    #[error("can't serve metrics at {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The program has already installed another metrics recorder.
    #[error("can't serve metrics: {0}")]
    Taken(String),
}

/// The metrics of this process, recorded from its creation on.
pub(crate) struct Recording(PrometheusHandle);

impl Recording {
    /// Starts to record, unless the process records already.
    pub(crate) fn start() -> Result<Self, ExporterError> {
        recorder().map(Self).map_err(ExporterError::Taken)
    }

    /// The page with the metrics. Each read calls `update` first.
    pub(crate) fn page(self, update: impl Fn() + Send + Sync + 'static) -> Arc<Page> {
        let Self(metrics) = self;
        telemetry::create_admin_counters();
        let mut upkeep = JoinSet::new();
        let folded = metrics.clone();
        upkeep.spawn(async move {
            let mut ticks = interval(UPKEEP);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                folded.run_upkeep();
            }
        });
        Arc::new(Page {
            metrics,
            update: Box::new(update),
            _upkeep: upkeep,
        })
    }
}

/// The text that Prometheus reads.
pub(crate) struct Page {
    metrics: PrometheusHandle,
    update: Box<dyn Fn() + Send + Sync>,
    _upkeep: JoinSet<()>,
}

backstop_core::shown!(Page);

impl Page {
    /// The metrics now.
    pub(crate) fn render(&self) -> String {
        (self.update)();
        self.metrics.render()
    }
}

/// A listening socket for metrics.
#[derive(Debug)]
pub(crate) struct Exporter(TcpListener);

impl Exporter {
    /// Listens. Early requests wait for [`Exporter::serve`].
    pub(crate) async fn start(address: SocketAddr) -> Result<Self, ExporterError> {
        let failed = |cause| ExporterError::Address { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!("serving metrics at http://{address}/metrics");
        Ok(Self(listener))
    }

    /// Serves `GET /metrics` until the set is dropped.
    pub(crate) fn serve(self, page: Arc<Page>) -> JoinSet<()> {
        let pages = move |path: &str| (path == "/metrics").then(|| page.render());
        let mut tasks = JoinSet::new();
        tasks.spawn(http_server::serve(self.0, app(pages)));
        tasks
    }
}

/// Answers with the text at a path, if there is one.
fn app(pages: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> App {
    Arc::new(move |request, _| {
        let response = answer(&request, &pages);
        Box::pin(async move { response })
    })
}

fn answer<B>(request: &Request<B>, pages: impl Fn(&str) -> Option<String>) -> FullResponse {
    let path = request.uri().path();
    let (status, header, text) = match (request.method(), pages(path)) {
        (_, None) => (StatusCode::NOT_FOUND, None, String::new()),
        (&Method::GET | &Method::HEAD, Some(text)) => {
            (StatusCode::OK, Some((CONTENT_TYPE, TEXT)), text)
        }
        (_, Some(_)) => (
            StatusCode::METHOD_NOT_ALLOWED,
            Some((ALLOW, "GET, HEAD")),
            String::new(),
        ),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    if let Some((name, value)) = header {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The recorder of this process, installed at the first call.
fn recorder() -> Result<PrometheusHandle, String> {
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    let mut installed = lock(&INSTALLED);
    if let Some(metrics) = installed.as_ref() {
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
    *installed = Some(metrics.clone());
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_paths_and_methods_are_rejected() {
        let pages = |path: &str| (path == "/metrics").then(|| "up 1\n".to_owned());
        for (method, path, status) in [
            (Method::GET, "/", StatusCode::NOT_FOUND),
            (Method::POST, "/metrics", StatusCode::METHOD_NOT_ALLOWED),
            (Method::HEAD, "/metrics", StatusCode::OK),
            (Method::GET, "/metrics?debug", StatusCode::OK),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .body(())
                .unwrap();
            assert_eq!(answer(&request, pages).status(), status, "{path}");
        }
    }
}
