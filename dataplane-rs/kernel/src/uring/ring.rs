//! The io_uring itself: made with the flags we insist on, submitted to and waited on in one call
//! per turn.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter, cqueue, squeue};

use super::cause::cause;
use crate::caps::{Missing, Refusal};
use crate::tag::{Op, Tag};
use crate::{Caps, Errno, Error, Options, Wait};

/// The smallest ring worth running: what 64 KiB of locked memory allow.
pub(super) const SQ_ENTRIES_MIN: u32 = 256;
const CQ_ENTRIES_MIN: u32 = 1024;

/// A ring and its three parts. Stays on the thread that made it (SINGLE_ISSUER): the pointer
/// makes the type `!Send`.
pub(crate) struct Ring {
    submitter: ManuallyDrop<Submitter<'static>>,
    sq: ManuallyDrop<SubmissionQueue<'static>>,
    cq: ManuallyDrop<CompletionQueue<'static>>,
    /// Owns what the parts above borrow.
    ring: NonNull<IoUring>,
    /// Submissions that found the queue full while the kernel took none; first in, first out.
    backlog: VecDeque<squeue::Entry>,
    /// Operations that are not known to be over.
    in_flight: u64,
    /// Of these, the quiet ones.
    quiet: u64,
    gather: bool,
    no_iowait: bool,
}

impl Ring {
    /// Makes a ring and writes into `caps` what came of it. One that is to be restricted does
    /// nothing before it is.
    pub(crate) fn new(options: &Options, caps: &mut Caps) -> Result<Ring, Refusal> {
        let ring = build(options)?;
        let (gather, no_iowait) = (
            ring.params().is_feature_min_timeout(),
            ring.params().is_feature_no_iowait(),
        );
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_ext_arg() {
            return Err(Refusal::Missing(vec![Missing {
                what: "waits with a timeout argument and completions that are never dropped",
                since: "5.11",
            }]));
        }
        caps.sq_entries = ring.params().sq_entries();
        caps.cq_entries = ring.params().cq_entries();
        caps.gather = gather;
        caps.no_iowait = no_iowait;
        caps.setup = FLAGS.iter().map(|flag| flag.name).collect();
        let mut owner = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: the box is alive until `drop`, where the parts go first, and nothing else
        // refers to it.
        let (mut submitter, sq, cq) = unsafe { owner.as_mut() }.split();
        caps.registered_ring = submitter.register_ring_fd().is_ok();
        Ok(Ring {
            submitter: ManuallyDrop::new(submitter),
            sq: ManuallyDrop::new(sq),
            cq: ManuallyDrop::new(cq),
            ring: owner,
            backlog: VecDeque::new(),
            in_flight: 0,
            quiet: 0,
            gather,
            no_iowait,
        })
    }

    pub(crate) fn submitter(&self) -> &Submitter<'static> {
        &self.submitter
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Queues one operation for the next turn.
    ///
    /// # Safety
    ///
    /// What the entry points to stays valid and unmoved until its last completion is reaped.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry) {
        self.in_flight += 1;
        // SAFETY: promised by the caller.
        if !self.backlog.is_empty() || unsafe { self.sq.push(&entry) }.is_err() {
            self.backlog.push_back(entry);
            self.flush();
        }
    }

    /// Queues an operation, tagged [`Op::QuietSend`], that is over as soon as the kernel has taken
    /// it and completes only if it failed: see [`Ring::took_all`].
    ///
    /// # Safety
    ///
    /// As [`Ring::push`]; it must not be one that waits in the kernel.
    pub(crate) unsafe fn push_quiet(&mut self, entry: squeue::Entry) {
        self.quiet += 1;
        // SAFETY: promised by the caller.
        unsafe { self.push(entry.flags(squeue::Flags::SKIP_SUCCESS)) };
    }

    /// Whether the kernel has taken all that was pushed, and holds no completion back: then quiet
    /// operations that have not completed have succeeded, and are counted as over. To be asked
    /// between [`Ring::reap`] and the next push.
    pub(crate) fn took_all(&mut self) -> bool {
        let took_all = self.backlog.is_empty() && self.sq.is_empty() && !self.sq.cq_overflow();
        if took_all {
            self.in_flight -= std::mem::take(&mut self.quiet);
        }
        took_all
    }

    /// Moves the backlog into the submission queue, and that into the kernel if it is full.
    fn flush(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: promised to `push`.
            if unsafe { self.sq.push(entry) }.is_ok() {
                self.backlog.pop_front();
                continue;
            }
            self.sq.sync();
            let submitted = self.submitter.submit();
            self.sq.sync();
            if submitted.is_err() || self.sq.is_full() {
                return; // The completion queue is full; the turn drains it and comes back.
            }
        }
    }

    /// Whether the kernel holds completions back because the queue is full.
    pub(crate) fn overflown(&self) -> bool {
        self.sq.cq_overflow()
    }

    /// Submits everything and waits. A signal, a timeout and a full completion queue are no
    /// errors: reap what is there and come again.
    pub(crate) fn enter(&mut self, wait: Wait) -> Result<(), Error> {
        self.flush();
        self.sq.sync();
        let look_only = wait.at_most.is_some_and(|limit| limit.is_zero());
        let mut want = if look_only || !self.backlog.is_empty() {
            0
        } else {
            1
        };
        let timespec = wait.at_most.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        if let (1, true, Some((events, span))) = (want, self.gather, wait.gather) {
            want = events.max(1);
            args = args.min_wait_usec(u32::try_from(span.as_micros()).unwrap_or(u32::MAX));
        }
        // GETEVENTS even when only looking: deferred task work runs in no other way.
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if self.no_iowait {
            flags |= EnterFlags::NO_IOWAIT;
        }
        let submit = self.sq.len() as u32;
        // SAFETY: `args` is the argument that EXT_ARG announces and, with the timespec that it
        // points to, outlives the call; entries were promised valid to `push`.
        let entered = unsafe {
            self.submitter
                .enter(submit, want, flags.bits(), Some(&args))
        };
        self.sq.sync();
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match Errno::of(&error) {
                Errno(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ETIME) => Ok(()),
                errno => Err(Error::Syscall {
                    call: "io_uring_enter",
                    errno,
                }),
            },
        }
    }

    /// Moves all completions that are there into `batch`.
    pub(crate) fn reap(&mut self, batch: &mut Vec<cqueue::Entry>) {
        self.cq.sync();
        for completion in &mut *self.cq {
            if !cqueue::more(completion.flags()) {
                self.in_flight -= 1;
                self.quiet -= u64::from(is_quiet(&completion));
            }
            batch.push(completion);
        }
        self.cq.sync();
    }
}

