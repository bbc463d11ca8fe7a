//! What wit-bindgen makes of `wit/policy.wit`.
#![allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "generated"
)]

wit_bindgen::generate!({
    path: "wit",
    world: "policy",
    pub_export_macro: true,
    export_macro_name: "export_bindings",
    default_bindings_module: "backstop_policy::bindings",
    generate_all,
    additional_derives: [PartialEq],
});
