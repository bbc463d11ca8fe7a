//! Compiles the four policies of `policies/` for WebAssembly, so that `host/src/policy/builtin.rs` can carry them by name; and takes the runtime for policies in Go from the crate that generates their bindings.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
const POLICIES: [&str; 4] = [
    "full-jitter",
    "equal-jitter",
    "linear",
    "decorrelated-jitter",
];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let workspace = manifest
        .parent()
        .expect("the host is a member of the workspace");
    for input in [
        "policies",
        "wit",
        "Cargo.lock",
        "Cargo.toml",
        ".cargo/config.toml",
    ] {
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join(input).display()
        );
    }
    go_runtime(workspace, &out);
    if !target_is_installed() {
        println!(
            "cargo::error=the policies are built for {TARGET}, which this toolchain lacks: run `rustup target add {TARGET}` and build again"
        );
        return;
    }
    // A target folder of its own: the outer cargo holds the lock of the usual one.
    let built = out.join("policies");
    if !build(workspace, &built) {
        println!(
            "cargo::error=the policies could not be built; their compiler's messages stand above"
        );
        return;
    }
    for policy in POLICIES {
        let module = built
            .join(TARGET)
            .join("policy")
            .join(policy.replace('-', "_"))
            .with_extension("wasm");
        std::fs::copy(&module, out.join(policy).with_extension("wasm"))
            .unwrap_or_else(|error| panic!("{}: {error}", module.display()));
    }
}

fn build(workspace: &Path, target_dir: &Path) -> bool {
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo
        .current_dir(workspace)
        .args([
            "build",
            "--quiet",
            "--locked",
            "--profile",
            "policy",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(target_dir)
        .args(POLICIES.iter().flat_map(|policy| ["--package", policy]));
    // What was set for the host's build (flags, a wrapper for lints or coverage) is not meant for the policies.
    for variable in [
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
        "RUSTC_WORKSPACE_WRAPPER",
        "CLIPPY_ARGS",
        "CARGO_BUILD_TARGET",
    ] {
        cargo.env_remove(variable);
    }
    cargo.status().expect("cargo runs").success()
}

fn target_is_installed() -> bool {
    Command::new(env::var_os("RUSTC").expect("cargo sets it"))
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .is_some_and(|folder| Path::new(folder.trim()).is_dir())
}

/// Writes `go_runtime.rs`: the path and text of each file of wit-bindgen-go's runtime. Its crate carries them as files beside its code, and Go's module proxies may not be within reach of an author.
fn go_runtime(workspace: &Path, out: &Path) {
    let platform = env::var_os("HOST").expect("cargo sets it");
    let output = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .current_dir(workspace)
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