/// Whether a completion is that of a quiet operation that failed.
pub(super) fn is_quiet(completion: &cqueue::Entry) -> bool {
    Tag::unpack(completion.user_data()).is_some_and(|tag| tag.op == Op::QuietSend)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The thread's table of registered rings would keep the ring alive until the thread ends.
        drop(self.submitter.unregister_ring_fd());
        // SAFETY: each part is dropped once, before the ring that it borrows; the pointer came
        // from a leaked box.
        unsafe {
            ManuallyDrop::drop(&mut self.cq);
            ManuallyDrop::drop(&mut self.sq);
            ManuallyDrop::drop(&mut self.submitter);
            drop(Box::from_raw(self.ring.as_ptr()));
        }
    }
}

/// A setup flag that we insist on.
struct SetupFlag {
    name: &'static str,
    since: &'static str,
    set: fn(&mut io_uring::Builder) -> &mut io_uring::Builder,
}

/// In the order in which kernels learned them, so that the first one refused names the gap.
const FLAGS: [SetupFlag; 6] = [
    SetupFlag {
        name: "CQSIZE",
        since: "5.5",
        set: |b| b,
    }, // Set with the size, below.
    SetupFlag {
        name: "CLAMP",
        since: "5.6",
        set: |b| b.setup_clamp(),
    },
    SetupFlag {
        name: "SUBMIT_ALL",
        since: "5.18",
        set: |b| b.setup_submit_all(),
    },
    SetupFlag {
        name: "TASKRUN_FLAG",
        since: "5.19",
        // Until DEFER_TASKRUN comes, the kernel takes this flag only with COOP_TASKRUN.
        set: |b| b.setup_taskrun_flag(),
    },
    SetupFlag {
        name: "SINGLE_ISSUER",
        since: "6.0",
        set: |b| b.setup_single_issuer(),
    },
    SetupFlag {
        name: "DEFER_TASKRUN",
        since: "6.1",
        set: |b| b.setup_defer_taskrun(),
    },
];

fn builder(flags: &[SetupFlag], cq_entries: u32) -> io_uring::Builder {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(cq_entries);
    for flag in flags {
        (flag.set)(&mut builder);
    }
    builder
}

/// Makes the ring, with fewer entries where locked memory is short.
fn build(options: &Options) -> Result<IoUring, Refusal> {
    let mut sq_entries = options.sq_entries.next_power_of_two();
    let mut cq_entries = options
        .cq_entries
        .max(options.sq_entries)
        .next_power_of_two();
    loop {
        match build_patiently(sq_entries, cq_entries, options.restrict) {
            Ok(ring) => return Ok(ring),
            Err(Errno(libc::ENOMEM)) => {}
            Err(errno) => return Err(explain(errno)),
        }
        if sq_entries <= SQ_ENTRIES_MIN && cq_entries <= CQ_ENTRIES_MIN {
            return Err(explain(Errno(libc::ENOMEM)));
        }
        sq_entries = (sq_entries / 2).max(SQ_ENTRIES_MIN.min(sq_entries));
        cq_entries = (cq_entries / 2).max(CQ_ENTRIES_MIN.min(cq_entries));
    }
}

/// A ring dropped a moment ago (the probe's, or that of a process just killed) still counts
/// against the limit, for the kernel takes it down behind our back.
fn build_patiently(sq_entries: u32, cq_entries: u32, disabled: bool) -> Result<IoUring, Errno> {
    let mut builder = builder(&FLAGS, cq_entries);
    if disabled {
        builder.setup_r_disabled();
    }
    let mut tries = 0;
    loop {
        match builder.build(sq_entries) {
            Ok(ring) => return Ok(ring),
            Err(error) if Errno::of(&error) == Errno(libc::ENOMEM) && tries < 5 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(4));
            }
            Err(error) => return Err(Errno::of(&error)),
        }
    }
}

/// Says whose fault a failed setup is.
fn explain(errno: Errno) -> Refusal {
    if let Some(refusal) = cause(errno) {
        return refusal;
    }
    let missing = match errno {
        Errno(libc::EINVAL) => first_refused_flag(),
        _ => None,
    };
    match missing {
        Some(missing) => Refusal::Missing(vec![missing]),
        None => Refusal::Unexpected(errno),
    }
}

fn first_refused_flag() -> Option<Missing> {
    for upto in 1..=FLAGS.len() {
        let mut builder = builder(&FLAGS[..upto], 16);
        if upto < FLAGS.len() && upto >= 4 {
            builder.setup_coop_taskrun();
        }
        if builder.build(8).is_err() {
            let flag = &FLAGS[upto - 1];
            return Some(Missing {
                what: flag.name,
                since: flag.since,
            });
        }
    }
    None
}
