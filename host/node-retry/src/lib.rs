//! The retrier as a module of WebAssembly: what npm's `backstop-retry` is made of.
//!
//! The module imports nothing. JavaScript makes the attempts, waits and evaluates policies; the rules are those of `backstop-core`, which the retrier in Rust follows too. A call is a machine: JavaScript reports what happened, and the machine returns what is next. `backstop-javascript` makes what a policy sees of an error.
//!
//! | feature | the module of |
//! |---|---|
//! | `retrier` | `backstop-retry` |
//! | none | the rules that an exported policy needs |
//!
//! Values cross as numbers, and as bytes in one buffer (`wire`) for each direction.
// What is exported to JavaScript has a name that the linker keeps.
#![expect(unsafe_code, reason = "exports of a module have names of their own")]
// With fewer features, less is used.
#![cfg_attr(not(feature = "retrier"), allow(dead_code))]

#[cfg(feature = "retrier")]
mod abi;
#[cfg(feature = "retrier")]
mod call;
#[cfg(feature = "retrier")]
mod clock;
#[cfg(feature = "retrier")]
mod envelope;
#[cfg(feature = "retrier")]
mod evaluation;
#[cfg(feature = "retrier")]
mod guards;
#[cfg(target_arch = "wasm32")]
mod memory;
#[cfg(feature = "retrier")]
mod retrier;
#[cfg(not(feature = "retrier"))]
mod rules;
#[cfg(feature = "retrier")]
mod shown;
#[cfg(feature = "retrier")]
mod state;
#[cfg(feature = "retrier")]
mod step;
mod wire;
