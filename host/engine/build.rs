//! Compiles the four policies of `policies/` for WebAssembly, so that `builtin.rs` can carry them by name.

use std::env;
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
        .ancestors()
        .nth(2)
        .expect("the engine is a member of the workspace");
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
