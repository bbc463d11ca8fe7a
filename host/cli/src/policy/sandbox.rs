//! The sandbox that commands load policies into, with a host's default limits.

use std::path::Path;

use backstop_engine::{Compiled, Limits, Sandbox};
use backstop_host::config::Cache;

use crate::error::Result;

/// A sandbox that compiles every policy.
pub(super) fn compiling() -> Result<Sandbox> {
    Ok(Sandbox::new(Limits::default())?)
}

/// A sandbox that reuses the code that hosts and earlier commands compiled.
pub(super) fn cached() -> Result<Sandbox> {
    let code = cache().open()?.map(|store| store.code());
    Ok(compiling()?.with_compiled(Compiled::default().kept_in(code)))
}

/// Where compiled code is stored: `BACKSTOP_CACHE`, or the user's cache folder.
fn cache() -> Cache {
    std::env::var("BACKSTOP_CACHE").map_or(Cache::User, |cache| Cache::parse(&cache, Path::new("")))
}
