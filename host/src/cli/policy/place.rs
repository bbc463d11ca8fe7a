//! Where a policy is pushed to and pulled from: a repository of an OCI registry, or a key of an S3 bucket; and the flags that say how to get there.

use std::fmt;
use std::str::FromStr;

use clap::Parser;

use crate::policy::{Bucket, Reference, Registry};
use crate::queue::Connections;

/// A policy's place outside this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// `oci://REGISTRY/REPOSITORY[:TAG][@sha256:MANIFEST]`.
    Registry(Reference),
    /// `s3://BUCKET/KEY[@sha256:FILE]`.
    Bucket {
        bucket: String,
        key: String,
        /// The digest that the file has to have.
        pin: Option<String>,
    },
}

/// How registries and S3 are reached.
#[derive(Debug, Parser)]
pub(super) struct Reached {
    /// A registry that is spoken to without TLS, by its host or host and port; localhost always is. May be repeated
    #[arg(long, value_name = "HOST")]
    plain_http: Vec<String>,

    /// S3 at this URL in place of the region's own
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,
}

impl Reached {
    pub(super) fn registry(&self) -> Registry {
        Registry::new(self.plain_http.clone())
    }

    /// With an endpoint of its own, S3 has the bucket's name in the path: only AWS has a host for each bucket.
    pub(super) async fn bucket(&self) -> Bucket {
        let connections = Connections::new(self.endpoint_url.clone());
        let sdk = connections.sdk().await;
        Bucket::new(sdk, sdk.endpoint_url().is_some())
    }
}

impl Place {
    /// What its file is called when nothing else is said.
    pub(super) fn file_name(&self) -> String {
        let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
        match self {
            Self::Registry(reference) => format!("{}.wasm", last(reference.repository())),
            Self::Bucket { key, .. } => last(key),
        }
    }

    /// The same place, pinned to a digest: what a host can be given.
    pub(super) fn pinned(&self, digest: &str) -> String {
        match self {
            Self::Registry(reference) => {
                let tag = reference.tag().map(|tag| format!(":{tag}"));
                let (registry, repository) = (reference.registry(), reference.repository());
                let tag = tag.unwrap_or_default();
                format!("oci://{registry}/{repository}{tag}@{digest}")
            }
            Self::Bucket { bucket, key, .. } => format!("s3://{bucket}/{key}@{digest}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => write!(f, "oci://{reference}"),
            Self::Bucket { bucket, key, pin } => {
                write!(f, "s3://{bucket}/{key}")?;
                pin.iter().try_for_each(|pin| write!(f, "@{pin}"))
            }
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(reference) = text.strip_prefix("oci://") {
            return registry(reference);
        }
        if let Some(object) = text.strip_prefix("s3://") {
            return bucket(object);
        }
        Err(
            "expected oci://REGISTRY/REPOSITORY:TAG, such as oci://localhost:5000/policies/orders:1.0.0, or s3://BUCKET/KEY"
                .to_owned(),
        )
    }
}

fn registry(text: &str) -> Result<Place, String> {
    // Docker would take what has no registry for an image of its own hub.
    let host = text.split_once('/').map_or("", |(host, _)| host);
    if host != "localhost" && !host.contains(['.', ':']) {
        return Err(format!(
            "`{text}` names no registry; expected oci://REGISTRY/REPOSITORY:TAG, such as oci://localhost:5000/policies/orders:1.0.0"
        ));
    }
    let reference: Reference = text.parse().map_err(|error| format!("{error}"))?;
    match reference.digest() {
        Some(digest) if !is_sha256(digest) => Err(format!(
            "`{digest}` is not `sha256:` and 64 hexadecimal digits"
        )),
        _ => Ok(Place::Registry(reference)),
    }
}

fn bucket(text: &str) -> Result<Place, String> {
    let (object, pin) = match text.rsplit_once('@') {
        Some((object, pin)) if is_sha256(pin) => (object, Some(pin.to_owned())),
        _ => (text, None),
    };
    match object.split_once('/') {
        Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() && !key.ends_with('/') => {
            Ok(Place::Bucket {
                bucket: bucket.to_owned(),
                key: key.to_owned(),
                pin,
            })
        }
        _ => Err("expected s3://BUCKET/KEY, such as s3://policies/orders.wasm".to_owned()),
    }
}

fn is_sha256(digest: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let digits = digest.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.chars().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_tag_of_a_registry_or_a_key_of_a_bucket() {
        let pin = format!("sha256:{}", "a".repeat(64));
        for (text, name) in [
            (
                "oci://localhost:5000/policies/orders:1.0.0".to_owned(),
                Some("orders.wasm"),
            ),
            (
                "oci://ghcr.io/acme/orders:latest".to_owned(),
                Some("orders.wasm"),
            ),
            (
                format!("oci://ghcr.io/acme/orders:1@{pin}"),
                Some("orders.wasm"),
            ),
            (
                "s3://policies/team/orders.wasm".to_owned(),
                Some("orders.wasm"),
            ),
            (
                format!("s3://policies/orders.wasm@{pin}"),
                Some("orders.wasm"),
            ),
            ("s3://policies/a@b.wat".to_owned(), Some("a@b.wat")),
            ("oci://policies/orders:1".to_owned(), None),
            ("oci://ghcr.io/Acme/orders:1".to_owned(), None),
            (format!("oci://ghcr.io/acme/orders@{}", &pin[..60]), None),
            ("s3://policies".to_owned(), None),
            ("s3://policies/team/".to_owned(), None),
            ("s3:///orders.wasm".to_owned(), None),
            ("orders.wasm".to_owned(), None),
        ] {
            let place = text.parse::<Place>().ok();
            let found = place.as_ref().map(Place::file_name);
            assert_eq!(found.as_deref(), name, "{text}");
            assert!(place.is_none_or(|it| it.to_string() == text), "{text}");
        }
    }
}
