//! Policies: the sandbox they run in ([`backstop_engine`]), and where they come from and how they change ([`backstop_versions`]).

pub use backstop_engine::*;
pub use backstop_versions::*;
