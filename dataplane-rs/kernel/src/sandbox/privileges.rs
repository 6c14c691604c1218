//! Capabilities, privileges by exec, core dumps.

use crate::Errno;
use crate::sandbox::{Lacking, Layer};

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h: two words of each set.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Empties the sets of capabilities of the calling thread, the ambient one too, which also an
/// ordinary user may have been given (`AmbientCapabilities=`). The bounding set stays: it says what
/// exec may bring along, and without new privileges that is nothing.
pub fn drop_capabilities() -> Result<(), Lacking> {
    let lacking = |cause| Lacking {
        layer: Layer::Capabilities,
        cause,
        mend: "let the process call capset(2)",
    };
    let clear_all = libc::PR_CAP_AMBIENT_CLEAR_ALL;
    // SAFETY: plain numbers. Kernels before 4.3 have no ambient set.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear_all, 0, 0, 0) };
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    let mut sets = [CapabilityWords::default(); 2];
    // SAFETY: the header is of version 3, for which the sets are two of these structs; the kernel
    // reads both during the call.
    if unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) } != 0 {
        return Err(lacking(format!("capset: {}", Errno::last())));
    }
    // SAFETY: likewise, and `sets` is there to be written to.
    let read = unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) };
    match read {
        0 if sets == [CapabilityWords::default(); 2] => Ok(()),
        _ => Err(lacking("some stayed".into())),
    }
}

/// From now on no program that this thread starts has more rights than it has itself (Linux 3.5).
/// Landlock and seccomp want it so.
pub fn forbid_new_privileges() -> Result<(), Lacking> {
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(Lacking {
            layer: Layer::NoNewPrivs,
            cause: format!("prctl(PR_SET_NO_NEW_PRIVS): {}", Errno::last()),
            mend: "let the process call prctl(2)",
        });
    }
    Ok(())
}

/// Sees to it that no core file is written: it would hold private keys and bodies.
pub fn forbid_core_dumps() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid rlimit. Lowering one's own limit is always allowed.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}
