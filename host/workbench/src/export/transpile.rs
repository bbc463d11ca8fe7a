//! From a component to JavaScript, within limits: the component is the one that hosts load, without what it says of itself.

use std::panic::catch_unwind;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use backstop_core::decision::REASON_BYTES;
use backstop_core::text::{head, one_line};
use backstop_engine::{EncodingError, Limits, encode, sections};
use js_component_bindgen::{InstantiationMode, TranspileOpts};
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

/// The module with the generated code.
pub(super) const MODULE: &str = "policy.js";

/// What Node.js 20 does not run, although its successors do: sums in constants, which the linked runtimes of Python and JavaScript have.
const SINCE_22: WasmFeatures = WasmFeatures::EXTENDED_CONST;

/// Why a policy can't be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Hosts would reject the file.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// The component has something that JavaScript can't have.
    #[error("it can't be made into JavaScript: {0}")]
    Transpile(String),
    /// One of its names would end a text of the JavaScript, and what follows it would run.
    #[error(
        "it can't be made into JavaScript: the name `{0}` has a quote, a backslash or a control character"
    )]
    Name(String),
    /// It took too long.
    #[error("it was not made into JavaScript within {0:?}")]
    Slow(Duration),
}

impl ExportError {
    fn transpile(error: impl std::fmt::Display) -> Self {
        Self::Transpile(one_line(&format!("{error:#}")))
    }
}

/// What a component becomes.
pub(super) struct Transpiled {
    pub(super) javascript: Vec<u8>,
    modules: Vec<(String, Vec<u8>)>,
    /// The oldest Node.js that runs it.
    pub(super) node: u32,
}

impl Transpiled {
    /// The core modules, by the names that the JavaScript has for them.
    pub(super) fn modules(&self) -> Vec<(&str, &[u8])> {
        let all = self.modules.iter();
        all.map(|(name, bytes)| (&**name, &**bytes)).collect()
    }
}

/// Makes JavaScript of a policy's file. Its size, and what is in it, are within the limits of hosts. A conversion that takes too long goes on until the program ends, but nobody waits for it.
pub(super) fn transpile(file: &[u8], limit: Duration) -> Result<Transpiled, ExportError> {
    let component = encode(file, Limits::default().component)?;
    // Nobody reads the names of functions in a stack trace of JavaScript's.
    let component = sections::without(&component, |_| true).map_err(ExportError::transpile)?;
    check_names(&component)?;
    let (done, made) = sync_channel(1);
    let work = move || {
        let made = catch_unwind(|| converted(&component));
        let _ = done
            .send(made.unwrap_or_else(|_| Err(ExportError::transpile("the conversion failed"))));
    };
    thread::Builder::new()
        .name("export".to_owned())
        .spawn(work)
        .map_err(ExportError::transpile)?;
    made.recv_timeout(limit)
        .unwrap_or(Err(ExportError::Slow(limit)))
}

/// Rejects names that `js-component-bindgen` would not quote rightly: it puts them between two `'` as they are. A core module may have any name.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other names are made of letters, digits and a few signs"
)]
fn check_names(component: &[u8]) -> Result<(), ExportError> {
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(ExportError::transpile)? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(ExportError::transpile)?;
                    check_name(import.module)?;
                    check_name(import.name)?;
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    check_name(export.map_err(ExportError::transpile)?.name)?;
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    check_name(import.map_err(ExportError::transpile)?.name.name)?;
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    check_name(export.map_err(ExportError::transpile)?.name.name)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), ExportError> {
    let ends_text = |c: char| c == '\'' || c == '\\' || c.is_control();
    if name.contains(ends_text) {
        return Err(ExportError::Name(one_line(head(name, REASON_BYTES))));
    }
    Ok(())
}

fn converted(component: &[u8]) -> Result<Transpiled, ExportError> {
    let options = TranspileOpts {
        name: "policy".to_owned(),
        no_typescript: true,
        instantiation_mode: Some(InstantiationMode::Sync),
        nodejs_compat_disabled: true,
        no_namespaced_exports: false,
        ..TranspileOpts::default()
    };
    let made = js_component_bindgen::transpile(component, options);
    let files = made.map_err(ExportError::transpile)?.files;
    let (javascript, modules): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(name, _)| name == MODULE);
    let (_, javascript) = javascript
        .into_iter()
        .next()
        .ok_or_else(|| ExportError::transpile("the conversion made no module"))?;
    let runs_in_20 = modules.iter().all(|(_, bytes)| {
        let mut without = Validator::new_with_features(WasmFeatures::default() - SINCE_22);
        without.validate_all(bytes).is_ok()
    });
    Ok(Transpiled {
        javascript,
        modules,
        node: if runs_in_20 { super::OLDEST_NODE } else { 22 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with a module that imports by these names.
    fn importing(module: &str, name: &str) -> Result<Transpiled, ExportError> {
        let text = format!(
            r#"(component
                 (core module $a (func (export "{name}")))
                 (core module $b (import "{module}" "{name}" (func)))
                 (core instance $a (instantiate $a))
                 (core instance (instantiate $b (with "{module}" (instance $a)))))"#
        );
        transpile(text.as_bytes(), Duration::from_secs(60))
    }

    #[test]
    fn a_name_that_would_end_a_text_of_the_javascript_is_rejected() {
        for (module, name) in [
            ("m': evil(), 'x", "f"),
            ("m", "f': evil(), 'x"),
            (r"m\\", "f"),
            (r"m\0a", "f"),
        ] {
            let rejected = importing(module, name).err().map(|it| it.to_string());
            let expected = "a quote, a backslash or a control character";
            assert!(rejected.unwrap().contains(expected), "{module}");
        }
        let made = importing("[export]a:b/c@0.1.0", "`${x}*/ <!-- é").unwrap();
        let javascript = String::from_utf8(made.javascript).unwrap();
        assert!(javascript.contains("'[export]a:b/c@0.1.0': {"));
        assert!(javascript.contains("'`${x}*/ <!-- é': "));
    }
}
