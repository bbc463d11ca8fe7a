//! Addresses that policies are pushed to and pulled from: a tag of an OCI registry, or a key of an S3 bucket.

use std::path::Path;

use clap::Parser;

use backstop_host::config::parse_endpoint;
use backstop_versions::{Location, RegistryOptions, Remotes, Source};

/// How to connect to registries and to S3.
#[derive(Debug, Parser)]
pub(super) struct RemoteArgs {
    /// A registry to use without TLS, as HOST or HOST:PORT; may be repeated. localhost is always used without TLS
    #[arg(long, value_name = "HOST")]
    plain_http: Vec<String>,

    /// A server that may get a registry's credentials for a token, as HOST or HOST:PORT; may be repeated. The registry's own host always may
    #[arg(long = "token-server", value_name = "HOST")]
    token_servers: Vec<String>,

    /// Use the S3 at this URL, instead of the region's
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    endpoint_url: Option<String>,
}

impl RemoteArgs {
    pub(super) fn connect(&self) -> Remotes {
        let registries = RegistryOptions {
            plain_http: self.plain_http.clone(),
            token_servers: self.token_servers.clone(),
        };
        Remotes::new(self.endpoint_url.clone(), registries)
    }
}

/// Parses the address of a policy on another machine.
pub(super) fn parse_remote(text: &str) -> Result<Source, String> {
    if !text.starts_with("oci://") && !text.starts_with("s3://") {
        return Err(
            "expected oci://REGISTRY/REPOSITORY:TAG, such as oci://localhost:5000/policies/orders:1.0.0, or s3://BUCKET/KEY"
                .to_owned(),
        );
    }
    Source::parse(text, Path::new("")).map_err(|error| error.to_string())
}

/// The default name of the file of a policy on another machine.
pub(super) fn file_name(remote: &Source) -> String {
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    match &remote.location {
        Location::Registry(reference) => format!("{}.wasm", last(reference.repository())),
        Location::S3 { key, .. } => last(key),
        Location::Builtin(_) | Location::Path(_) => last(&remote.to_string()),
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_tag_of_a_registry_or_a_key_of_a_bucket() {
        let pin = format!("sha256:{}", "a".repeat(64));
        for (text, name) in [
            ("oci://localhost:5000/policies/orders:1", "orders.wasm"),
            ("oci://registry.example.com/orders:latest", "orders.wasm"),
            (&format!("oci://localhost/a/orders:1@{pin}"), "orders.wasm"),
            ("s3://policies/team/orders.wasm", "orders.wasm"),
            (&format!("s3://policies/orders.wasm@{pin}"), "orders.wasm"),
            ("s3://policies/a@b.wat", "a@b.wat"),
        ] {
            let remote = parse_remote(text).unwrap();
            assert_eq!(file_name(&remote), name, "{text}");
            assert_eq!(remote.to_string(), text);
        }
        for text in [
            "oci://policies/orders:1",
            "s3://policies",
            "orders.wasm",
            "",
        ] {
            assert!(parse_remote(text).is_err(), "{text}");
        }
    }
}
