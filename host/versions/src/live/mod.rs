//! A policy whose version may change while it decides.
//!
//! Every version goes through one pipeline: fetch, verify, load, validate ([`pipeline`]), activate ([`state`]). It has three callers: [`startup`] finds the first version, [`reload`] the next ones, and [`rollback`] returns to the previous one. [`state`] has the mutable state and its locks; [`policy`] is the handle for the rest of the program.

mod pipeline;
mod policy;
mod refusals;
mod reload;
mod rollback;
mod startup;
mod state;
mod status;
mod version;

pub(crate) use pipeline::panic_message;
pub use pipeline::{Check, Passes, load};
pub use policy::LivePolicy;
pub(crate) use reload::News;
pub use reload::Reload;
pub use rollback::{NotRolledBack, RolledBack};
pub use status::{Compiling, Status};
