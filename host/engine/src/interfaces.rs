//! Checks a component's imports and exports by name before it is compiled: compiling what is rejected anyway could take seconds and hundreds of megabytes.

use wasmparser::{ComponentTypeRef, Parser, Payload};

use crate::component_error::ComponentError;
use crate::encoding::INTERFACES;
use crate::shape::ShapeError;
use crate::wasi;

/// Checks that a valid component imports only what a policy is granted and exports at least one of [`INTERFACES`].
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only imports and exports matter"
)]
pub(crate) fn check(component: &[u8]) -> Result<(), ComponentError> {
    let invalid = |error: wasmparser::BinaryReaderError| {
        ComponentError::Encoding(ShapeError::from(error).into())
    };
    let (mut depth, mut refused, mut exports) = (0_u32, Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(invalid)? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    let import = import.map_err(invalid)?;
                    let is_type = matches!(import.ty, ComponentTypeRef::Type(_));
                    if !is_type && !is_granted(import.name.name) {
                        refused.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export.map_err(invalid)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    if !refused.is_empty() {
        return Err(ComponentError::Import(refused.join("`, `")));
    }
    if !exports
        .iter()
        .any(|name| INTERFACES.contains(&name.as_str()))
    {
        return Err(ComponentError::NoInterface {
            found: listed(exports),
        });
    }
    Ok(())
}

/// The names of a component's exports, for an error.
pub(crate) fn listed(exports: impl IntoIterator<Item = String>) -> String {
    let exports: Vec<_> = exports
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    if exports.is_empty() {
        "nothing".to_owned()
    } else {
        exports.join(", ")
    }
}

/// Whether a policy is granted this import.
fn is_granted(import: &str) -> bool {
    is_ours(import) || is_wasi(import)
}

pub(crate) fn is_wasi(import: &str) -> bool {
    let version = import.split_once('@').map(|(_, version)| version);
    wasi::PACKAGES
        .iter()
        .any(|package| import.starts_with(package))
        && version.is_some_and(|version| version.starts_with("0.2."))
}

pub(crate) fn is_ours(import: &str) -> bool {
    ["types", "log", "payload", "default-classifier"]
        .iter()
        .any(|interface| import == format!("backstop:policy/{interface}@0.1.0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), String> {
        check(&wat::parse_str(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn imports_and_exports_are_checked_by_name_and_those_within_do_not_count() {
        let backoff = "(instance $i) (export \"backstop:policy/backoff@0.1.0\" (instance $i))";
        let log = "(import \"backstop:policy/log@0.1.0\" (instance))";
        assert_eq!(checked(&format!("(component {log} {backoff})")), Ok(()));
        let nothing = checked("(component)").unwrap_err();
        assert!(
            nothing.contains("it exports nothing; expected"),
            "{nothing}"
        );
        let within = checked(&format!(
            "(component (component {backoff}) (instance $x) (export \"other\" (instance $x)))"
        ));
        let within = within.unwrap_err();
        assert!(within.contains("it exports `other`; expected"), "{within}");
        let network = "(import \"wasi:http/types@0.2.0\" (instance))";
        let refused = checked(&format!("(component {network} {log} {backoff})")).unwrap_err();
        assert!(
            refused.contains("imports `wasi:http/types@0.2.0`, which"),
            "{refused}"
        );
    }
}
