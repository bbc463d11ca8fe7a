//! The four policies of `policies/`, built from source by `build.rs` and carried by name.

/// Name and core module of each.
const POLICIES: [(&str, &[u8]); 4] = [
    (
        "full-jitter",
        include_bytes!(concat!(env!("OUT_DIR"), "/full-jitter.wasm")),
    ),
    (
        "equal-jitter",
        include_bytes!(concat!(env!("OUT_DIR"), "/equal-jitter.wasm")),
    ),
    (
        "linear",
        include_bytes!(concat!(env!("OUT_DIR"), "/linear.wasm")),
    ),
    (
        "decorrelated-jitter",
        include_bytes!(concat!(env!("OUT_DIR"), "/decorrelated-jitter.wasm")),
    ),
];

/// The names, in the order of the documentation.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, _)| *name)
}

/// The policy of this name: a core module with wit-bindgen's custom section.
pub fn bytes(name: &str) -> Option<&'static [u8]> {
    POLICIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, bytes)| *bytes)
}
