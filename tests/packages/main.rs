//! What is released: each package is made of the programs that are built, installed where nothing else is, and runs there.
//!
//! The programs are those of the development build, so these packages need the libraries of this machine, and their tests copy them. `make dist` makes the same packages of static programs, and `BACKSTOP_PACKAGED` has the tests install those.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod archive;
mod function;
mod image;
mod installer;
mod npm;
mod platforms;
mod root;
mod served;
mod system;
mod wheel;
mod workflow;
mod world;
