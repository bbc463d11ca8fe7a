//! The calls of the system that a child that compiles may not make, by seccomp.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule};
use seccompiler::{apply_filter, sock_filter};

/// The numbers of calls by their names.
macro_rules! calls {
    ($($name:ident)*) => {
        &[$(libc::$name),*]
    };
}

/// The calls that fail, with any arguments: those that open files, sockets or other processes, start programs or change rights. Compiling needs memory, threads and its three pipes.
const FORBIDDEN: &[c_long] = calls! {
    // Files.
    SYS_openat SYS_openat2 SYS_open_by_handle_at SYS_unlinkat SYS_renameat2 SYS_mkdirat
    SYS_mknodat SYS_linkat SYS_symlinkat SYS_fchmodat SYS_fchownat SYS_truncate
    SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot
    // Sockets.
    SYS_socket SYS_socketpair SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4
    SYS_sendto SYS_sendmsg SYS_sendmmsg
    // Programs, and other processes.
    SYS_execve SYS_execveat SYS_kill SYS_tkill SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_kcmp
    SYS_move_pages SYS_migrate_pages SYS_pidfd_open SYS_pidfd_getfd SYS_pidfd_send_signal
    // Rights, and the kernel.
    SYS_unshare SYS_setns SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_io_uring_setup
    SYS_add_key SYS_request_key SYS_keyctl
    SYS_init_module SYS_finit_module SYS_kexec_load
};

/// Those of the same kind that only older processors have.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_OLD: &[c_long] = calls! {
    SYS_open SYS_creat SYS_unlink SYS_rename SYS_renameat SYS_mkdir SYS_rmdir SYS_mknod
    SYS_link SYS_symlink SYS_chmod SYS_chown SYS_lchown
    SYS_fork SYS_vfork
};

#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_OLD: &[c_long] = &[];

/// On x86-64, the calls of x32 have numbers from here: the same calls again, which the lists above do not name.
const X32: u32 = 0x4000_0000;

/// Makes these calls fail, as if they were not permitted. Sets `no_new_privs` too.
pub(super) fn forbid() -> io::Result<()> {
    apply_filter(&by_number()).map_err(io::Error::other)?;
    let program = by_arguments().map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

fn by_arguments() -> Result<BpfProgram, seccompiler::BackendError> {
    // An empty list means any arguments.
    let calls = FORBIDDEN.iter().chain(FORBIDDEN_OLD);
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        calls.map(|call| (*call, Vec::new())).collect();
    rules.extend(conditional()?);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    );
    filter?.try_into()
}

/// The calls that fail with some arguments only: the compiler starts threads, but no processes, and has business with no process but itself.
fn conditional() -> Result<[(c_long, Vec<SeccompRule>); 3], seccompiler::BackendError> {
    let own = u64::from(std::process::id());
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let no_thread = SeccompCondition::new(0, Qword, MaskedEq(thread), 0)?;
    let of_another = SeccompCondition::new(0, Dword, Ne, own)?;
    // Zero is this process, too.
    let not_zero = SeccompCondition::new(0, Dword, Ne, 0)?;
    let rule = |conditions| Ok(vec![SeccompRule::new(conditions)?]);
    Ok([
        (libc::SYS_clone, rule(vec![no_thread])?),
        (libc::SYS_tgkill, rule(vec![of_another.clone()])?),
        (libc::SYS_prlimit64, rule(vec![of_another, not_zero])?),
    ])
}

/// What the crate for filters can't express: a range of numbers, and a second error. `clone3` has its flags in memory, where no filter sees them; as if the kernel had no such call, the C library uses `clone` instead.
fn by_number() -> [sock_filter; 6] {
    let step = |code: u32, k: u32, jt: u8| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf: 0,
        k,
    };
    let fail = |error: i32| libc::SECCOMP_RET_ERRNO | error.unsigned_abs();
    let (jump, result) = (libc::BPF_JMP | libc::BPF_K, libc::BPF_RET | libc::BPF_K);
    let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or_default();
    [
        // The number of the call is the first that a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(jump | libc::BPF_JGE, X32, 2),
        step(jump | libc::BPF_JEQ, clone3, 2),
        step(result, libc::SECCOMP_RET_ALLOW, 0),
        step(result, fail(libc::EPERM), 0),
        step(result, fail(libc::ENOSYS), 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::thread;

    /// Calls the system.
    #[expect(unsafe_code, reason = "the calls that a hostile compiler would make")]
    fn call(number: c_long, [a, b, c, d]: [c_long; 4]) -> io::Result<c_long> {
        let process = std::process::id();
        // SAFETY: none of these calls gets an address, and a process that one of them starts ends at once.
        let result = unsafe { libc::syscall(number, a, b, c, d, 0) };
        if std::process::id() != process {
            // SAFETY: it ends a process that has done nothing yet.
            unsafe { libc::_exit(0) }
        }
        match result {
            -1 => Err(io::Error::last_os_error()),
            result => Ok(result),
        }
    }

    #[test]
    fn a_confined_thread_starts_threads_but_no_processes_and_reaches_no_other_process() {
        let own = c_long::from(std::process::id());
        let parent = c_long::from(std::os::unix::process::parent_id());
        let (signal, queue) = (libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo);
        let (queue_to_thread, limits) = (libc::SYS_rt_tgsigqueueinfo, libc::SYS_prlimit64);
        // A filter is one of a thread, and of those that it starts.
        let confined = thread::spawn(move || {
            forbid().unwrap();
            thread::spawn(|| ()).join().unwrap();
            assert!(Command::new("/bin/true").spawn().is_err());
            let thread = call(libc::SYS_gettid, [0; 4]).unwrap();
            for (number, arguments, expected) in [
                (
                    libc::SYS_clone,
                    [libc::SIGCHLD.into(), 0, 0, 0],
                    libc::EPERM,
                ),
                (libc::SYS_clone3, [0; 4], libc::ENOSYS),
                (signal, [own, thread, 0, 0], 0),
                (signal, [parent, parent, 0, 0], libc::EPERM),
                (queue, [parent, 0, 0, 0], libc::EPERM),
                (queue_to_thread, [parent, parent, 0, 0], libc::EPERM),
                (limits, [0, 4, 0, 0], 0),
                (limits, [own, 4, 0, 0], 0),
                (limits, [parent, 4, 0, 0], libc::EPERM),
                #[cfg(target_arch = "x86_64")]
                (c_long::from(X32) + libc::SYS_getpid, [0; 4], libc::EPERM),
            ] {
                let error = call(number, arguments).err();
                let found = error.map_or(0, |error| error.raw_os_error().unwrap());
                assert_eq!(found, expected, "{number} {arguments:?}");
            }
        });
        confined.join().unwrap();
    }
}
