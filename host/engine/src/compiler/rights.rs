//! Takes from a child that compiles the rights that compiling does not need, before it reads anything: a hostile file that gets control of the compiler finds no descriptor, file, network or program to use.
//!
//! All of it is best effort, since kernels and containers differ: what one of them does not grant, another part still forbids. `host/docs/versions.md` says what holds where.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{close, fcntl_getfd};

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
        ("seccomp", forbid_calls()),
    ];
    for (what, outcome) in outcomes {
        if let Err(error) = outcome {
            tracing::debug!(what, %error, "this machine does not let the compiler drop it");
        }
    }
}

/// Closes what the host, or the program that started it, left open for its children.
#[expect(
    unsafe_code,
    reason = "descriptors that nobody in this process owns can't be closed in another way"
)]
fn close_inherited() -> io::Result<()> {
    let names: Vec<_> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    let open = names
        .iter()
        .filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    for descriptor in open.filter(|descriptor| *descriptor > LAST) {
        // SAFETY: this is the first thing that the process does, so nobody in it owns a descriptor above the three standard ones. That of the folder above is closed already.
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

/// The calls of the system that fail: those that open files, sockets or other processes, start programs or change rights. Compiling needs memory, threads and its three pipes.
#[cfg(target_os = "linux")]
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_open_by_handle_at,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_truncate,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
];

/// Those of the same kind that only older processors have.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const FORBIDDEN_OLD: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_fork,
    libc::SYS_vfork,
];

#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
const FORBIDDEN_OLD: &[libc::c_long] = &[];

/// Makes these calls fail as if they were not permitted. Sets `no_new_privs` too.
#[cfg(target_os = "linux")]
fn forbid_calls() -> io::Result<()> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    // Without conditions.
    let calls = FORBIDDEN.iter().chain(FORBIDDEN_OLD);
    let rules: BTreeMap<libc::c_long, Vec<_>> = calls.map(|call| (*call, Vec::new())).collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        architecture,
    );
    let program: BpfProgram = filter
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}
