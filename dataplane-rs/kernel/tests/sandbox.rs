//! What the probe says under a sandbox, and that it says why.

use std::thread;

use sluice_kernel::{Backend, Caps, Options, Refusal, Uring, probe};

/// Runs the probe on a thread for which `io_uring_setup` fails with `errno`.
fn probe_behind_a_filter(errno: i32) -> Result<Caps, Refusal> {
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
                k: libc::SYS_io_uring_setup as u32,
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
        probe()
    })
    .join()
    .unwrap()
}

#[test]
fn a_filter_that_forbids_io_uring_is_told_from_the_sysctl() {
    let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let refusal = probe_behind_a_filter(libc::EPERM).unwrap_err();
    match sysctl.ok().and_then(|text| text.trim().parse().ok()) {
        None | Some(0) => assert_eq!(refusal, Refusal::Sandboxed),
        Some(value) => assert_eq!(refusal, Refusal::SwitchedOff { value }),
    }
}

#[test]
fn a_filter_that_hides_io_uring_looks_like_a_kernel_without() {
    assert_eq!(
        probe_behind_a_filter(libc::ENOSYS).unwrap_err(),
        Refusal::NoSuchCall
    );
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
