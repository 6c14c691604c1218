//! Rings under a small RLIMIT_MEMLOCK. The limit is the whole process's: one test, alone.

use std::thread;

use sluice_kernel::{Backend, Caps, Error, Options, Refusal, Uring, probe};

/// A user that is not root, for whom the limit is not enforced, and that nobody else is: locked
/// memory is counted per user.
fn nobody_else() -> u32 {
    0x4000_0000 + std::process::id()
}

fn ring_with(limit: u64, options: &Options) -> Result<Caps, Refusal> {
    let options = options.clone();
    thread::spawn(move || {
        // SAFETY: plain numbers. The raw call changes this thread only, unlike setresuid(3).
        unsafe {
            let limit = libc::rlimit {
                rlim_cur: limit,
                rlim_max: libc::RLIM_INFINITY,
            };
            let hard = libc::rlimit {
                rlim_max: limit.rlim_cur,
                ..limit
            };
            let set = libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) == 0
                || libc::setrlimit(libc::RLIMIT_MEMLOCK, &hard) == 0;
            assert!(set);
            if libc::geteuid() == 0 {
                let user = nobody_else();
                assert_eq!(libc::syscall(libc::SYS_setresuid, user, user, user), 0);
            }
        }
        match Uring::new(&options, &probe()?) {
            Ok(ring) => Ok(ring.caps().clone()),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(error) => panic!("{error}"),
        }
    })
    .join()
    .unwrap()
}

#[test]
fn little_locked_memory_makes_smaller_rings_and_too_little_is_said() {
    let wanted = Options {
        sq_entries: 4096,
        cq_entries: 16384,
        ..Options::default()
    };
    let caps = match ring_with(300 << 10, &wanted) {
        Ok(caps) => caps,
        Err(refusal) if !matches!(refusal, Refusal::LockedMemory { .. }) => {
            println!("skipped: {refusal}");
            return;
        }
        Err(refusal) => panic!("300 KiB are enough for a small ring: {refusal}"),
    };
    println!("{caps}");
    assert!(caps.sq_entries < 4096 && caps.sq_entries >= 256, "{caps}");
    assert!(caps.cq_entries < 16384 && caps.cq_entries >= 1024, "{caps}");
    let refusal = ring_with(8 << 10, &wanted).unwrap_err();
    assert_eq!(refusal, Refusal::LockedMemory { limit: 8 << 10 });
}
