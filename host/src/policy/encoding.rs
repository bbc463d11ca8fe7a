//! From a policy's file to the bytes of a component: a component as it is, a core module encoded on the spot, text of either.

use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The contract, for core modules that do not carry it.
const CONTRACT: &str = include_str!("../../../wit/policy.wit");

/// The interfaces of which a policy exports at least one, as a core module names them: followed by `#` and the function.
pub const INTERFACES: [&str; 4] = [
    "backstop:policy/settings@0.1.0",
    "backstop:policy/classifier@0.1.0",
    "backstop:policy/backoff@0.1.0",
    "backstop:policy/dead-lettering@0.1.0",
];

/// The file is not something that a policy can be made of.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// Over the limit.
    #[error("it has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The file's size.
        size: usize,
        /// See [`Limits::component`](super::Limits::component).
        limit: usize,
    },
    /// Nothing in it.
    #[error(
        "it is empty; expected a WebAssembly component, a core module or the text of either (.wat)"
    )]
    Empty,
    /// Machine code that some wasmtime compiled: never taken from outside.
    #[error(
        "it is a precompiled file of wasmtime; expected the WebAssembly that it was compiled from"
    )]
    Precompiled,
    /// Neither.
    #[error(
        "it is {what}; expected a WebAssembly component, a core module or the text of either (.wat)"
    )]
    Unknown {
        /// What it looks like.
        what: &'static str,
    },
    /// Text with a mistake.
    #[error("its text is not WebAssembly: {0}")]
    Text(String),
    /// A version of the binary format that this host does not know.
    #[error(
        "it is WebAssembly in version {0:?} of the binary format; expected a component or a core module of version 1"
    )]
    Version([u8; 4]),
    /// A core module of which no component can be made.
    #[error("it is a core module that is no policy: {0}")]
    Module(String),
}

/// The component's bytes.
pub(super) fn component(file: &[u8], limit: usize) -> Result<Vec<u8>, EncodingError> {
    if file.len() > limit {
        return Err(EncodingError::TooLarge {
            size: file.len(),
            limit,
        });
    }
    let binary = match file {
        [b'\0', b'a', b's', b'm', ..] => file.to_vec(),
        _ => assemble(file)?,
    };
    match binary.get(4..8) {
        Some([1, 0, 0, 0]) => encode(binary),
        Some([_, 0, 1, 0]) => Ok(binary),
        Some(version) => Err(EncodingError::Version(
            version.try_into().unwrap_or_default(),
        )),
        None => Err(EncodingError::Unknown {
            what: "the first bytes of a WebAssembly file",
        }),
    }
}

/// From text, or a refusal that says what the file is instead.
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
    // As some editors begin a file.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(['(', ';']) {
        return Err(EncodingError::Unknown {
            what: "text, but not of WebAssembly",
        });
    }
    wat::parse_str(text).map_err(|error| EncodingError::Text(error.to_string()))
}

/// A component from a core module. One without wit-bindgen's custom section, as a person writes it by hand, is taken to have the contract's types.
fn encode(mut module: Vec<u8>) -> Result<Vec<u8>, EncodingError> {
    let outline = Outline::of(&module).map_err(EncodingError::module)?;
    if !outline.carries_its_types {
        let (resolve, world) = world_of(&outline)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)
            .map_err(EncodingError::module)?;
    }
    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|encoder| encoder.encode())
        .map_err(EncodingError::module)
}

impl EncodingError {
    fn module(error: impl std::fmt::Display) -> Self {
        Self::Module(format!("{error:#}"))
    }
}

/// What must be known of a core module before it is encoded.
struct Outline {
    carries_its_types: bool,
    exports: Vec<String>,
}

impl Outline {
    fn of(module: &[u8]) -> wasmparser::Result<Self> {
        let mut outline = Self {
            carries_its_types: false,
            exports: Vec::new(),
        };
        for part in Parser::new(0).parse_all(module) {
            let part = part?;
            if let Payload::CustomSection(section) = &part {
                outline.carries_its_types |= section.name().starts_with("component-type");
            }
            if let Payload::ExportSection(section) = part {
                for export in section {
                    outline.exports.push(export?.name.to_owned());
                }
            }
        }
        Ok(outline)
    }

    fn implements(&self, interface: &str) -> bool {
        self.exports
            .iter()
            .filter_map(|export| export.split_once('#'))
            .any(|(exported, _)| exported == interface)
    }
}

/// A world that exports the interfaces of which the module exports functions.
fn world_of(outline: &Outline) -> Result<(Resolve, WorldId), EncodingError> {
    let exported: String = INTERFACES
        .iter()
        .filter(|interface| outline.implements(interface))
        .map(|interface| format!("export {interface};"))
        .collect();
    if exported.is_empty() {
        return Err(EncodingError::Module(
            "it exports none of our functions; expected at least one such as `backstop:policy/backoff@0.1.0#delay`, or wit-bindgen's custom section".to_owned(),
        ));
    }
    let world = format!(
        "package backstop:written; world by-hand {{ import backstop:policy/log@0.1.0; import backstop:policy/payload@0.1.0; import backstop:policy/default-classifier@0.1.0; {exported} }}"
    );
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
