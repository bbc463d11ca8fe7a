//! Checks a component's imports and exports by name before it is compiled: compiling what is rejected anyway could take seconds and hundreds of megabytes.

use wasmparser::ComponentTypeRef;

use crate::component_error::ComponentError;
use crate::encoding::INTERFACES;
use crate::sections;
use crate::shape::ShapeError;
use crate::wasi;

/// Checks that a valid component imports only what a policy is granted and exports at least one of [`INTERFACES`].
pub(crate) fn check(component: &[u8]) -> Result<(), ComponentError> {
    let interfaces = sections::interfaces(component);
    let (imports, exports) =
        interfaces.map_err(|error| ComponentError::Encoding(ShapeError::from(error).into()))?;
    let refused = imports.iter().filter(|import| {
        let is_type = matches!(import.ty, ComponentTypeRef::Type(_));
        !is_type && !is_ours(import.name.name) && !is_wasi(import.name.name)
    });
    let refused: Vec<_> = refused.map(|import| import.name.name).collect();
    if !refused.is_empty() {
        return Err(ComponentError::Import(refused.join("`, `")));
    }
    let exports: Vec<_> = exports.iter().map(|export| export.name.name).collect();
    if !exports.iter().any(|name| INTERFACES.contains(name)) {
        let found = listed(exports.into_iter().map(str::to_owned));
        return Err(ComponentError::NoInterface { found });
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
