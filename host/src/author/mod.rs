//! What the author of a policy works with, without a queue: each part is values in, values out.
//! The command line shows what comes of it.

pub mod check;
pub mod outcome;
pub mod preset;
pub mod scenario;
pub mod subject;
