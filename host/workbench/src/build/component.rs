//! Turns the output of a toolchain into a component that hosts load: encoded, stripped, and with metadata.

use wasm_metadata::{AddMetadata, AddMetadataField, Payload};
use wasmparser::Parser;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::bindings::{self, CONTRACT};
use crate::project::{Language, Project};
use backstop_engine::{Shape, sections};

/// The implemented functions of the adapter. Stubs for those that are not supported are added to it.
const ADAPTER: &str = include_str!("adapter.wat");

/// The module that WASI preview 1 is imported from.
const PREVIEW_1: &str = "wasi_snapshot_preview1";

/// What the adapter imports from WASI 0.2: only so that the host can see that a clock is read.
const WALL_CLOCK: &str = "package wasi:clocks@0.2.6;
interface wall-clock {
  record datetime { seconds: u64, nanoseconds: u32 }
  now: func() -> datetime;
}
";

/// The functions of WASI preview 1 that answer `ENOTSUP`, with the types of their parameters.
const NOT_SUPPORTED: [(&str, &str); 30] = [
    ("fd_advise", "i32 i64 i64 i32"),
    ("fd_allocate", "i32 i64 i64"),
    ("fd_datasync", "i32"),
    ("fd_fdstat_set_flags", "i32 i32"),
    ("fd_fdstat_set_rights", "i32 i64 i64"),
    ("fd_filestat_get", "i32 i32"),
    ("fd_filestat_set_size", "i32 i64"),
    ("fd_filestat_set_times", "i32 i64 i64 i32"),
    ("fd_pread", "i32 i32 i32 i64 i32"),
    ("fd_prestat_dir_name", "i32 i32 i32"),
    ("fd_pwrite", "i32 i32 i32 i64 i32"),
    ("fd_readdir", "i32 i32 i32 i64 i32"),
    ("fd_renumber", "i32 i32"),
    ("fd_sync", "i32"),
    ("fd_tell", "i32 i32"),
    ("path_create_directory", "i32 i32 i32"),
    ("path_filestat_get", "i32 i32 i32 i32 i32"),
    ("path_filestat_set_times", "i32 i32 i32 i32 i64 i64 i32"),
    ("path_link", "i32 i32 i32 i32 i32 i32 i32"),
    ("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32"),
    ("path_readlink", "i32 i32 i32 i32 i32 i32"),
    ("path_remove_directory", "i32 i32 i32"),
    ("path_rename", "i32 i32 i32 i32 i32 i32"),
    ("path_symlink", "i32 i32 i32 i32 i32"),
    ("path_unlink_file", "i32 i32 i32"),
    ("proc_raise", "i32"),
    ("sock_accept", "i32 i32 i32"),
    ("sock_recv", "i32 i32 i32 i32 i32 i32"),
    ("sock_send", "i32 i32 i32 i32 i32"),
    ("sock_shutdown", "i32 i32"),
];

/// The output of the toolchain can't be turned into a component.
#[derive(Debug, thiserror::Error)]
#[error("the toolchain's output is not a policy: {0}")]
pub struct ComponentError(String);

impl ComponentError {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(format!("{error:#}"))
    }
}

/// The metadata of a component.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The language that it was written in.
    pub language: Option<String>,
}

impl Metadata {
    /// Reads the metadata of a file. Empty if the file has none, is text, or has a [`Shape`] that hosts reject.
    pub fn of(file: &[u8]) -> Self {
        let payload = Shape::of(file)
            .ok()
            .and_then(|_| Payload::from_binary(file).ok());
        let Some(payload) = payload else {
            return Self::default();
        };
        let found = payload.metadata();
        let language = found.producers.as_ref().and_then(|it| {
            let languages = it.get("language")?;
            languages.iter().next().map(|(name, _)| name.clone())
        });
        Self {
            name: found.name.clone(),
            version: found.version.as_ref().map(ToString::to_string),
            language,
        }
    }
}

/// Creates the component. `names` keeps the names of functions, for traces.
pub(crate) fn finish(
    project: &Project,
    built: &[u8],
    names: bool,
) -> Result<Vec<u8>, ComponentError> {
    let built = if names {
        built.to_vec()
    } else {
        stripped(built).map_err(ComponentError::new)?
    };
    let component = if Parser::is_component(&built) {
        built
    } else {
        encoded(project, built).map_err(ComponentError::new)?
    };
    let mut metadata = AddMetadata::default();
    metadata.name = AddMetadataField::Set(project.name.to_string());
    metadata.version = AddMetadataField::Set(wasm_metadata::Version::new(project.version.clone()));
    metadata.language = vec![(project.language.title().to_owned(), String::new())];
    metadata.processed_by = vec![("backstop".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    metadata.to_wasm(&component).map_err(ComponentError::new)
}

/// Encodes a core module as a component.
fn encoded(project: &Project, mut module: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    if project.language == Language::Go {
        // The other toolchains embed the contract's types themselves.
        let (resolve, world) = bindings::resolve_for(&project.answers)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
    }
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module)?;
    if imports_preview_1(&module)? {
        encoder.adapter(PREVIEW_1, &adapter(project.language)?)?;
    }
    encoder.encode()
}

fn imports_preview_1(module: &[u8]) -> anyhow::Result<bool> {
    for payload in Parser::new(0).parse_all(module) {
        if let wasmparser::Payload::ImportSection(imports) = payload? {
            for import in imports.into_imports() {
                if import?.module == PREVIEW_1 {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// The address of 8 KiB that Go's linker leaves free, for a way of passing arguments that WASI does not use. The adapter can't allocate a page: Go uses all memory that is added as its heap.
const FREE_IN_GO: &str = "4096";

fn adapter(language: Language) -> anyhow::Result<Vec<u8>> {
    // Go writes a panic in several calls, so the adapter must not log each call as a line.
    let (page, whole) = match language {
        Language::Go => (FREE_IN_GO, "0"),
        Language::C
        | Language::Rust
        | Language::JavaScript
        | Language::TypeScript
        | Language::Python => ("0", "1"),
    };
    let others = NOT_SUPPORTED.map(|(name, parameters)| {
        format!("  (func (export \"{name}\") (param {parameters}) (result i32) (i32.const 58))\n")
    });
    let text = ADAPTER
        .replace("(i32.const PAGE)", &format!("(i32.const {page})"))
        .replace("(i32.const WHOLE)", &format!("(i32.const {whole})"));
    let mut adapter = wat::parse_str(format!("{text}{})", others.concat()))?;
    let mut resolve = Resolve::default();
    resolve.push_str("wall-clock.wit", WALL_CLOCK)?;
    let world = format!(
        "{CONTRACT}\nworld adapter {{ import log; import wasi:clocks/wall-clock@0.2.6; }}\n"
    );
    let package = resolve.push_str("adapter.wit", &world)?;
    let world = resolve.select_world(&[package], Some("adapter"))?;
    embed_component_metadata(&mut adapter, &resolve, world, StringEncoding::UTF8, false)?;
    Ok(adapter)
}

/// Removes the names and debug information of all modules. The contract's types, in a custom section, stay.
fn stripped(file: &[u8]) -> wasmparser::Result<Vec<u8>> {
    sections::without(file, |name| {
        ["name", "component-name"].contains(&name) || name.starts_with(".debug")
    })
}
