//! What this process asks of the kernel: enough open files, and memory that others can't read.

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

/// Closes the memory of this process, with its credentials and keys, to other processes of its user, such as a command or a child that compiles. Only Linux can.
pub(super) fn close_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::debug!(%error, "the memory of this process stays open to its user");
    }
}
