//! The container image: pushed to a registry, pulled from it, unpacked, and run from its root.

use std::path::Path;
use std::process::Command;

use backstop_tests::documents::top;
use backstop_tests::registry::Registry;
use serde_json::{Value, json};

use super::root::{Root, USER, which};
use super::world::{one, packages, succeeds};

/// Pulls with skopeo, over plain HTTP.
fn pull(from: &str, to: &str) {
    let mut skopeo = Command::new(which("skopeo"));
    skopeo.args([
        "--insecure-policy",
        "copy",
        "--quiet",
        "--all",
        "--src-tls-verify=false",
    ]);
    succeeds(skopeo.args([from, to]));
}

/// The blob of a descriptor in an OCI layout.
fn blob(layout: &Path, descriptor: &Value) -> std::path::PathBuf {
    let digest = descriptor["digest"].as_str().unwrap();
    layout.join("blobs").join(digest.replace(':', "/"))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// What the only entry of a layout's index, or of an index, leads to.
fn only(layout: &Path, index: &Value) -> Value {
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1, "{index}");
    read(&blob(layout, &index["manifests"][0]))
}

#[test]
fn an_image_is_pushed_pulled_and_run_without_a_root_user_and_read_only() {
    let made = packages("image");
    let archive = one(made.path(), ".oci.tar");
    let version = env!("CARGO_PKG_VERSION");
    let registry = Registry::start();
    let name = format!("{}/backstop", registry.address());
    let mut push = Command::new(top().join("host/dist/push.sh"));
    push.arg(&archive)
        .arg(&name)
        .args(["--insecure-policy", "--dest-tls-verify=false"]);
    succeeds(&mut push);
    let name = format!("docker://{name}");
    let layout = made.path().join("pulled");
    pull(
        &format!("{name}:{version}"),
        &format!("oci:{}:{version}", layout.display()),
    );

    let index = only(&layout, &read(&layout.join("index.json")));
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1, "{index}");
    let image = &index["manifests"][0];
    let architecture = if cfg!(target_arch = "x86_64") {
        "amd64"
    } else {
        "arm64"
    };
    assert_eq!(
        image["platform"],
        json!({ "architecture": architecture, "os": "linux" })
    );
    let manifest = read(&blob(&layout, image));
    let config = read(&blob(&layout, &manifest["config"]));
    assert_eq!(config["config"]["User"], USER);
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/backstop"]));
    let labels = &config["config"]["Labels"];
    assert_eq!(labels["org.opencontainers.image.version"], version);
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1, "{manifest}");

    let root = Root::new();
    root.unpack(&blob(&layout, &layers[0]), "/");
    // A static program finds the certificates where the layer has them.
    assert!(root.path("/etc/ssl/certs/ca-certificates.crt").is_file());
    root.works_read_only("/usr/bin/backstop");

    // The bill of materials, by the tag under which registries without an API for referrers have it.
    let tag = image["digest"].as_str().unwrap().replace(':', "-");
    let layout = made.path().join("referrers");
    pull(
        &format!("{name}:{tag}"),
        &format!("oci:{}:{tag}", layout.display()),
    );
    let referrer = only(&layout, &only(&layout, &read(&layout.join("index.json"))));
    assert_eq!(referrer["subject"]["digest"], image["digest"]);
    assert_eq!(referrer["artifactType"], "application/spdx+json");
    let bom = read(&blob(&layout, &referrer["layers"][0]));
    assert_eq!(bom["spdxVersion"], "SPDX-2.3");
}
