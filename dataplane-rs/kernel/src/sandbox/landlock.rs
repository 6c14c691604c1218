//! No file system, no network, nobody to signal: by Landlock, which also binds what a ring does in
//! the thread's name and seccomp cannot see.

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    Scope,
};

use crate::Errno;
use crate::sandbox::{Lacking, Layer};

/// From now on the calling thread, and those that it starts, open no path at all, bind and connect
/// no TCP socket (Linux 6.7), reach no abstract Unix socket and signal no process outside of this
/// one (6.12). What is open stays as it is: listening sockets, the socket files of the control
/// plane, mapped lanes.
///
/// Nothing is allowed, for nothing is needed: what asks for files while serving (malloc for
/// overcommit_memory, a panic's backtrace for symbols) does without.
///
/// The file system (Linux 5.13) is what makes the layer; on kernels that cannot do the rest, the
/// list of system calls has no socket(2), bind(2), connect(2) nor kill(2).
pub fn close_files() -> Result<(), Lacking> {
    restrict().map_err(|error| match unavailable() {
        Some(Errno(libc::EOPNOTSUPP)) => lacking(
            "built into the kernel but not enabled",
            "add landlock to the boot parameter lsm=",
        ),
        Some(Errno(libc::ENOSYS)) => lacking(
            "ENOSYS: a kernel without it, or a container's seccomp filter that hides it",
            "run Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK, or allow the landlock_* calls",
        ),
        Some(errno) => lacking(
            &errno.to_string(),
            "allow the landlock_* system calls in the container's seccomp profile",
        ),
        None => lacking(&error.to_string(), "report it with the kernel's version"),
    })
}

fn restrict() -> Result<(), RulesetError> {
    // The newest ABI that was tried; what newer ones bring is not asked for.
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .restrict_self()?;
    Ok(())
}

fn lacking(cause: &str, mend: &'static str) -> Lacking {
    Lacking {
        layer: Layer::Landlock,
        cause: cause.into(),
        mend,
    }
}

/// Why the kernel gives none: it is asked for its version. `None`: it has some.
fn unavailable() -> Option<Errno> {
    const VERSION: libc::c_ulong = 1; // LANDLOCK_CREATE_RULESET_VERSION of linux/landlock.h
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes no attributes and creates nothing.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) };
    (version < 0).then(Errno::last)
}
