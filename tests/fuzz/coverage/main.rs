//! The target of `cargo fuzz`: the one that `FUZZ_TARGET` names. One program for all of them, since each would carry the whole host.
#![no_main]
#![allow(
    missing_docs,
    reason = "the macro makes functions without documentation"
)]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tests_fuzz::{TARGETS, Target, target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|it| it.name).collect();
        panic!(
            "expected one of these in FUZZ_TARGET, not `{name}`: {}",
            names.join(", ")
        )
    })
});

fuzz_target!(|input: &[u8]| (CHOSEN.run)(&input[..input.len().min(CHOSEN.most)]));
