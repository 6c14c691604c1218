//! The table of system calls that a serving data plane makes, each with its reason.
//!
//! What is not here and why: `socket`, `bind`, `connect`, `listen` (sockets come from outside and
//! by accept), `execve`, `clone`, `fork` (all threads are there already), `open` and everything
//! else that takes a path, `io_uring_setup` (the rings are there, and one more would be one without
//! restrictions), `ptrace`, `process_vm_*`, `kill`, everything that changes credentials.

/// One call, and some uses of it.
pub(super) struct Call {
    /// The kernel's number for it on this architecture.
    pub(super) number: i64,
    /// Its name, with `SYS_` in front.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the tests of the table"))]
    pub(super) name: &'static str,
    /// Who makes it, and for what.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader"))]
    pub(super) why: &'static str,
    pub(super) when: When,
}

/// Which uses of a call are meant. Arguments count from 0.
pub(super) enum When {
    Always,
    /// The argument is one of these.
    OneOf(u8, &'static [u64]),
    /// The argument is our own process.
    Ourselves(u8),
    /// The argument has not this bit.
    Without(u8, u64),
}

use When::{Always, OneOf, Ourselves, Without};

macro_rules! call {
    ($number:ident, $why:literal) => {
        call!($number, $why, Always)
    };
    ($number:ident, $why:literal, $when:expr) => {
        Call {
            number: libc::$number,
            name: stringify!($number),
            why: $why,
            when: $when,
        }
    };
}

const EXECUTABLE: u64 = libc::PROT_EXEC as u64;

const FCNTLS: &[u64] = &[
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_GETFL as u64,
    libc::F_SETFD as u64,
    libc::F_SETFL as u64,
];

/// `FIONBIO` of asm-generic/ioctls.h; its type differs between C libraries.
const NON_BLOCKING: u64 = 0x5421;

/// `PR_SET_VMA` of linux/prctl.h.
const NAME_MEMORY: u64 = 0x5356_4d41;

/// On every driver: the control thread runs on epoll anyway.
#[rustfmt::skip]
pub(super) const CALLS: &[Call] = &[
    call!(SYS_accept4, "connections of the epoll driver, the control and the handover thread"),
    call!(SYS_brk, "malloc"),
    call!(SYS_clock_gettime, "clocks, where the vDSO has none (some clock sources of guests)"),
    call!(SYS_clock_nanosleep, "pauses: after a failed accept, of a ring that is made smaller"),
    call!(SYS_close, "connections that end"),
    call!(SYS_epoll_ctl, "the epoll driver and the control thread"),
    call!(SYS_epoll_pwait, "likewise"),
    call!(SYS_epoll_pwait2, "waits of the epoll driver shorter than a millisecond (Linux 5.11)"),
    call!(SYS_eventfd2, "the spare descriptor that a full descriptor table is relieved with"),
    call!(SYS_exit, "a thread's end"),
    call!(SYS_exit_group, "the process's end"),
    call!(SYS_fcntl, "duplicates of listening sockets; checks of the standard library",
        OneOf(1, FCNTLS)),
    call!(SYS_futex, "locks, channels, joins"),
    call!(SYS_getpeername, "who is connected"),
    call!(SYS_getpid, "abort, hello"),
    call!(SYS_getrandom, "TLS, hash maps; aws-lc asks again and again"),
    call!(SYS_getsockname, "whether a listener is a Unix socket"),
    call!(SYS_getsockopt, "peer credentials, errors of sockets"),
    call!(SYS_gettid, "abort, locks"),
    call!(SYS_ioctl, "sockets of the control thread become non-blocking",
        OneOf(1, &[NON_BLOCKING])),
    call!(SYS_madvise, "malloc, stacks of threads that end, aws-lc"),
    call!(SYS_membarrier, "aws-lc, where the platform asks for it"),
    call!(SYS_mmap, "malloc, but never memory that can be executed", Without(2, EXECUTABLE)),
    call!(SYS_mprotect, "malloc, likewise", Without(2, EXECUTABLE)),
    call!(SYS_mremap, "realloc"),
    call!(SYS_munmap, "malloc, threads that end, lanes"),
    call!(SYS_ppoll, "waits of the standard library"),
    call!(SYS_prctl, "malloc of glibc 2.39 and later names its memory",
        OneOf(0, &[NAME_MEMORY])),
    call!(SYS_read, "eventfds, the control thread's connections"),
    call!(SYS_readv, "likewise"),
    call!(SYS_recvfrom, "connections of the epoll driver and the control thread"),
    call!(SYS_recvmsg, "likewise"),
    call!(SYS_restart_syscall, "waits that a stop interrupted (SIGSTOP, a debugger)"),
    call!(SYS_rt_sigaction, "abort, SIGBUS's last words"),
    call!(SYS_rt_sigprocmask, "abort, threads that end"),
    call!(SYS_rt_sigreturn, "the end of a signal handler"),
    call!(SYS_sched_getaffinity, "malloc counts processors before it makes another arena"),
    call!(SYS_sched_yield, "spinning locks"),
    call!(SYS_sendmsg, "descriptors for a control plane that was started anew"),
    call!(SYS_sendto, "answers of the epoll driver, the control thread"),
    call!(SYS_setsockopt, "TCP_NODELAY, resets"),
    call!(SYS_shutdown, "closing of connections"),
    call!(SYS_sigaltstack, "threads that end"),
    call!(SYS_tgkill, "abort", Ourselves(0)),
    call!(SYS_write, "doorbells, log lines"),
    call!(SYS_writev, "the control thread's connections"),
];

/// Calls that only an older table of this architecture has, for C libraries that still use them.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLDER: &[Call] = &[
    call!(SYS_epoll_wait, "waits of the epoll driver and the control thread"),
    call!(SYS_nanosleep, "pauses"),
    call!(SYS_poll, "waits of the standard library"),
    call!(SYS_time, "log lines, where the vDSO has none"),
];

