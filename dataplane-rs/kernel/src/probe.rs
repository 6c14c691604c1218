//! The start-up probe: does io_uring here do what we need, shown on a loopback pair?
//!
//! A kernel's list of operations says that an operation exists, not that it is multishot, takes
//! provided buffers or works under the sandbox of today. So everything that the backend builds on
//! is done once: connections accepted by one multishot accept, bytes received into provided
//! buffers, an eventfd reported twice by one multishot poll without being read. It costs about a
//! millisecond and leaves nothing behind.

use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use io_uring::{cqueue, opcode, squeue, types};

use crate::caps::{Missing, Refusal};
use crate::sys::EventFd;
use crate::tag::{Op, Tag};
use crate::uring::{Buffers, GROUP, Ring};
use crate::{Caps, Errno, Error, Options, Wait, sys};

/// A step of the self-test that takes longer than this has hung.
const STEP_WAIT: Duration = Duration::from_secs(2);

const BUFFER_SIZE: u32 = 4096;

/// Tries io_uring. The answer goes to [`crate::Uring::new`] and into the start-up report; sizes
/// in it are 0, because the ring of the test is small on purpose: a dropped ring goes on counting
/// against RLIMIT_MEMLOCK for some milliseconds, and a large one would crowd out the worker's.
pub fn probe() -> Result<Caps, Refusal> {
    let mut caps = Caps {
        backend: "uring",
        kernel: sys::kernel_release(),
        ..Caps::default()
    };
    let small = Options {
        sq_entries: 8,
        cq_entries: 16,
        ..Options::default()
    };
    let ring = Ring::new(&small, &mut caps)?;
    (caps.sq_entries, caps.cq_entries) = (0, 0);
    operations(&ring)?;
    let buffers = Buffers::new(&ring, 8, BUFFER_SIZE).map_err(setup)?;
    let mut test = SelfTest {
        ring,
        buffers: ManuallyDrop::new(buffers),
        batch: Vec::new(),
    };
    test.accepts_and_receives()?;
    test.polls_an_eventfd()?;
    test.quiet()?;
    let optional = [
        (
            caps.registered_ring,
            Missing {
                what: "registered ring descriptor",
                since: "5.18",
            },
        ),
        (
            caps.gather,
            Missing {
                what: "gathering waits",
                since: "6.12",
            },
        ),
        (
            caps.no_iowait,
            Missing {
                what: "waits outside of iowait",
                since: "6.15",
            },
        ),
    ];
    caps.lacking = optional
        .iter()
        .filter(|(there, _)| !there)
        .map(|(_, what)| *what)
        .collect();
    Ok(caps)
}

/// Asks the kernel for its list of operations.
fn operations(ring: &Ring) -> Result<(), Refusal> {
    let needed = [
        (
            opcode::Accept::CODE,
            Missing {
                what: "accept",
                since: "5.5",
            },
        ),
        (
            opcode::AsyncCancel::CODE,
            Missing {
                what: "cancel",
                since: "5.5",
            },
        ),
        (
            opcode::PollAdd::CODE,
            Missing {
                what: "poll",
                since: "5.1",
            },
        ),
        (
            opcode::Recv::CODE,
            Missing {
                what: "recv",
                since: "5.6",
            },
        ),
        (
            opcode::Send::CODE,
            Missing {
                what: "send",
                since: "5.6",
            },
        ),
    ];
    let mut known = io_uring::Probe::new();
    if ring.submitter().register_probe(&mut known).is_err() {
        return Err(Refusal::Missing(vec![Missing {
            what: "probe",
            since: "5.6",
        }]));
    }
    let missing: Vec<Missing> = needed
        .iter()
        .filter(|(code, _)| !known.is_supported(*code))
        .map(|(_, what)| *what)
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Refusal::Missing(missing))
    }
}

struct SelfTest {
    ring: Ring,
    /// The kernel may write there until the ring is quiet: dropped by hand.
    buffers: ManuallyDrop<Buffers>,
    batch: Vec<cqueue::Entry>,
}

impl SelfTest {
    fn accepts_and_receives(&mut self) -> Result<(), Refusal> {
        let (listener, address) = sys::loopback_listener().map_err(setup)?;
        let listener_fd = types::Fd(listener.as_raw_fd());
        self.order(Op::Accept, opcode::AcceptMulti::new(listener_fd).build());
        let mut pairs = Vec::new();
        for _ in 0..2 {
            let near = sys::connected_pair(address).map_err(setup)?;
            let accepted = self.next(Op::Accept, "accept")?;
            if accepted.result() == -libc::EINVAL {
                return Err(missing("multishot accept", "5.19"));
            }
            let far = descriptor(&accepted)?;
            if !cqueue::more(accepted.flags()) {
                return Err(wrong(
                    "accept",
                    "a multishot accept ended after one connection",
                ));
            }
            pairs.push((near, far));
        }
        self.cancel("accept", Op::Accept)?;
        for (near, far) in &mut pairs {
            self.receives(near, far)?;
        }
        Ok(())
    }

