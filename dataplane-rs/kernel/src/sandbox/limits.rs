//! The limits of the process, raised as far as it may.

/// Raises RLIMIT_NOFILE to `needed`, and where that is not allowed (above the hard limit it takes
/// CAP_SYS_RESOURCE) as near to it as possible; never lowers it. Says how many descriptors the
/// process may have open now.
pub fn raise_descriptors(needed: u64) -> u64 {
    let (soft, hard) = read(libc::RLIMIT_NOFILE);
    let wanted = hard.max(needed);
    if set(libc::RLIMIT_NOFILE, wanted, wanted) {
        return wanted;
    }
    if set(libc::RLIMIT_NOFILE, hard, hard) {
        return hard;
    }
    soft
}

/// Takes the limit off memory that the process locks, if it may. Rings count against that of the
/// *user*, over all of its processes: for root there is none, and whoever is about to become an
/// ordinary user must not find those of the data plane before it in its way.
pub fn raise_locked_memory() {
    let (soft, hard) = read(libc::RLIMIT_MEMLOCK);
    let all = libc::RLIM_INFINITY;
    if !set(libc::RLIMIT_MEMLOCK, all, all) && soft < hard {
        set(libc::RLIMIT_MEMLOCK, hard, hard);
    }
}

/// Soft and hard.
fn read(resource: libc::__rlimit_resource_t) -> (u64, u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid rlimit to fill in; for a resource of a constant's name it cannot fail.
    unsafe { libc::getrlimit(resource, &mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

fn set(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> bool {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: a valid rlimit.
    unsafe { libc::setrlimit(resource, &limit) == 0 }
}
