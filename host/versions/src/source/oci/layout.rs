//! The bytes of a policy and its signature in a registry: the WebAssembly OCI artifact layout (config `application/vnd.wasm.config.v0+json`, one layer `application/wasm`), and a layout of our own for signatures. Nothing here sends requests.

use std::collections::BTreeMap;

use oci_spec::distribution::Reference;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wasm_metadata::{Metadata, Payload};
use wasmparser::Parser;

use crate::signature::SIGNATURE_SUFFIX;
use backstop_engine::{PolicyDigest, Shape, ShapeError, sections};

/// The media type of a manifest.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The media type of a policy's config.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// The media type of a policy.
const WASM: &str = "application/wasm";

/// The media type of a signature and of its artifact.
const SIGNATURE: &str = "application/vnd.backstop.minisig.v1";

/// The media type of an empty config, which is `{}`.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The kind of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactKind {
    /// A policy.
    Policy,
    /// The signature of a policy.
    Signature,
}

/// An artifact, ready to be pushed. The same file, annotations and time give the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The manifest, as JSON.
    pub manifest: Vec<u8>,
    /// The config, as JSON.
    pub config: Vec<u8>,
    /// The policy or its signature.
    pub layer: Vec<u8>,
}

/// Why a file can't be put into a registry.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The file is text, or not WebAssembly.
    #[error(
        "it is not in WebAssembly's binary format, which a registry requires; assemble text first, such as with `wasm-tools parse FILE -o policy.wasm`"
    )]
    NotBinary,
    /// The file exceeds the limits of every host.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// What an artifact consists of.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<String, String>>,
}

/// What there is in place of a manifest, if there is one for each platform.
#[derive(Deserialize)]
struct Index {
    #[serde(rename = "manifests")]
    _manifests: IgnoredAny,
}

/// The type, the digest and the size of a part of an artifact.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The type.
    pub media_type: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The size in bytes, as the manifest claims it.
    pub size: i64,
}

/// The config of `application/vnd.wasm.config.v0+json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [String; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<Interfaces>,
}

/// The exports and imports of a component.
#[derive(Serialize)]
struct Interfaces {
    exports: Vec<String>,
    imports: Vec<String>,
    /// The world that it is built for. Hosts ignore it.
    target: Option<String>,
}

impl Package {
    /// A policy: the file, with annotations from its own metadata, which `annotations` override. `created` is a parameter and not the current time, so that the same file has the same digest in every push.
    pub fn policy(
        file: Vec<u8>,
        annotations: BTreeMap<String, String>,
        created: jiff::Timestamp,
    ) -> Result<Self, PackageError> {
        let is_component = Parser::is_component(&file);
        if !is_component && !Parser::is_core_wasm(&file) {
            return Err(PackageError::NotBinary);
        }
        Shape::of(&file)?;
        let component = is_component.then(|| interfaces(&file)).transpose();
        let component = component.map_err(ShapeError::from)?;
        let payload = Payload::from_binary(&file).ok();
        let metadata = payload.as_ref().map(Payload::metadata);
        let mut annotations_of_file = metadata.map(described).unwrap_or_default();
        annotations_of_file.extend(annotations);
        let config = Config {
            created: created.to_string(),
            author: annotations_of_file
                .get("org.opencontainers.image.authors")
                .cloned(),
            architecture: "wasm",
            os: if is_component { "wasip2" } else { "wasip1" },
            layer_digests: [sha256(&file)],
            component,
        };
        Ok(Self::of(
            CONFIG,
            json(&config),
            WASM,
            file,
            None,
            annotations_of_file,
        ))
    }

    /// A signature: a separate artifact, because it covers the file and not one manifest.
    pub(super) fn signature(text: &str) -> Self {
        let (empty, layer) = (b"{}".to_vec(), text.as_bytes().to_vec());
        let none = BTreeMap::new();
        Self::of(EMPTY, empty, SIGNATURE, layer, Some(SIGNATURE), none)
    }

