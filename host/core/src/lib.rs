//! What a retry decision is made of: the failure that is decided about, the decision, its bounds, and the fallback that decides when a policy cannot.
//!
//! Nothing here runs WebAssembly, waits or talks to anything. [`clock`] is the one place where the machine's clocks are read.

pub mod clock;
pub mod decision;
pub mod examples;
pub mod failure;
pub mod fallback;
pub mod settings;
pub mod text;
