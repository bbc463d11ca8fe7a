//! Files that are bundled with the crates so that users can build them: they are equal to their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use backstop_tests::documents::top;
use serde_json::Value;
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};

/// The files of a folder and its subfolders, by path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}

#[test]
fn the_built_in_policies_are_built_from_their_sources() {
    let built = tempfile::tempdir().unwrap();
    let status = Command::new(top().join("policies/build.sh"))
        .arg(built.path())
        .status()
        .unwrap();
    assert!(status.success());
    let built = files(built.path());
    let carried = files(&top().join("host/engine/builtin"));
    let names = backstop_core::policy::NAMES.iter();
    let names: BTreeSet<_> = names
        .map(|name| PathBuf::from(format!("{name}.wasm")))
        .collect();
    assert!(built.keys().eq(&names), "{:?}", built.keys());
    assert!(built.keys().eq(carried.keys()));
    for (name, bytes) in &carried {
        let name = name.display();
        assert!(
            *bytes == built[Path::new(&name.to_string())],
            "{name} is not what `policies/` builds now: run `make policies`"
        );
        let text = String::from_utf8_lossy(bytes);
        for machine in ["/home/", "/root/", "/Users/", ".cargo/", ".rustup/"] {
            assert!(!text.contains(machine), "{name} has a path in {machine}");
        }
    }
}

/// The SDK's bindings are files, so that no build needs the generator. `make policies` writes them.
#[test]
fn the_bindings_of_the_sdk_are_those_of_the_generator() {
    let outage = "world outage-alone { export outage; }";
    for (file, generated) in [
        ("bindings.rs", bindings("policy", "", &options("bindings"))),
        (
            "outage_bindings.rs",
            bindings("outage-alone", outage, &outage_options()),
        ),
    ] {
        let path = top().join("policies/sdk/src").join(file);
        if std::env::var_os("UPDATE_BINDINGS").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap() == generated,
            "policies/sdk/src/{file} is not what `wit/policy.wit` gives now: run `make policies`"
        );
    }
}

/// The options of bindings in this module of the SDK.
fn options(module: &str) -> wit_bindgen_rust::Opts {
    wit_bindgen_rust::Opts {
        format: true,
        pub_export_macro: true,
        export_macro_name: Some(format!("export_{module}")),
        default_bindings_module: Some(format!("backstop_policy::{module}")),
        generate_all: true,
        additional_derive_attributes: vec!["PartialEq".to_owned()],
        ..Default::default()
    }
}

/// The interface `outage` by itself, with the types of the other bindings.
fn outage_options() -> wit_bindgen_rust::Opts {
    let types = "crate::bindings::backstop::policy::types".to_owned();
    wit_bindgen_rust::Opts {
        export_macro_name: Some("export_outage".to_owned()),
        with: vec![(
            "backstop:policy/types@0.1.0".to_owned(),
            wit_bindgen_rust::WithOption::Path(types),
        )],
        ..options("outage_bindings")
    }
}

/// Bindings for a world of the contract, or of this text.
fn bindings(world: &str, own: &str, options: &wit_bindgen_rust::Opts) -> String {
    let contract = std::fs::read_to_string(top().join("wit/policy.wit")).unwrap();
    let mut resolve = Resolve::default();
    let text = format!("{contract}{own}");
    let package = resolve.push_str("policy.wit", &text).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut generated = Files::default();
    let mut generator = options.clone().build();
    generator
        .generate(&mut resolve, world, &mut generated)
        .unwrap();
    let (_, text) = generated.iter().next().unwrap();
    format!(
        "#![allow(warnings, clippy::all, missing_docs, unreachable_pub, unsafe_code, reason = \"generated\")]\n{}",
        std::str::from_utf8(text).unwrap()
    )
}

#[test]
fn the_go_runtime_is_that_of_the_generator() {
    // The build has not downloaded the packages of other platforms.
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "host-tuple"])
        .current_dir(top())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let generator = packages
        .iter()
        .find(|package| package["name"] == "wit-bindgen-go")
        .unwrap();
    let manifest = Path::new(generator["manifest_path"].as_str().unwrap());
    let source = manifest.with_file_name("src").join("pkg/wit");
    let mut carried = files(&top().join("host/workbench/go"));
    carried.remove(Path::new("LICENSE")).unwrap();
    for folder in ["async", "runtime", "types"] {
        for (path, bytes) in files(&source.join(folder)) {
            let path = Path::new(folder).join(path);
            let copy = carried.remove(&path);
            assert!(copy == Some(bytes), "copy {} again", path.display());
        }
    }
    assert!(carried.is_empty(), "{:?}", carried.keys());
}
