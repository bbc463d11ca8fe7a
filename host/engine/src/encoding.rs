//! Turns a policy's file into the bytes of a component. The file is a component, a core module, which is encoded as a component, or the text of either.
//!
//! The shape of the file is checked before it is parsed by anything else. Its custom sections are dropped unread: a core module's interfaces are recognised by the names of its exports.

use std::borrow::Cow;
use std::collections::BTreeSet;

use wasmparser::{Parser, Payload, TypeRef};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

use backstop_core::text::cut;

use crate::sections;
use crate::shape::{Shape, ShapeError};

/// The contract, which has the types for core modules.
const CONTRACT: &str = include_str!("../wit/policy.wit");

/// The interfaces of which a policy exports at least one. In a core module, their names are followed by `#` and the function.
pub const INTERFACES: [&str; 5] = [
    "backstop:policy/settings@0.1.0",
    "backstop:policy/classifier@0.1.0",
    "backstop:policy/backoff@0.1.0",
    "backstop:policy/dead-lettering@0.1.0",
    "backstop:policy/outage@0.1.0",
];

/// The maximum size of a text, in bytes. Hand-written text has a few thousand; generators of large modules can use the binary format.
const TEXT: usize = 8 << 20;

/// The maximum number of blocks times branches in a text: resolving a branch takes a step for each enclosing block.
const PAIRS: usize = 200_000_000;

/// The maximum number of lines of an error that quotes the file.
const EXCERPT_LINES: usize = 16;

/// The maximum length of these lines, in bytes: enough for the columns, up to 500, that an error in a text points to.
const EXCERPT_WIDTH: usize = 560;

/// The modules that a core module may import from.
const GIVEN: [&str; 3] = [
    "backstop:policy/log@0.1.0",
    "backstop:policy/payload@0.1.0",
    "backstop:policy/default-classifier@0.1.0",
];

/// The file can't be encoded as a component.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// The file exceeds the limit.
    #[error("it has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The file's size.
        size: usize,
        /// See [`Limits::component`](crate::Limits::component).
        limit: usize,
    },
    /// The text exceeds the fixed limit of texts.
    #[error(
        "it is text of {size} bytes, more than the limit of {TEXT}; convert it to the binary format, for example with `wasm-tools parse FILE -o policy.wasm`"
    )]
    LargeText {
        /// The file's size.
        size: usize,
    },
    /// The text has more blocks and branches than can be matched in a short time.
    #[error(
        "it is text with {blocks} blocks and {branches} branches, more than the limit of {PAIRS} pairs; convert it to the binary format, for example with `wasm-tools parse FILE -o policy.wasm`"
    )]
    TangledText {
        /// Blocks, loops and conditions.
        blocks: usize,
        /// Branches to them.
        branches: usize,
    },
    /// The file is empty.
    #[error(
        "it is empty; expected a WebAssembly component, a core module or the text of either (.wat)"
    )]
    Empty,
    /// Machine code compiled by wasmtime, which is never accepted from outside.
    #[error(
        "it is a precompiled file of wasmtime; expected the WebAssembly that it was compiled from"
    )]
    Precompiled,
    /// The file is something else.
    #[error(
        "it is {what}; expected a WebAssembly component, a core module or the text of either (.wat)"
    )]
    Unknown {
        /// What it appears to be.
        what: &'static str,
    },
    /// The text has an error.
    #[error("its text is not WebAssembly: {0}")]
    Text(String),
    /// A version of the binary format that this host does not know.
    #[error(
        "it is WebAssembly in version {0:?} of the binary format; expected a component or a core module of version 1"
    )]
    Version([u8; 4]),
    /// It exceeds a limit of its shape, or is invalid.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A core module imports a module that core modules are not granted.
    #[error(
        "it is a core module that imports `{module}`, but core modules can import only `{}`; convert it to a component, for example with `wasm-tools component new`", GIVEN.join("`, `")
    )]
    Import {
        /// The module that it is imported from.
        module: String,
    },
    /// A core module can't be encoded as a component.
    #[error("it is a core module but not a policy: {0}")]
    Module(String),
}

/// The component's bytes, within the limits of [`Shape`] and without custom sections other than the names of functions. A file of more than `limit` bytes is an error. This is what the compiler gets.
pub fn component(file: &[u8], limit: usize) -> Result<Vec<u8>, EncodingError> {
    if file.len() > limit {
        return Err(EncodingError::TooLarge {
            size: file.len(),
            limit,
        });
    }
    let binary = match file {
        [b'\0', b'a', b's', b'm', ..] => Cow::Borrowed(file),
        _ => Cow::Owned(assemble(file)?),
    };
    let is_module = match binary.get(4..8) {
        Some([1, 0, 0, 0]) => true,
        Some([_, 0, 1, 0]) => false,
        Some(version) => {
            return Err(EncodingError::Version(
                version.try_into().unwrap_or_default(),
            ));
        }
        None => {
            return Err(EncodingError::Unknown {
                what: "the first bytes of a WebAssembly file",
            });
        }
    };
    Shape::of(&binary)?;
    // Of the custom sections, only the names of functions are kept: they appear in the messages of traps.
    let bare = sections::without(&binary, |name| name != "name").map_err(ShapeError::from)?;
    if is_module { encode(bare) } else { Ok(bare) }
}