    /// Two receives, each into a buffer that the kernel picks when there is something.
    fn receives(&mut self, near: &mut std::net::TcpStream, far: &OwnedFd) -> Result<(), Refusal> {
        let far = types::Fd(far.as_raw_fd());
        for said in [&b"one"[..], &b"two."[..]] {
            let entry = opcode::Recv::new(far, std::ptr::null_mut(), BUFFER_SIZE)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT);
            self.order(Op::Recv, entry);
            near.write_all(said)
                .map_err(|error| setup(Error::io("write", &error)))?;
            let received = self.next(Op::Recv, "receive")?;
            let Some(buffer) = cqueue::buffer_select(received.flags()) else {
                return Err(wrong(
                    "receive",
                    &format!("no buffer, result {}", received.result()),
                ));
            };
            // SAFETY: the buffer came with a completion and is never given back, and the memory
            // is there until `self` is dropped.
            let heard = unsafe {
                self.buffers
                    .filled(buffer, received.result().max(0) as usize)
            };
            if heard != said {
                return Err(wrong("receive", "other bytes than were sent"));
            }
        }
        Ok(())
    }

    fn polls_an_eventfd(&mut self) -> Result<(), Refusal> {
        let bell = EventFd::new().map_err(setup)?;
        let fd = types::Fd(bell.as_fd().as_raw_fd());
        self.order(
            Op::Wake,
            opcode::PollAdd::new(fd, libc::POLLIN as u32)
                .multi(true)
                .build(),
        );
        for _ in 0..2 {
            bell.ring().map_err(setup)?;
            let woken = self.next(Op::Wake, "poll")?;
            if woken.result() < 0 {
                return Err(missing("multishot poll", "5.13"));
            }
            if !cqueue::more(woken.flags()) {
                return Err(wrong("poll", "a multishot poll ended after one event"));
            }
        }
        self.cancel("poll", Op::Wake)
    }

    fn order(&mut self, op: Op, entry: squeue::Entry) {
        let entry = entry.user_data(
            Tag {
                op,
                generation: 0,
                index: 0,
            }
            .pack(),
        );
        // SAFETY: no entry of this test points to memory of its own.
        unsafe { self.ring.push(entry) };
    }

    /// The next completion of `op`.
    fn next(&mut self, op: Op, step: &'static str) -> Result<cqueue::Entry, Refusal> {
        let deadline = sys::boot_ns() + STEP_WAIT.as_nanos() as u64;
        loop {
            let found = self.batch.iter().position(|completion| is(completion, op));
            if let Some(position) = found {
                return Ok(self.batch.remove(position));
            }
            if sys::boot_ns() > deadline {
                return Err(wrong(step, "nothing came"));
            }
            self.ring
                .enter(Wait::at_most(Duration::from_millis(50)))
                .map_err(setup)?;
            self.ring.reap(&mut self.batch);
        }
    }

    /// Cancels `op` and reads completions up to its last.
    fn cancel(&mut self, step: &'static str, op: Op) -> Result<(), Refusal> {
        let target = Tag {
            op,
            generation: 0,
            index: 0,
        }
        .pack();
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::user_data(target)).build();
        self.order(Op::CancelQuiet, cancel);
        loop {
            let completion = self.next(op, step)?;
            if op == Op::Accept && completion.result() >= 0 {
                descriptor(&completion)?;
            }
            if !cqueue::more(completion.flags()) {
                return Ok(());
            }
        }
    }

    /// Waits until nothing is in flight, so that all memory may go.
    fn quiet(&mut self) -> Result<(), Refusal> {
        let deadline = sys::boot_ns() + STEP_WAIT.as_nanos() as u64;
        while self.ring.in_flight() > 0 {
            if sys::boot_ns() > deadline {
                return Err(wrong("end", "an operation does not end"));
            }
            self.ring
                .enter(Wait::at_most(Duration::from_millis(50)))
                .map_err(setup)?;
            self.ring.reap(&mut self.batch);
        }
        Ok(())
    }
}

impl Drop for SelfTest {
    fn drop(&mut self) {
        // After a failed step something may still be in flight. If it cannot be stopped, the
        // memory leaks rather than being written to by surprise.
        if self.ring.in_flight() > 0 {
            let all = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
            self.order(Op::CancelQuiet, all);
        }
        if self.quiet().is_ok() {
            // SAFETY: dropped once, not used again, and the kernel has no claim on it.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

fn is(completion: &cqueue::Entry, op: Op) -> bool {
    Tag::unpack(completion.user_data()).is_some_and(|tag| tag.op == op)
}

/// Takes the descriptor out of an accept's completion and checks that there is one: Linux 6.6.1
/// to 6.7.4 returned numbers that were none.
fn descriptor(completion: &cqueue::Entry) -> Result<OwnedFd, Refusal> {
    let fd = completion.result();
    // SAFETY: F_GETFL takes no pointer and fails on what is no descriptor.
    if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFL) } < 0 {
        let errno = Errno(if fd < 0 { -fd } else { libc::EBADF });
        return Err(wrong("accept", &format!("result {fd}: {errno}")));
    }
    // SAFETY: the kernel made this descriptor for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn missing(what: &'static str, since: &'static str) -> Refusal {
    Refusal::Missing(vec![Missing { what, since }])
}

fn wrong(step: &'static str, seen: &str) -> Refusal {
    Refusal::SelfTest {
        step,
        seen: seen.to_owned(),
    }
}

fn setup(error: Error) -> Refusal {
    let error = match error {
        Error::Refused(refusal) => return refusal,
        error => error,
    };
    Refusal::SelfTest {
        step: "setup",
        seen: error.to_string(),
    }
}