    fn of(
        config_type: &str,
        config: Vec<u8>,
        layer_type: &str,
        layer: Vec<u8>,
        artifact_type: Option<&str>,
        annotations: BTreeMap<String, String>,
    ) -> Self {
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            config: descriptor(config_type, &config),
            layers: vec![descriptor(layer_type, &layer)],
            artifact_type: artifact_type.map(str::to_owned),
            annotations: (!annotations.is_empty()).then_some(annotations),
        };
        Self {
            manifest: json(&manifest),
            config,
            layer,
        }
    }

    /// The digest of its manifest, by which it can be pinned.
    pub fn digest(&self) -> String {
        sha256(&self.manifest)
    }
}

impl ArtifactKind {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Policy => "a policy",
            Self::Signature => "a signature",
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Policy => WASM,
            Self::Signature => SIGNATURE,
        }
    }
}

/// `sha256:` and the digest of these bytes.
pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Whether this is `sha256:` and 64 hexadecimal digits in lower case, as [`sha256`] writes it. Only such a digest becomes part of a URL.
pub(in crate::source) fn is_digest(text: &str) -> bool {
    let parsed = text.parse::<PolicyDigest>();
    parsed.is_ok_and(|digest| digest.to_string() == text)
}

/// The reference of the signature of a policy's file: in the same repository, by the digest of the file.
pub(super) fn signature_of(reference: &Reference, file: &[u8]) -> Reference {
    let digest = PolicyDigest::of(file).to_string().replace(':', "-");
    Reference::with_tag(
        reference.registry().to_owned(),
        reference.repository().to_owned(),
        format!("{digest}{SIGNATURE_SUFFIX}"),
    )
}

/// The single layer of an artifact, or an explanation of why the manifest is invalid. The config may have any type: hosts do not need it, and tools differ.
pub fn layer(manifest: &[u8], kind: ArtifactKind) -> Result<Descriptor, String> {
    let read = serde_json::from_slice(manifest);
    let manifest: Manifest = read.map_err(|error| match serde_json::from_slice(manifest) {
        Ok(Index { .. }) => {
            "it is an index of images for several platforms; expected one manifest".to_owned()
        }
        Err(_) => format!("its manifest can't be read: {error}"),
    })?;
    let expected = kind.media_type();
    let count = manifest.layers.len();
    let mut layers = manifest.layers.into_iter();
    match (layers.next(), layers.next()) {
        (Some(layer), None) if layer.media_type == expected && !is_digest(&layer.digest) => {
            Err(format!(
                "its layer has the digest `{}`; expected `sha256:` and 64 hexadecimal digits",
                layer.digest
            ))
        }
        (Some(layer), None) if layer.media_type == expected => Ok(layer),
        (Some(layer), None) => Err(format!(
            "its layer is of the type `{}`; expected `{expected}`",
            layer.media_type
        )),
        _ => Err(format!("it has {count} layers; expected one, `{expected}`")),
    }
}

fn descriptor(media_type: &str, content: &[u8]) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: sha256(content),
        size: i64::try_from(content.len()).unwrap_or(i64::MAX),
    }
}

/// Structures of strings and numbers, which are always JSON.
fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The interfaces of a component, for its configuration.
fn interfaces(file: &[u8]) -> wasmparser::Result<Interfaces> {
    let (imports, exports) = sections::interfaces(file)?;
    Ok(Interfaces {
        imports: imports.iter().map(|it| it.name.name.to_owned()).collect(),
        exports: exports.iter().map(|it| it.name.name.to_owned()).collect(),
        target: None,
    })
}

/// The OCI annotations from a file's own metadata.
fn described(metadata: &Metadata) -> BTreeMap<String, String> {
    let found = [
        ("title", metadata.name.clone()),
        (
            "version",
            metadata.version.as_ref().map(ToString::to_string),
        ),
        (
            "description",
            metadata.description.as_ref().map(ToString::to_string),
        ),
        (
            "authors",
            metadata.authors.as_ref().map(ToString::to_string),
        ),
        (
            "licenses",
            metadata.licenses.as_ref().map(ToString::to_string),
        ),
        ("source", metadata.source.as_ref().map(ToString::to_string)),
        ("url", metadata.homepage.as_ref().map(ToString::to_string)),
        (
            "revision",
            metadata.revision.as_ref().map(ToString::to_string),
        ),
    ];
    let named = |(name, value): (&str, Option<String>)| {
        Some((format!("org.opencontainers.image.{name}"), value?))
    };
    found.into_iter().filter_map(named).collect()
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
