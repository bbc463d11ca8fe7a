//! The manifests of `examples/operate/kubernetes`, for a queue of the person's own.

use clap::ValueEnum;

use super::files::Files;
use super::given::{Given, Handler};
use super::place::{Place, label};
use super::seen::Seen;
use crate::error::{Exit, Result};
use crate::hosts::DEFAULT_CONFIG;

/// Where the host runs in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Overlay {
    /// Beside each worker, in its pod
    Sidecar,
    /// In pods of its own
    Deployment,
}

/// The files of the manifests, by their path.
macro_rules! manifests {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../kubernetes/", $path)))),+]
    };
}

const BASE: &[(&str, &str)] = manifests![
    "base/kustomization.yaml",
    "base/network-policy.yaml",
    "base/service-account.yaml",
];

const SIDECAR: &[(&str, &str)] = manifests!["sidecar/kustomization.yaml", "sidecar/worker.yaml"];

const DEPLOYMENT: &[(&str, &str)] = manifests![
    "deployment/backstop.yaml",
    "deployment/disruption-budget.yaml",
    "deployment/egress.yaml",
    "deployment/kustomization.yaml",
    "deployment/service.yaml",
];

/// The port of the examples' workers.
const WORKER_PORT: &str = "8080";

/// The first lines of a configuration for a pod: the files are those of the manifests' secret.
const ADMIN: &str = r#"admin = "0.0.0.0:9465"
admin-token-file = "/run/secrets/backstop/token"
admin-view-token-file = "/run/secrets/backstop/view-token"
"#;

impl Overlay {
    /// The name of its folder.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Deployment => "deployment",
        }
    }

    /// What precedes the tables in the configuration of its pods.
    pub(super) fn head(self, given: &Given) -> String {
        match self {
            Self::Sidecar => ADMIN.to_owned(),
            Self::Deployment => {
                let name = format!("backstop-{}", label(&given.name));
                format!("{ADMIN}admin-hosts = [\"{name}\"]\nfleet = [\"dns+http://{name}:9465\"]\n")
            }
        }
    }

    /// Adds the manifests with the queue's name, region and account, and the configuration of the pods.
    pub(super) fn add(
        self,
        files: &mut Files,
        given: &Given,
        seen: &Seen,
        text: String,
    ) -> Result<()> {
        let is_file = |name: &str| name.starts_with('.') || name.starts_with('/');
        if matches!(given.handler, Handler::Exec(_)) || is_file(&given.policy) {
            return Err(Exit::Usage.because(
                "--kubernetes: the pods have no files of yours: give --http or --lambda, and a policy that is built in, in a registry (oci://) or in a bucket (s3://)",
            ));
        }
        let place = Place::of(given, seen, "--kubernetes")?;
        let own = match self {
            Self::Sidecar => SIDECAR,
            Self::Deployment => DEPLOYMENT,
        };
        for (path, text) in BASE.iter().chain(own) {
            let text = text.replace("examples/operate/", "");
            let text = match given.handler.port() {
                Some(port) => text.replace(WORKER_PORT, &port.to_string()),
                None => text,
            };
            files.add(format!("kubernetes/{path}"), place.named(&text));
        }
        let path = format!("kubernetes/{}/{DEFAULT_CONFIG}", self.name());
        files.add(path, text);
        Ok(())
    }
}
