//! The limit on open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What no host needs more than. Some programs that a host starts take long if they may have very many files open.
const ENOUGH: u64 = 65_536;

/// Raises the soft limit as far as the hard one allows, up to [`ENOUGH`]. Shells set a soft limit of 1,024 for programs from before there was a better way to wait for many connections.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let highest = limit.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if limit.current.is_some_and(|current| current < highest) {
        let raised = Rlimit {
            current: Some(highest),
            ..limit
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit on open files can't be raised");
        }
    }
}
