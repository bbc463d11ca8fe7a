//! Where a policy is pushed to and pulled from: a repository of an OCI registry, or a key of an S3 bucket; and the flags that say how to get there.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use clap::Parser;

use backstop::config::parse_endpoint;
use backstop::policy::{Location, Remotes, Source};

/// A policy's place outside this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote(pub(super) Source);

/// How registries and S3 are reached.
#[derive(Debug, Parser)]
pub(super) struct Reached {
    /// A registry that is spoken to without TLS, by its host or host and port; localhost always is. May be repeated
    #[arg(long, value_name = "HOST")]
    plain_http: Vec<String>,

    /// S3 at this URL in place of the region's own
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    endpoint_url: Option<String>,
}

impl Reached {
    pub(super) fn remotes(&self) -> Remotes {
        Remotes::new(self.endpoint_url.clone(), self.plain_http.clone())
    }
}

impl Remote {
    /// What its file is called when nothing else is said.
    pub(super) fn file_name(&self) -> String {
        let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
        match &self.0.location {
            Location::Registry(reference) => format!("{}.wasm", last(reference.repository())),
            Location::S3 { key, .. } => last(key),
            Location::Builtin(_) | Location::Path(_) => last(&self.0.to_string()),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with("oci://") && !text.starts_with("s3://") {
            return Err(
                "expected oci://REGISTRY/REPOSITORY:TAG, such as oci://localhost:5000/policies/orders:1.0.0, or s3://BUCKET/KEY"
                    .to_owned(),
            );
        }
        let source = Source::parse(text, Path::new("")).map_err(|error| error.to_string())?;
        Ok(Self(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_tag_of_a_registry_or_a_key_of_a_bucket() {
        let pin = format!("sha256:{}", "a".repeat(64));
        for (text, name) in [
            ("oci://localhost:5000/policies/orders:1", "orders.wasm"),
            ("oci://registry.example.com/orders:latest", "orders.wasm"),
            (&format!("oci://localhost/a/orders:1@{pin}"), "orders.wasm"),
            ("s3://policies/team/orders.wasm", "orders.wasm"),
            (&format!("s3://policies/orders.wasm@{pin}"), "orders.wasm"),
            ("s3://policies/a@b.wat", "a@b.wat"),
        ] {
            let place: Remote = text.parse().unwrap();
            assert_eq!(place.file_name(), name, "{text}");
            assert_eq!(place.to_string(), text);
        }
        for text in [
            "oci://policies/orders:1",
            "s3://policies",
            "orders.wasm",
            "",
        ] {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
    }
}
