//! What a restricted ring may still be asked for.
//!
//! A seccomp filter sees system calls, and of a ring it sees only `io_uring_enter`: through one, a
//! filtered process could open files and connect to hosts all the same. So the kernel is told,
//! once and irrevocably, what is asked of this ring, and answers EACCES to all else.

use io_uring::register::Restriction;
use io_uring::{opcode, squeue};

use super::ring::Ring;
use crate::Errno;

/// Every operation of this backend.
const OPERATIONS: [u8; 5] = [
    opcode::Accept::CODE, // A multishot accept is the same operation.
    opcode::AsyncCancel::CODE,
    opcode::PollAdd::CODE,
    opcode::Recv::CODE,
    opcode::Send::CODE,
];

/// The flags that any of them is submitted with: a receive picks its buffer, a send that succeeds
/// says nothing.
const FLAGS: squeue::Flags = squeue::Flags::BUFFER_SELECT.union(squeue::Flags::SKIP_SUCCESS);

/// `IORING_UNREGISTER_RING_FDS`, the only registration that is undone while the ring is in use.
const UNREGISTER_RING_FDS: u8 = 21;

impl Ring {
    /// Restricts a ring that was made disabled, and enables it for the calling thread, which is
    /// its single issuer from then on. All other registrations come before (Linux 5.10).
    pub(super) fn restrict(&self) -> Result<(), Errno> {
        let mut restrictions = vec![
            Restriction::register_op(UNREGISTER_RING_FDS),
            Restriction::sqe_flags_allowed(FLAGS.bits()),
        ];
        restrictions.extend(OPERATIONS.map(Restriction::sqe_op));
        self.submitter()
            .register_restrictions(&mut restrictions)
            .and_then(|()| self.submitter().register_enable_rings())
            .map_err(|error| Errno::of(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use io_uring::types;

    use super::*;
    use crate::uring::make;
    use crate::{Options, Wait};

    /// What a ring answers to operations that this backend never asks for, by name.
    fn answers(restrict: bool) -> Option<Vec<(&'static str, i32)>> {
        let options = Options {
            buffers: 1,
            cq_entries: 16,
            restrict,
            sq_entries: 8,
            ..Options::default()
        };
        let mut caps = match crate::probe() {
            Ok(caps) => caps,
            Err(refusal) => {
                println!("skipped: {refusal}");
                return None;
            }
        };
        let (mut ring, _buffers) = make(options, &mut caps).unwrap();
        assert_eq!(caps.restricted, restrict);
        let nowhere = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: 0 },
            sin_zero: [0; 8],
        };
        let no_fd = types::Fd(-1);
        let cancel = || opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
        let asked = [
            (
                "openat",
                opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), c"/".as_ptr())
                    .flags(libc::O_PATH | libc::O_CLOEXEC)
                    .build(),
            ),
            (
                "socket",
                opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
                    .build(),
            ),
            (
                "connect",
                opcode::Connect::new(no_fd, (&raw const nowhere).cast(), 16).build(),
            ),
            ("nop", opcode::Nop::new().build()),
            (
                "a flag that is not used",
                cancel().flags(squeue::Flags::ASYNC),
            ),
            ("cancel", cancel()),
        ];
        let mut answers = Vec::new();
        for (name, entry) in asked {
            // SAFETY: what the entry points to is static or outlives the loop, in which its only
            // completion is awaited.
            unsafe { ring.push(entry) };
            let mut batch = Vec::new();
            while batch.is_empty() {
                ring.enter(Wait::at_most(Duration::from_secs(1))).unwrap();
                ring.reap(&mut batch);
            }
            let result = batch[0].result();
            if result >= 0 && ["openat", "socket"].contains(&name) {
                // SAFETY: the descriptor was just made and nobody else knows it.
                unsafe { libc::close(result) };
            }
            answers.push((name, result));
        }
        let registered = ring.submitter().unregister_files().unwrap_err();
        answers.push(("unregister files", -Errno::of(&registered).0));
        Some(answers)
    }

    #[test]
    fn a_restricted_ring_denies_all_that_this_backend_does_not_ask_for() {
        for (name, answer) in answers(true).into_iter().flatten() {
            let expected = if name == "cancel" { 0 } else { -libc::EACCES };
            assert_eq!(answer, expected, "{name}");
        }
    }

    #[test]
    fn another_ring_does_what_it_is_asked_for() {
        for (name, answer) in answers(false).into_iter().flatten() {
            assert_ne!(answer, -libc::EACCES, "{name}");
        }
    }
}
