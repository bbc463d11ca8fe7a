//! The built-in policies, by name. `make policies` builds their modules from `policies/`.

/// The name and core module of each policy.
const POLICIES: [(&str, &[u8]); 6] = [
    ("full-jitter", include_bytes!("../builtin/full-jitter.wasm")),
    (
        "equal-jitter",
        include_bytes!("../builtin/equal-jitter.wasm"),
    ),
    ("linear", include_bytes!("../builtin/linear.wasm")),
    (
        "decorrelated-jitter",
        include_bytes!("../builtin/decorrelated-jitter.wasm"),
    ),
    ("aws-sdk-2.0", include_bytes!("../builtin/aws-sdk-2.0.wasm")),
    ("aws-sdk-2.1", include_bytes!("../builtin/aws-sdk-2.1.wasm")),
];

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