/// Assembles text, or explains what the file is instead.
fn assemble(file: &[u8]) -> Result<Vec<u8>, EncodingError> {
    if file.is_empty() {
        return Err(EncodingError::Empty);
    }
    if wasmtime::Engine::detect_precompiled(file).is_some() {
        return Err(EncodingError::Precompiled);
    }
    let what = match file {
        [0x7f, b'E', b'L', b'F', ..] => {
            Some("an ELF file, a program or library of this machine's own")
        }
        [b'P', b'K', 3, 4, ..] => Some("a zip archive"),
        [0x1f, 0x8b, ..] => Some("a gzip archive"),
        _ => None,
    };
    if let Some(what) = what {
        return Err(EncodingError::Unknown { what });
    }
    let text = std::str::from_utf8(file).map_err(|_| EncodingError::Unknown {
        what: "neither WebAssembly nor text",
    })?;
    // Some editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(['(', ';']) {
        return Err(EncodingError::Unknown {
            what: "text, but not of WebAssembly",
        });
    }
    if text.len() > TEXT {
        return Err(EncodingError::LargeText { size: text.len() });
    }
    let count = |words: &[&str]| -> usize { words.iter().map(|it| text.matches(it).count()).sum() };
    let (blocks, branches) = (count(&["block", "loop", "if", "try"]), count(&["br", "$"]));
    if blocks.saturating_mul(branches) > PAIRS {
        return Err(EncodingError::TangledText { blocks, branches });
    }
    wat::parse_str(text).map_err(|error| EncodingError::Text(excerpt(&error.to_string())))
}

/// Shortens an error that quotes the file: the start of a few lines. An error in a text quotes its complete line, which may be the complete file.
fn excerpt(error: &str) -> String {
    // The file has no name here; whoever shows the error names it.
    let error = error.replacen("<anon>:", "line ", 1);
    let lines = error.lines().take(EXCERPT_LINES).map(|line| {
        let mut line = line.to_owned();
        if line.len() > EXCERPT_WIDTH {
            cut(&mut line, EXCERPT_WIDTH);
            line.push('…');
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Encodes a valid core module without custom sections other than names. Its functions have the contract's types.
fn encode(mut module: Vec<u8>) -> Result<Vec<u8>, EncodingError> {
    let (resolve, world) = world_of(&exports_of(&module)?)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)
        .map_err(EncodingError::module)?;
    ComponentEncoder::default()
        .module(&module)
        .and_then(|encoder| encoder.encode())
        .map_err(EncodingError::module)
}

impl EncodingError {
    fn module(error: impl std::fmt::Display) -> Self {
        Self::Module(excerpt(&format!("{error:#}")))
    }
}

/// The names of the functions that a module exports. It may import only what a policy is granted.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only imports and exports matter"
)]
fn exports_of(module: &[u8]) -> Result<Vec<String>, EncodingError> {
    let mut exports = Vec::new();
    for part in Parser::new(0).parse_all(module) {
        match part.map_err(ShapeError::from)? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(ShapeError::from)?;
                    let is_given = GIVEN.contains(&import.module);
                    if !is_given || !matches!(import.ty, TypeRef::Func(_)) {
                        let module = excerpt(import.module);
                        return Err(EncodingError::Import { module });
                    }
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    exports.push(export.map_err(ShapeError::from)?.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(exports)
}

/// A world with all granted imports, and with the interfaces of the exported functions.
fn world_of(exports: &[String]) -> Result<(Resolve, WorldId), EncodingError> {
    let functions = exports.iter().filter_map(|export| export.split_once('#'));
    let interfaces: BTreeSet<_> = functions.map(|(interface, _)| interface).collect();
    let exported: String = INTERFACES
        .iter()
        .filter(|interface| interfaces.contains(**interface))
        .map(|interface| format!("export {interface};"))
        .collect();
    if exported.is_empty() {
        return Err(EncodingError::Module(
            "it exports no function of the contract; expected at least one such as `backstop:policy/backoff@0.1.0#delay`".to_owned(),
        ));
    }
    let given: String = GIVEN.map(|it| format!("import {it};")).concat();
    let world = format!("package backstop:written; world by-hand {{ {given} {exported} }}");
    let mut resolve = Resolve::default();
    resolve
        .push_str("policy.wit", CONTRACT)
        .map_err(EncodingError::module)?;
    let package = resolve
        .push_str("by-hand.wit", &world)
        .map_err(EncodingError::module)?;
    let world = resolve
        .select_world(&[package], None)
        .map_err(EncodingError::module)?;
    Ok((resolve, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_quotes_little_of_a_file_that_is_one_long_line() {
        let long = "x".repeat(1 << 20);
        for text in [
            format!("(module (funk) (; {long} ;))"),
            format!("(module (func call ${long}))"),
            format!("({long})"),
            format!("(module (import \"{long}\" \"f\" (func)))"),
            format!("(module (func (export \"{long}\")))"),
        ] {
            let error = component(text.as_bytes(), 8 << 20).unwrap_err().to_string();
            assert!(error.len() < 2_048, "{} bytes: {error:.300}", error.len());
        }
        let small = component(b"(module\n  (funk))", 8 << 20).unwrap_err();
        let shown = small.to_string();
        assert!(shown.contains("(funk)") && shown.contains('^'), "{shown}");
        // The place in it, without a name that it does not have.
        assert!(
            shown.contains("--> line 2:4") && !shown.contains("anon"),
            "{shown}"
        );
    }
}
