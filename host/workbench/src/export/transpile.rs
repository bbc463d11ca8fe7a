//! From a component to JavaScript, within limits: the component is the one that hosts load, without what it says of itself.

use std::panic::catch_unwind;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use backstop_core::text::one_line;
use backstop_engine::{EncodingError, Limits, encode, sections};
use js_component_bindgen::{InstantiationMode, TranspileOpts};
use wasmparser::{Validator, WasmFeatures};

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
