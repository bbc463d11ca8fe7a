//! The policy author's workbench: what there is between an idea and a policy that decides.
//!
//! Everything here returns values; the command line renders them.

pub mod simulate;
