//! Why `io_uring_setup` was refused: the errno says little, the process's surroundings say whose
//! decision it was.

use std::fs;

use crate::caps::Refusal;
use crate::{Errno, sys};

/// CAP_SYS_ADMIN (capability.h), to whom `kernel.io_uring_disabled` of 1 does not apply.
const CAP_SYS_ADMIN: u32 = 21;

/// What may stand in the way, as it is for the calling thread.
struct Surroundings {
    /// The sysctls `kernel.io_uring_disabled` (Linux 6.6) and `kernel.io_uring_group`.
    disabled: u32,
    group: String,
    /// `/proc/thread-self/status`; empty without a proc file system.
    status: String,
}

/// Says whose fault a setup that failed for permission, or for not being there, is. `None` for
/// other errors.
pub(super) fn cause(errno: Errno) -> Option<Refusal> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let disabled = read("/proc/sys/kernel/io_uring_disabled");
    let around = Surroundings {
        disabled: disabled.trim().parse().unwrap_or(0),
        group: read("/proc/sys/kernel/io_uring_group").trim().to_owned(),
        status: read("/proc/thread-self/status"),
    };
    match errno {
        Errno(libc::ENOMEM) => Some(Refusal::LockedMemory {
            limit: sys::memlock_limit().unwrap_or(0),
        }),
        Errno(libc::ENOSYS | libc::EPERM | libc::EACCES) => Some(around.judge(errno)),
        _ => None,
    }
}

impl Surroundings {
    fn judge(&self, errno: Errno) -> Refusal {
        let missing = errno == Errno(libc::ENOSYS);
        if !missing && self.switched_off() {
            let value = self.disabled;
            return Refusal::SwitchedOff { value };
        }
        match (self.field("Seccomp"), missing) {
            (Some("2"), _) => Refusal::Sandboxed { errno },
            (_, true) => Refusal::NoSuchCall,
            (Some(_), false) => Refusal::Forbidden,
            // Nothing is known; this is by far the most frequent cause.
            (None, false) => Refusal::Sandboxed { errno },
        }
    }

    /// As io_uring_allowed() in the kernel decides it.
    fn switched_off(&self) -> bool {
        match self.disabled {
            0 => false,
            1 => !self.may_administer() && !self.in_group(),
            _ => true,
        }
    }

    fn may_administer(&self) -> bool {
        let effective = self.field("CapEff").unwrap_or("0");
        let effective = u64::from_str_radix(effective, 16).unwrap_or(0);
        effective >> CAP_SYS_ADMIN & 1 == 1
    }

    /// The sysctl's group is -1 where none was set, which is nobody's.
    fn in_group(&self) -> bool {
        let own = self.field("Gid").unwrap_or("").split_whitespace();
        let more = self.field("Groups").unwrap_or("").split_whitespace();
        own.chain(more).any(|group| group == self.group)
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: Errno = Errno(libc::EPERM);
    const HIDDEN: Errno = Errno(libc::ENOSYS);

    fn judged(errno: Errno, disabled: u32, status: &str) -> Refusal {
        let around = Surroundings {
            disabled,
            group: "988".to_owned(),
            status: status.to_owned(),
        };
        around.judge(errno)
    }

    #[test]
    fn a_filter_is_named_when_there_is_one_whatever_it_answers() {
        let status = "Name:\tdp\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        for errno in [DENIED, HIDDEN] {
            assert_eq!(judged(errno, 0, status), Refusal::Sandboxed { errno });
        }
    }

    #[test]
    fn without_a_filter_it_is_the_kernel_or_its_security_module() {
        let status = "Seccomp:\t0\n";
        assert_eq!(judged(HIDDEN, 0, status), Refusal::NoSuchCall);
        assert_eq!(judged(DENIED, 0, status), Refusal::Forbidden);
        assert_eq!(judged(HIDDEN, 0, ""), Refusal::NoSuchCall);
        let errno = DENIED;
        assert_eq!(judged(errno, 0, ""), Refusal::Sandboxed { errno });
    }

    #[test]
    fn the_sysctl_is_named_when_it_applies_to_this_process() {
        let off = |value| Refusal::SwitchedOff { value };
        let plain = "Gid:\t100\t100\t100\t100\nGroups:\t27 100 \nCapEff:\t0\nSeccomp:\t2\n";
        assert_eq!(judged(DENIED, 1, plain), off(1));
        assert_eq!(judged(DENIED, 2, plain), off(2));
        let errno = DENIED;
        for may in [
            plain.replace("27", "27 988"),
            plain.replace("\t100\t", "\t988\t"),
            plain.replace("CapEff:\t0", "CapEff:\t000001ffffffffff"),
        ] {
            assert_eq!(judged(errno, 1, &may), Refusal::Sandboxed { errno });
            assert_eq!(judged(errno, 2, &may), off(2));
        }
        let others = plain.replace("CapEff:\t0", "CapEff:\t000001ffffdfffff");
        assert_eq!(judged(errno, 1, &others), off(1));
    }
}
