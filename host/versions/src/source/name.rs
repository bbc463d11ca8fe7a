//! The names of policies: `full-jitter`, a path, `s3://…`, `oci://…`, each with or without a pin.

use std::fmt;
use std::path::{Path, PathBuf};

use backstop_engine::{PolicyDigest, builtin};

use super::error::SourceError;
use super::file::{MANIFEST, is_policy_file};
use super::oci::{self, Reference};

/// The name of one component: its location and, if pinned, its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The location.
    pub location: Location,
    /// The digest that the file must have: `@sha256:…`. For a registry, the pin is part of the reference.
    pub pin: Option<PolicyDigest>,
}

/// The location of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A built-in policy, which is part of this program.
    Builtin(&'static str),
    /// A file (a component, a core module or text), or a folder of such files, of which the last by name is used.
    Path(PathBuf),
    /// An object in S3.
    S3 {
        /// The bucket's name.
        bucket: String,
        /// The object's key.
        key: String,
    },
    /// An artifact in an OCI registry, by tag or by the digest of its manifest.
    Registry(Reference),
}

const S3: &str = "an object of S3 such as s3://bucket/orders.wasm, which may be pinned with @sha256: and 64 hexadecimal digits";
const OCI: &str = "an artifact such as oci://registry.example.com/policies/orders:1.2, which may be pinned with @sha256: and the digest of its manifest";
const PIN: &str = "a pin of `@sha256:` and 64 hexadecimal digits, of which logs show the first twelve (`backstop policy inspect` shows all)";
const SCHEME: &str = "a built-in policy, a path, s3://bucket/key or oci://registry/repository:tag";

impl Source {
    /// A built-in policy.
    pub fn builtin(name: &'static str) -> Self {
        Location::Builtin(name).into()
    }

    /// A file, or a folder of versions.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Location::Path(path.into()).into()
    }

    /// Parses a name: one of the built-in policies; `s3://bucket/key`; `oci://registry/repository:tag`; or a path, which has a separator or ends in `.wasm` or `.wat`. Each may be pinned: `@sha256:…`. Relative paths start at `folder`.
    pub fn parse(name: &str, folder: &Path) -> Result<Self, SourceError> {
        let wrong = |expected| SourceError::Name {
            name: name.to_owned(),
            expected,
        };
        if let Some(reference) = name.strip_prefix("oci://") {
            if cfg!(not(feature = "oci")) {
                return Err(SourceError::Unsupported {
                    name: name.to_owned(),
                    feature: "oci",
                });
            }
            let artifact = oci::of_a_registry(reference).ok_or_else(|| wrong(OCI))?;
            return Ok(Location::Registry(artifact).into());
        }
        let (plain, pin) = match name.rsplit_once('@') {
            Some((plain, digest)) if digest.starts_with("sha256:") => {
                let pin: PolicyDigest = digest.parse().map_err(|_| wrong(PIN))?;
                (plain, Some(pin))
            }
            Some(_) | None => (name, None),
        };
        let location = if let Some(address) = plain.strip_prefix("s3://") {
            let (bucket, key) = address.split_once('/').ok_or_else(|| wrong(S3))?;
            if bucket.is_empty() || key.is_empty() || key.ends_with('/') {
                return Err(wrong(S3));
            }
            Location::S3 {
                bucket: bucket.to_owned(),
                key: key.to_owned(),
            }
        } else if plain.contains("://") {
            return Err(wrong(SCHEME));
        } else if let Some(known) = builtin::names().find(|known| *known == plain) {
            Location::Builtin(known)
        } else if is_policy_file(Path::new(plain)) || plain.contains(std::path::is_separator) {
            Location::Path(folder.join(plain))
        } else {
            return Err(unknown(name, plain, folder));
        };
        Ok(Self { location, pin })
    }

    /// Whether it names the same bytes forever.
    pub fn is_pinned(&self) -> bool {
        match &self.location {
            Location::Builtin(_) => true,
            Location::Path(_) | Location::S3 { .. } => self.pin.is_some(),
            Location::Registry(reference) => reference.digest().is_some(),
        }
    }

    /// Whether it is reached over the network.
    pub fn is_remote(&self) -> bool {
        matches!(self.location, Location::S3 { .. } | Location::Registry(_))
    }

    /// The same name with the pin of a [`Fetched`](super::Fetched) or of a push.
    pub fn pinned(&self, pin: &str) -> String {
        let name = Self::from(self.location.clone()).to_string();
        let name = match &self.location {
            // Its own pin is part of the reference.
            Location::Registry(_) => name.split_once('@').map_or(name.as_str(), |it| it.0),
            Location::Builtin(_) | Location::Path(_) | Location::S3 { .. } => &name,
        };
        format!("{name}@{pin}")
    }

    /// The same name from any working directory.
    pub(crate) fn absolute(&self) -> String {
        match &self.location {
            Location::Path(path) => match std::path::absolute(path) {
                Ok(path) => Self {
                    location: Location::Path(path),
                    pin: self.pin,
                }
                .to_string(),
                Err(_) => self.to_string(),
            },
            Location::Builtin(_) | Location::S3 { .. } | Location::Registry(_) => self.to_string(),
        }
    }
}

