//! The two clocks: one that never jumps and counts suspended time, one that people read.

/// `CLOCK_BOOTTIME` in nanoseconds: for deadlines, and comparable between processes of one boot.
pub fn boot_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// `CLOCK_REALTIME` in nanoseconds since 1970: for what is stored and shown. May jump.
pub fn wall_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec for the call to fill in.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    // Both clocks exist since Linux 2.6.39; only a bad pointer or clock id makes this fail.
    assert_eq!(result, 0, "clock_gettime({clock})");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_never_goes_back() {
        let mut last = boot_ns();
        for _ in 0..10_000 {
            let now = boot_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn wall_time_is_the_standard_librarys() {
        let before = std::time::SystemTime::now();
        let ours = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(wall_ns());
        let after = std::time::SystemTime::now();
        assert!(before <= ours && ours <= after);
    }
}
