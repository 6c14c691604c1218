//! Who the process is, and becoming somebody who owns nothing.

use crate::Errno;
use crate::sandbox::{Lacking, Layer};

/// Where names are looked up. Directory services are not asked: they would leave sockets and
/// threads of their own behind in this process.
const PASSWD: &str = "/etc/passwd";

/// The kernel's number for nobody (`overflowuid`), for images that have no /etc/passwd.
const NOBODY: u32 = 65534;

/// A user to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl User {
    /// Reads `NAME`, `UID` or `UID:GID` (or `NAME:GID`). A group that is not given is the user's
    /// first one, or that of the same number. The error is for the operator.
    pub fn find(text: &str) -> Result<User, String> {
        find(text, &std::fs::read_to_string(PASSWD).unwrap_or_default())
    }
}

fn find(text: &str, passwd: &str) -> Result<User, String> {
    let (name, group) = match text.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (text, None),
    };
    let gid = match group {
        Some(group) => {
            Some(number(group).ok_or(format!("user {text:?}: the group is no number in range"))?)
        }
        None => None,
    };
    let uid = number(name);
    let listed = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (login, uid_listed, gid_listed) = (fields.next()?, fields.nth(1)?, fields.next()?);
        let found = User {
            uid: number(uid_listed)?,
            gid: number(gid_listed)?,
        };
        (login == name || Some(found.uid) == uid).then_some(found)
    });
    let user = match (listed, uid) {
        (Some(listed), _) => listed,
        (None, Some(uid)) => User { uid, gid: uid },
        (None, None) if name == "nobody" => User {
            uid: NOBODY,
            gid: NOBODY,
        },
        (None, None) => {
            return Err(format!(
                "user {text:?}: {PASSWD} has no such name; \
                 one of a directory service is given as UID:GID"
            ));
        }
    };
    Ok(User {
        gid: gid.unwrap_or(user.gid),
        ..user
    })
}

/// An id. The highest number is none: to setresuid(2) it means "leave it as it is".
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&id| digits && id != u32::MAX)
}

/// The effective user of this process.
pub fn current_user() -> u32 {
    // SAFETY: no arguments; it cannot fail.
    unsafe { libc::geteuid() }
}

/// Becomes `user` for good and leaves all other groups, if this process is root; who is an
/// ordinary user already stays it. What is open stays open.
///
/// The change also makes the process undumpable: no other one of that user can trace it or read
/// its memory, and its directory below /proc belongs to root. Who was an ordinary user all along
/// stays dumpable, because under `hidepid=` its control plane, of the same user, would no longer
/// find it below /proc, and take it for dead.
pub fn become_user(user: User) -> Result<(), Lacking> {
    let lacking = |cause: String, mend| Lacking {
        layer: Layer::User,
        cause,
        mend,
    };
    if current_user() != 0 {
        return Ok(());
    }
    if user.uid == 0 {
        let cause = "the user to become is root itself".into();
        return Err(lacking(cause, "name an ordinary user"));
    }
    // SAFETY: plain numbers; a list of no groups is read by nobody. All threads change together
    // (credentials are a process's to the C library).
    let step = unsafe {
        if libc::setgroups(0, std::ptr::null()) != 0 {
            Some("setgroups")
        } else if libc::setresgid(user.gid, user.gid, user.gid) != 0 {
            Some("setresgid")
        } else if libc::setresuid(user.uid, user.uid, user.uid) != 0 {
            Some("setresuid")
        } else {
            None
        }
    };
    if let Some(step) = step {
        let cause = format!("{step} to {}:{}: {}", user.uid, user.gid, Errno::last());
        return Err(lacking(
            cause,
            "give CAP_SETUID and CAP_SETGID and, in a user namespace, map the ids; \
             or start as an ordinary user",
        ));
    }
    // The kernel does this by itself unless the sysctl fs.suid_dumpable says otherwise.
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "root:x:0:0:root:/root:/bin/bash\n\
                        broken\n\
                        nobody:x:65534:65533:nobody:/:/usr/sbin/nologin\n\
                        sluice:x:990:980::/:/bin/false\n";

    #[test]
    fn names_and_numbers_are_found_with_their_group() {
        for (text, uid, gid) in [
            ("nobody", 65534, 65533),
            ("sluice", 990, 980),
            ("990", 990, 980),
            ("990:5", 990, 5),
            ("sluice:5", 990, 5),
            ("12345", 12345, 12345),
            ("root", 0, 0),
        ] {
            assert_eq!(find(text, LIST), Ok(User { uid, gid }), "{text}");
        }
        let bare = find("nobody", "").unwrap();
        assert_eq!((bare.uid, bare.gid), (NOBODY, NOBODY));
    }

    #[test]
    fn what_is_no_user_is_refused_and_named() {
        for text in [
            "",
            "nosuch",
            "-1",
            "+5",
            "4294967295",
            "990:x",
            "990:",
            "5 ",
        ] {
            let error = find(text, LIST).unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
