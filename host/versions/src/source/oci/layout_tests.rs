use serde_json::Value;
use wasm_metadata::{AddMetadata, AddMetadataField, Authors, Description, Licenses};

use super::*;
use backstop_engine::builtin;

const CREATED: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

fn module() -> Vec<u8> {
    builtin::bytes("linear").unwrap().to_vec()
}

fn component() -> Vec<u8> {
    let mut encoder = wit_component::ComponentEncoder::default();
    encoder.module(&module()).unwrap().encode().unwrap()
}

fn annotated(file: Vec<u8>, pairs: &[(&str, &str)]) -> Package {
    let pairs = pairs.iter();
    let annotations = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Package::policy(file, annotations.collect(), CREATED).unwrap()
}

fn read(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap()
}

#[test]
fn the_same_file_gives_the_same_manifest() {
    let first = annotated(component(), &[("a", "1"), ("b", "2")]);
    assert_eq!(first, annotated(component(), &[("b", "2"), ("a", "1")]));
    assert_ne!(first.digest(), annotated(component(), &[]).digest());
    assert_ne!(first.digest(), annotated(module(), &[("a", "1")]).digest());
}

#[test]
fn components_are_described_and_modules_are_distinguished() {
    let config = read(&annotated(component(), &[]).config);
    assert_eq!(config["os"], "wasip2");
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    assert_eq!(config["layerDigests"][0], sha256(&component()));
    let exports = config["component"]["exports"].as_array().unwrap();
    assert!(exports.contains(&"backstop:policy/backoff@0.1.0".into()));
    let config = read(&annotated(module(), &[]).config);
    assert_eq!(config["os"], "wasip1");
    assert_eq!(config.get("component"), None);
}

#[test]
fn metadata_of_the_file_becomes_annotations_that_can_be_overridden() {
    let mut metadata = AddMetadata::default();
    metadata.name = AddMetadataField::Set("orders".to_owned());
    metadata.version = AddMetadataField::Set(wasm_metadata::Version::new("1.2.0"));
    metadata.description = AddMetadataField::Set(Description::new("backs off"));
    metadata.authors = AddMetadataField::Set(Authors::new("Ada"));
    metadata.licenses = AddMetadataField::Set(Licenses::new("MIT").unwrap());
    let file = metadata.to_wasm(&component()).unwrap();
    let package = annotated(
        file,
        &[("org.opencontainers.image.version", "1.3.0"), ("x", "y")],
    );
    let manifest = read(&package.manifest);
    let expected = serde_json::json!({
        "org.opencontainers.image.title": "orders",
        "org.opencontainers.image.version": "1.3.0",
        "org.opencontainers.image.description": "backs off",
        "org.opencontainers.image.authors": "Ada",
        "org.opencontainers.image.licenses": "MIT",
        "x": "y",
    });
    assert_eq!(manifest["annotations"], expected);
    assert_eq!(read(&package.config)["author"], "Ada");
}

#[test]
fn only_webassembly_s_binary_format_is_put_into_a_registry() {
    for file in [&b""[..], b"(component)", b"\0asm", b"\x7fELF"] {
        let packed = Package::policy(file.to_vec(), BTreeMap::new(), CREATED);
        assert!(matches!(packed, Err(PackageError::NotBinary)), "{file:?}");
    }
}

#[test]
fn a_signature_is_found_by_the_digest_of_the_file_alone() {
    let reference: Reference = "localhost:5000/policies/orders:1".parse().unwrap();
    let found = signature_of(&reference, b"file").to_string();
    let digest = PolicyDigest::of(b"file").to_string().replace(':', "-");
    assert_eq!(
        found,
        format!("localhost:5000/policies/orders:{digest}.minisig")
    );
    let manifest = Package::signature("text").manifest;
    assert!(layer(&manifest, ArtifactKind::Signature).is_ok());
    let refused = layer(&manifest, ArtifactKind::Policy).unwrap_err();
    assert!(refused.contains("expected `application/wasm`"), "{refused}");
}

#[test]
fn a_manifest_that_is_none_or_an_index_is_refused_with_the_reason() {
    for (manifest, reason) in [
        (&b"{}"[..], "its manifest can't be read: missing field"),
        (b"[]", "its manifest can't be read: "),
        (
            b"{\"schemaVersion\": 2, \"manifests\": []}",
            "it is an index of images for several platforms",
        ),
    ] {
        let refused = layer(manifest, ArtifactKind::Policy).err().unwrap();
        assert!(refused.starts_with(reason), "{refused}");
    }
}
