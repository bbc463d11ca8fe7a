//! Policies made of modules for WASI preview 1, behind the official adapter.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::documents::document;

/// The component of a preview-1 core module that exports `delay`: given its types, and encoded with the official adapter.
pub fn component(mut module: Vec<u8>) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let contract = document("wit/policy.wit");
    resolve.push_str("policy.wit", &contract).unwrap();
    let world = "package test:test; world w { export backstop:policy/backoff@0.1.0; }";
    let package = resolve.push_str("w.wit", world).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    let adapter = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
    // Go's allocator is not ready when its start first calls the adapter.
    ComponentEncoder::default()
        .realloc_via_memory_grow(true)
        .module(&module)
        .and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", adapter))
        .and_then(|encoder| encoder.encode())
        .unwrap()
}
