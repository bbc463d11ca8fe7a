//! The built-in policies, by name. `make policies` builds their modules from `policies/`.

macro_rules! modules {
    (
        formulas { $($(#[$doc:meta])+ $formula:literal $type:ident $function:ident;)+ }
        rules { $($rule:literal $parse:ident;)+ }
    ) => {
        modules! { $($formula)+ $($rule)+ }
    };
    ($($name:literal)+) => {
        /// The name and core module of each policy.
        const POLICIES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../builtin/", $name, ".wasm")))),+];
    };
}

backstop_core::built_in_policies!(modules);

/// The names, in the order of the documentation.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, _)| *name)
}

/// The policy with this name: a core module with wit-bindgen's custom section.
pub fn bytes(name: &str) -> Option<&'static [u8]> {
    POLICIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_policy_has_a_module() {
        assert!(names().eq(backstop_core::policy::NAMES));
    }
}