/// The 64-bit ARM table began without the older calls.
#[cfg(target_arch = "aarch64")]
pub(super) const OLDER: &[Call] = &[call!(SYS_nanosleep, "pauses")];

/// Where a worker has a ring.
#[rustfmt::skip]
pub(super) const RINGS: &[Call] = &[
    call!(SYS_io_uring_enter, "every turn"),
    call!(SYS_io_uring_register, "the end of a ring; a restricted ring takes little else"),
];

/// Calls whose refusal is expected, by code that we link and that does without: not reported. Those
/// that start something are here as well, since the C library makes them with all signals blocked,
/// so that a report by signal would kill; whoever makes one says what failed.
#[rustfmt::skip]
pub(super) const REFUSED_QUIETLY: &[Call] = &[
    call!(SYS_clone, "a thread; a program, by posix_spawn"),
    call!(SYS_clone3, "likewise"),
    call!(SYS_faccessat, "aws-lc looks for /dev/sysgenid"),
    call!(SYS_getcwd, "a backtrace shortens paths"),
    call!(SYS_newfstatat, "a backtrace looks for symbols"),
    call!(SYS_openat, "malloc reads overcommit_memory before it gives a heap back; backtraces"),
    call!(SYS_readlinkat, "a backtrace looks for symbols"),
    call!(SYS_statx, "likewise"),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_access, "as faccessat"),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_fork, "as clone"),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_open, "as openat"),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_readlink, "as readlinkat"),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_stat, "as newfstatat"),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_vfork, "as clone"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_a_name_and_a_reason_and_is_there_once() {
        let all = || CALLS.iter().chain(OLDER).chain(RINGS);
        for call in all().chain(REFUSED_QUIETLY) {
            assert!(call.name.starts_with("SYS_") && !call.why.is_empty());
        }
        for call in all() {
            let same = all().filter(|other| other.number == call.number);
            assert_eq!(same.count(), 1, "{}", call.name);
        }
    }

    #[test]
    fn a_table_is_in_the_order_of_its_names() {
        for table in [CALLS, OLDER, RINGS] {
            assert!(table.is_sorted_by_key(|call| call.name));
        }
    }

    #[test]
    fn nothing_that_reaches_beyond_the_process_is_allowed() {
        for number in [
            libc::SYS_bind,
            libc::SYS_bpf,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_connect,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_io_uring_setup,
            libc::SYS_kill,
            libc::SYS_memfd_create,
            libc::SYS_mount,
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_pidfd_getfd,
            libc::SYS_process_vm_writev,
            libc::SYS_ptrace,
            libc::SYS_setresuid,
            libc::SYS_socket,
            libc::SYS_unlinkat,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
        ] {
            let mut all = CALLS.iter().chain(OLDER).chain(RINGS);
            assert!(all.all(|call| call.number != number), "{number}");
        }
    }
}
