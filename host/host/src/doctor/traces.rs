//! Checks whether traces would be sent, and whether a collector listens there.

use std::time::Duration;

use backstop_traces::{Settings, Wish};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::{Finding, Findings, Severity};
use crate::text::chain;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Reports what a host would do with traces; nothing if it would send none.
pub(super) async fn examine(wish: Option<Wish>) -> Vec<Finding> {
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    let mut findings = Findings::about("traces".to_owned());
    match Settings::of(wish, "backstop", &variable) {
        Ok(None) => {}
        Ok(Some(_)) if !cfg!(feature = "traces") => {
            let text = chain(&backstop_traces::StartError::NotBuilt);
            findings.add(Severity::Wrong, text);
        }
        Ok(Some(_)) => {
            let endpoint = endpoint(&variable);
            if is_reachable(&endpoint).await {
                let text = format!("are sent to {endpoint}, where a server listens");
                findings.add(Severity::Good, text);
            } else {
                findings.add(
                    Severity::Warning,
                    format!(
                        "nobody listens at {endpoint}: traces are dropped until a collector does; set OTEL_EXPORTER_OTLP_ENDPOINT"
                    ),
                );
            }
        }
        Err(error) => findings.add(Severity::Wrong, chain(&error)),
    }
    findings.found
}

/// Where they are sent, by the variables.
fn endpoint(variable: &dyn Fn(&str) -> Option<String>) -> String {
    let of_traces = |name: &str| {
        let own = name.replace("OTLP", "OTLP_TRACES");
        variable(&own).or_else(|| variable(name))
    };
    of_traces("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| {
        let protocol = of_traces("OTEL_EXPORTER_OTLP_PROTOCOL");
        let port = if protocol.as_deref() == Some("grpc") {
            4317
        } else {
            4318
        };
        format!("http://localhost:{port}")
    })
}

async fn is_reachable(endpoint: &str) -> bool {
    let url = Url::parse(endpoint).ok();
    let place = url.as_ref().and_then(|url| {
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        Some((host, url.port_or_known_default()?))
    });
    match place {
        Some(place) => timeout(CONNECT, TcpStream::connect(place))
            .await
            .is_ok_and(|it| it.is_ok()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_for_traces_precedes_that_for_all_signals() {
        let of = |variables: &[(&str, &str)]| {
            endpoint(&|name| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:2");
        assert_eq!(of(&[all]), "http://a:1");
        assert_eq!(of(&[all, own]), "http://b:2");
        assert_eq!(of(&[]), "http://localhost:4318");
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        assert_eq!(of(&[grpc]), "http://localhost:4317");
    }

    #[tokio::test]
    async fn a_collector_is_reached_by_its_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        assert!(is_reachable(&url).await);
        drop(listener);
        assert!(!is_reachable(&url).await);
        assert!(!is_reachable("collector:4318").await);
    }
}
