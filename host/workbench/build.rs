//! Takes the runtime for policies in Go from the crate that generates their bindings.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    go_runtime(&manifest, &out);
}

/// Writes `go_runtime.rs`: the path and text of each file of wit-bindgen-go's runtime. Its crate carries them as files beside its code, and Go's module proxies may not be within reach of an author.
fn go_runtime(folder: &Path, out: &Path) {
    let platform = env::var_os("HOST").expect("cargo sets it");
    let output = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .current_dir(folder)
        .args(["metadata", "--format-version", "1", "--locked"])
        // What other platforms need is not there, and would be fetched.
        .arg("--filter-platform")
        .arg(platform)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata.get("packages").and_then(|it| it.as_array());
    let manifest = packages
        .into_iter()
        .flatten()
        .find(|package| {
            package
                .get("name")
                .is_some_and(|name| name == "wit-bindgen-go")
        })
        .and_then(|package| package.get("manifest_path")?.as_str())
        .expect("wit-bindgen-go is a dependency");
    let runtime = Path::new(manifest).with_file_name("src").join("pkg/wit");
    let mut listed = String::from("[\n");
    for package in ["async", "runtime", "types"] {
        let folder = runtime.join(package);
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("a folder can be listed").path())
            .collect();
        files.sort();
        for file in files {
            let name = file.file_name().expect("it is a file").to_string_lossy();
            writeln!(
                listed,
                "({:?}, include_str!({file:?})),",
                format!("{package}/{name}")
            )
            .expect("a string takes text");
        }
    }
    listed.push(']');
    std::fs::write(out.join("go_runtime.rs"), listed).expect("the output folder can be written");
}