impl From<Location> for Source {
    fn from(location: Location) -> Self {
        Self {
            location,
            pin: None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::Builtin(name) => f.write_str(name),
            Location::Path(path) => path.display().fmt(f),
            Location::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
            Location::Registry(reference) => write!(f, "oci://{reference}"),
        }?;
        match self.pin {
            Some(pin) => write!(f, "@{pin}"),
            None => Ok(()),
        }
    }
}

/// Why a name is none: `plain` is it without a pin.
fn unknown(name: &str, plain: &str, folder: &Path) -> SourceError {
    let built = PathBuf::from(format!("./{plain}/build/{plain}.wasm"));
    let is_built = folder.join(&built).is_file();
    if is_built || folder.join(plain).join(MANIFEST).is_file() {
        return SourceError::Folder {
            name: plain.to_owned(),
            built,
            is_built,
        };
    }
    SourceError::Unknown {
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parse(name: &str) -> Result<Source, SourceError> {
        Source::parse(name, Path::new("/etc/backstop"))
    }

    #[test]
    fn a_name_means_a_built_in_policy_or_a_path() {
        for (name, expected) in [
            ("full-jitter", Some(Source::builtin("full-jitter"))),
            (
                "orders.wasm",
                Some(Source::path("/etc/backstop/orders.wasm")),
            ),
            (
                "./full-jitter",
                Some(Source::path("/etc/backstop/./full-jitter")),
            ),
            ("policies/", Some(Source::path("/etc/backstop/policies/"))),
            ("/opt/p.wat", Some(Source::path("/opt/p.wat"))),
            ("a@b.wasm", Some(Source::path("/etc/backstop/a@b.wasm"))),
            ("ful-jitter", None),
            ("http://bucket/p.wasm", None),
            ("", None),
        ] {
            assert_eq!(parse(name).ok(), expected, "{name}");
        }
    }

    #[test]
    fn a_name_means_an_object_of_s3() {
        let source = parse("s3://policies/live/orders.wasm").unwrap();
        let location = Location::S3 {
            bucket: "policies".to_owned(),
            key: "live/orders.wasm".to_owned(),
        };
        assert_eq!(source, location.into());
        assert!(source.is_remote() && !source.is_pinned());
        for wrong in [
            "s3://",
            "s3://bucket",
            "s3://bucket/",
            "s3:///key",
            "s3://b/folder/",
        ] {
            assert!(
                parse(wrong)
                    .unwrap_err()
                    .to_string()
                    .contains("s3://bucket"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_name_means_an_artifact_of_a_registry_that_it_names() {
        for name in [
            "oci://registry.example.com/policies/orders:1.2",
            "oci://localhost/orders:latest",
            "oci://localhost:5000/orders:latest",
        ] {
            let source = parse(name).unwrap();
            assert_eq!(source.to_string(), name);
            assert!(source.is_remote() && !source.is_pinned());
        }
        let pinned = parse(&format!("oci://localhost:5000/orders@{DIGEST}")).unwrap();
        assert!(pinned.is_pinned());
        for wrong in [
            "oci://",
            "oci://orders",
            "oci://team/orders:1",
            "oci://localhost/UPPER:1",
            "oci://localhost/orders@sha512:00000000000000000000000000000000",
            "oci://localhost/orders@sha256:00000000000000000000000000000000",
        ] {
            assert!(
                parse(wrong)
                    .unwrap_err()
                    .to_string()
                    .contains("oci://registry"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn any_name_can_have_a_pin() {
        for name in [
            "linear",
            "./orders.wasm",
            "s3://bucket/orders.wasm",
            "s3://bucket/a@sha256:b/orders.wasm",
        ] {
            let source = parse(&format!("{name}@{DIGEST}")).unwrap();
            assert!(source.is_pinned(), "{name}");
            let plain = Source::from(source.location.clone()).to_string();
            assert_eq!(source.pin.unwrap().to_string(), DIGEST);
            assert!(source.to_string().ends_with(&format!("@{DIGEST}")));
            assert_eq!(source.pinned("sha256:0123"), format!("{plain}@sha256:0123"));
            let wrong = parse(&format!("{name}@sha256:abc")).unwrap_err();
            assert!(
                wrong.to_string().contains("64 hexadecimal digits"),
                "{wrong}"
            );
        }
    }
}
