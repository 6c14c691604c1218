//! The process as a whole: its limits, its kernel, its threads' places, its randomness.

use std::ffi::CStr;

use crate::{Errno, Error};

/// RLIMIT_NOFILE: how many descriptors the process may have open (soft, hard).
pub fn descriptor_limit() -> Result<(u64, u64), Error> {
    limit(libc::RLIMIT_NOFILE, "getrlimit(RLIMIT_NOFILE)")
}

/// Raises the soft descriptor limit to the hard one and says what it is now.
pub fn descriptor_limit_raise() -> Result<u64, Error> {
    let (_, hard) = descriptor_limit()?;
    let wanted = libc::rlimit {
        rlim_cur: hard,
        rlim_max: hard,
    };
    // SAFETY: `wanted` is a valid rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) } != 0 {
        return Err(Error::last("setrlimit(RLIMIT_NOFILE)"));
    }
    Ok(hard)
}

/// RLIMIT_MEMLOCK, soft, in bytes. Rings count against it unless the process has CAP_IPC_LOCK.
pub fn memlock_limit() -> Result<u64, Error> {
    Ok(limit(libc::RLIMIT_MEMLOCK, "getrlimit(RLIMIT_MEMLOCK)")?.0)
}

fn limit(resource: libc::__rlimit_resource_t, call: &'static str) -> Result<(u64, u64), Error> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit to fill in.
    if unsafe { libc::getrlimit(resource, &mut limit) } != 0 {
        return Err(Error::last(call));
    }
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// The running kernel's release, such as `6.12.9`.
pub fn kernel_release() -> String {
    // SAFETY: utsname is plain bytes, for which zero is valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a valid utsname to fill in.
    if unsafe { libc::uname(&mut name) } != 0 {
        return "unknown".to_owned();
    }
    // SAFETY: the kernel ends the field with a zero inside the array.
    let release = unsafe { CStr::from_ptr(name.release.as_ptr()) };
    release.to_string_lossy().into_owned()
}

/// Keeps the calling thread on one processor.
pub fn pin_thread(cpu: usize) -> Result<(), Error> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(Error::Syscall {
            call: "sched_setaffinity",
            errno: Errno(libc::EINVAL),
        });
    }
    // SAFETY: cpu_set_t is a bit array, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE, as checked above.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is a whole cpu_set_t; 0 means the calling thread.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } != 0 {
        return Err(Error::last("sched_setaffinity"));
    }
    Ok(())
}

/// Fills `bytes` from the kernel's random number generator. Blocks only in a machine's first
/// moments, before the generator is seeded.
pub fn random(bytes: &mut [u8]) -> Result<(), Error> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: `rest` is writable for its length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        if n >= 0 {
            filled += n as usize;
        } else if Errno::last() != Errno(libc::EINTR) {
            return Err(Error::last("getrandom"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_differ() {
        let (mut one, mut other) = ([0u8; 32], [0u8; 32]);
        random(&mut one).unwrap();
        random(&mut other).unwrap();
        assert_ne!(one, other);
        random(&mut []).unwrap();
    }

    #[test]
    fn limits_can_be_read_and_the_kernel_has_a_version() {
        let (soft, hard) = descriptor_limit().unwrap();
        assert!(0 < soft && soft <= hard);
        memlock_limit().unwrap();
        assert!(kernel_release().starts_with(|c: char| c.is_ascii_digit()));
    }

    #[test]
    fn a_pinned_thread_runs_where_it_was_told_and_a_wrong_processor_is_an_error() {
        std::thread::spawn(|| {
            // SAFETY: no arguments.
            let here = unsafe { libc::sched_getcpu() } as usize;
            pin_thread(here).unwrap();
            // SAFETY: no arguments.
            assert_eq!(unsafe { libc::sched_getcpu() } as usize, here);
            assert!(pin_thread(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }
}
