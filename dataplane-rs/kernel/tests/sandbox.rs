//! What the probe says under a sandbox, and that it says why; and how epoll does there.

#[allow(dead_code, unused_imports, unused_macros)] // Some cases are run on special threads.
mod conformance;

use std::thread;

use sluice_kernel::{Backend, Caps, Epoll, Errno, Options, Refusal, Uring, probe};

/// Runs the probe on a thread for which `io_uring_setup` fails with `errno`.
fn probe_behind_a_filter(errno: i32) -> Result<Caps, Refusal> {
    behind_a_filter(libc::SYS_io_uring_setup, errno, probe)
}

/// Runs `act` on a thread for which one system call fails with `errno`.
fn behind_a_filter<T: Send + 'static>(
    call: libc::c_long,
    errno: i32,
    act: impl FnOnce() -> T + Send + 'static,
) -> T {
    thread::spawn(move || {
        let statement = |code: u32, k: u32| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        };
        let mut program = [
            // The system call's number is the first word of seccomp_data.
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
            libc::sock_filter {
                code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
                jt: 0,
                jf: 1,
                k: call as u32,
            },
            statement(
                libc::BPF_RET | libc::BPF_K,
                libc::SECCOMP_RET_ERRNO | errno as u32,
            ),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: plain numbers and a valid program; both settings are this thread's alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(
                libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
                0
            );
        }
        act()
    })
    .join()
    .unwrap()
}

/// The sysctl goes first, because a filter that is lifted would not help there.
fn sysctl_refusal() -> Option<Refusal> {
    let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    let value = sysctl.trim().parse().ok().filter(|&value| value == 2)?;
    Some(Refusal::SwitchedOff { value })
}

#[test]
fn a_filter_that_forbids_io_uring_is_told_from_the_sysctl() {
    for errno in [Errno(libc::EPERM), Errno(libc::EACCES)] {
        let refusal = probe_behind_a_filter(errno.0).unwrap_err();
        let expected = sysctl_refusal().unwrap_or(Refusal::Sandboxed { errno });
        assert_eq!(refusal, expected);
    }
}

#[test]
fn a_filter_that_hides_io_uring_is_told_from_a_kernel_without() {
    let errno = Errno(libc::ENOSYS);
    let refusal = probe_behind_a_filter(errno.0).unwrap_err();
    assert_eq!(refusal, Refusal::Sandboxed { errno });
    let words = refusal.to_string();
    assert!(words.contains("seccomp profile"), "{words}");
}

#[test]
fn epoll_serves_where_io_uring_is_refused_and_says_why() {
    behind_a_filter(libc::SYS_io_uring_setup, libc::EPERM, || {
        let make = |options: &Options| {
            let epoll = Epoll::new(options, probe().err()).unwrap();
            let report = epoll.caps().to_string();
            assert!(report.contains("io_uring not used: "), "{report}");
            Some(epoll)
        };
        conformance::receiving::many_connections_echo_every_byte_in_order(&make);
    });
}

/// Sandboxes older than the call answer it with ENOSYS or EPERM, as kernels before 5.11 do.
#[test]
fn epoll_does_without_the_finer_wait() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        behind_a_filter(libc::SYS_epoll_pwait2, errno, || {
            let make = |options: &Options| {
                let epoll = Epoll::new(options, None).unwrap();
                let report = epoll.caps().to_string();
                assert!(report.contains("without waits finer"), "{report}");
                Some(epoll)
            };
            conformance::receiving::many_connections_echo_every_byte_in_order(&make);
            conformance::waiting::a_turn_without_events_ends_at_its_limit(&make);
            conformance::waiting::every_ring_is_heard_without_emptying_the_bell(&make);
        });
    }
}

#[test]
fn a_failure_of_the_wait_is_an_error_and_not_a_silent_turn() {
    behind_a_filter(libc::SYS_epoll_pwait2, libc::EIO, || {
        let error = Epoll::new(&Options::default(), None).map(drop).unwrap_err();
        assert!(error.to_string().contains("epoll_wait"), "{error}");
    });
}

#[test]
fn an_old_kernels_refusal_names_the_first_flag_it_does_not_know() {
    let Refusal::Missing(missing) = probe_behind_a_filter(libc::EINVAL).unwrap_err() else {
        panic!("EINVAL means that something is missing");
    };
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].to_string(), "CQSIZE (Linux 5.5)");
}

#[test]
fn the_report_of_a_working_ring_says_what_it_has() {
    match probe() {
        Ok(caps) => {
            println!("{caps}");
            let ring = Uring::new(&Options::default(), &caps).unwrap();
            let caps = ring.caps();
            println!("{caps}\n{}", caps.to_json());
            assert_eq!(caps.backend, "uring");
            assert!(caps.setup.contains(&"DEFER_TASKRUN"));
            assert!(caps.cq_entries >= caps.sq_entries);
            assert!(caps.to_json().starts_with("{\"backend\":\"uring\","));
        }
        Err(refusal) => println!("skipped: {refusal}"),
    }
}
