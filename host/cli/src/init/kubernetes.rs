//! The manifests of `examples/operate/kubernetes`, for a queue of the person's own.

use clap::ValueEnum;

use super::files::Files;
use super::given::Given;
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
        let parts: Vec<_> = seen.arn.split(':').collect();
        let [_, _, _, region, account, _] = parts[..] else {
            return Err(Exit::Usage.because(format!(
                "--kubernetes needs a queue in SQS, and {} is in memory",
                given.url
            )));
        };
        let own = match self {
            Self::Sidecar => SIDECAR,
            Self::Deployment => DEPLOYMENT,
        };
        let name = label(&given.name);
        for (path, text) in BASE.iter().chain(own) {
            let text = text
                .replace("examples/operate/", "")
                .replace("orders", &name)
                .replace("eu-west-1", region)
                .replace("123456789012", account);
            files.add(format!("kubernetes/{path}"), text);
        }
        let path = format!("kubernetes/{}/{DEFAULT_CONFIG}", self.name());
        files.add(path, text);
        Ok(())
    }
}

/// A name as objects of Kubernetes have it.
fn label(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name: String = name
        .to_lowercase()
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .take(40)
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "queue" } else { name }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_no_character_that_kubernetes_refuses() {
        for (name, expected) in [
            ("orders", "orders"),
            ("Orders_EU.dead", "orders-eu-dead"),
            ("--", "queue"),
            ("ü", "queue"),
        ] {
            assert_eq!(label(name), expected);
        }
    }
}
