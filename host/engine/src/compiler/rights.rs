//! Takes from a child that compiles the rights that compiling does not need, before it reads anything: a hostile file that gets control of the compiler finds no descriptor, file, network or program to use.
//!
//! All of it is best effort, since kernels and containers differ: what one of them does not grant, another part still forbids. `host/docs/policies/versions.md` says what holds where.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{close, fcntl_getfd};

#[cfg(target_os = "linux")]
use super::calls;

/// The last descriptor of a child: standard input, output and error.
const LAST: RawFd = 2;

/// Takes the rights of this process, whose only thread this must be.
pub(super) fn drop_all() {
    let outcomes = [
        ("inherited descriptors", close_inherited()),
        #[cfg(target_os = "linux")]
        ("capabilities", drop_capabilities()),
        #[cfg(target_os = "linux")]
        ("landlock", forbid_files_and_network()),
        #[cfg(target_os = "linux")]
        ("seccomp", calls::forbid()),
    ];
    for (what, outcome) in outcomes {
        if let Err(error) = outcome {
            tracing::debug!(what, %error, "this machine does not let the compiler drop it");
        }
    }
}

/// Closes what the host, or the program that started it, left open for its children.
fn close_inherited() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if close_range().is_ok() {
        return Ok(());
    }
    close_listed()
}

/// Closes them at once. Linux can do so since 5.9, and needs no `/proc` for it.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "descriptors that nobody in this process owns can't be closed in another way"
)]
fn close_range() -> io::Result<()> {
    let first = LAST + 1;
    // SAFETY: this is the first thing that the process does, so nobody in it owns a descriptor above the three standard ones.
    match unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes those that the system lists: on older kernels, and on macOS.
#[expect(
    unsafe_code,
    reason = "descriptors that nobody in this process owns can't be closed in another way"
)]
fn close_listed() -> io::Result<()> {
    let names: Vec<_> = std::fs::read_dir("/dev/fd")?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    let open = names
        .iter()
        .filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    for descriptor in open.filter(|descriptor| *descriptor > LAST) {
        // SAFETY: as above. That of the folder is closed already.
        unsafe {
            if fcntl_getfd(BorrowedFd::borrow_raw(descriptor)).is_ok() {
                close(descriptor);
            }
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn drop_capabilities() -> io::Result<()> {
    for set in [
        caps::CapSet::Ambient,
        caps::CapSet::Inheritable,
        caps::CapSet::Effective,
        caps::CapSet::Permitted,
    ] {
        caps::clear(None, set).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Forbids files, TCP and signals to other processes, as far as this kernel can.
#[cfg(target_os = "linux")]
fn forbid_files_and_network() -> io::Result<()> {
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, Scope};
    let abi = ABI::V6;
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map(drop)
        .map_err(io::Error::other)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// As in a container without `/proc`.
    #[test]
    #[expect(
        unsafe_code,
        reason = "a thread with descriptors of its own, to close them"
    )]
    fn descriptors_are_closed_without_any_folder_that_lists_them() {
        let (open, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let is_open = || fcntl_getfd(open.as_fd()).is_ok();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| {
                // SAFETY: the thread gets a copy of the table, and nothing that this test owns is dropped in it.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
                calls::forbid().unwrap();
                assert!(std::fs::read_dir("/proc/self/fd").is_err());
                assert!(is_open());
                close_inherited().unwrap();
                assert!(!is_open());
            });
            closing.join().unwrap();
        });
        assert!(is_open());
    }
}
