//! The provided buffer ring: receive buffers that the kernel picks from when data is there, so
//! that an idle connection owns none.
//!
//! One anonymous mapping holds the ring of descriptors and, page aligned behind it, the buffers.
//! This thread is the only one that writes the ring's tail; it does so once per turn.
//!
//! The kernel takes the buffers in the order in which they lie in the ring, so with all of them in
//! it each would be cold when its turn comes. It holds as many as one turn uses, those that were
//! used last; the others are kept back until a receive finds none.

use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::ring::Ring;
use crate::{Errno, Error, Refusal, sys};

/// The only buffer group of a ring.
pub(crate) const GROUP: u16 = 0;

const PAGE: usize = 4096;

/// Buffers that the ring holds at least, where there are as many.
const OFFERED_MIN: u16 = 32;

/// Turns after which it is judged anew how many one turn uses.
const TURNS: u16 = 1024;

/// The mapping. Shared by count with a running dispatch, so that bytes lent to a sink outlive
/// whatever the sink does to the backend.
pub(crate) struct Region {
    base: *mut u8,
    length: usize,
}

impl Region {
    fn map(length: usize) -> Result<Region, Error> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::last("map receive buffers"));
        }
        Ok(Region {
            base: base.cast(),
            length,
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length. Nothing lent out lives longer, and the
        // kernel writes no more: `Uring` drops its region only after its last operation ended.
        let result = unsafe { libc::munmap(self.base.cast(), self.length) };
        debug_assert_eq!(result, 0);
    }
}

/// The ring of descriptors and the buffers behind it.
pub(crate) struct Buffers {
    region: Rc<Region>,
    count: u16,
    size: u32,
    /// Where the next buffer goes; the kernel sees it at [`Buffers::publish`].
    tail: u16,
    /// Buffers that are not in the ring; the one that was used last is the next to go there.
    back: Vec<u16>,
    /// How many the ring is to hold.
    offered: u16,
    /// A receive of this turn has found none, and there are more.
    doubles: bool,
    /// Used in this turn, and the most in one of the last `turns` turns.
    used: u16,
    used_max: u16,
    turns: u16,
}

impl Buffers {
    /// Maps `count` (a power of two) buffers of `size` and hands all of them to the kernel.
    pub(crate) fn new(ring: &Ring, count: u16, size: u32) -> Result<Buffers, Error> {
        let length = entries_length(count) + usize::from(count) * size as usize;
        let region = Rc::new(Region::map(length)?);
        let mut buffers = Buffers {
            region,
            count,
            size,
            tail: 0,
            back: (0..count).rev().collect(),
            offered: count.min(OFFERED_MIN),
            doubles: false,
            used: 0,
            used_max: 0,
            turns: 0,
        };
        // SAFETY: the ring's memory is page aligned, zeroed, large enough, and lives in `region`,
        // which outlives the registration (see `Region::drop`).
        let result = unsafe {
            let base = buffers.region.base as u64;
            ring.submitter()
                .register_buf_ring_with_flags(base, count, GROUP, 0)
        };
        result.map_err(|error| match Errno::of(&error) {
            // The descriptors, unlike the buffers, count as locked memory.
            Errno(libc::ENOMEM) => Error::Refused(Refusal::LockedMemory {
                limit: sys::memlock_limit().unwrap_or(0),
            }),
            errno => Error::Syscall {
                call: "register a buffer ring (Linux 5.19)",
                errno,
            },
        })?;
        buffers.publish();
        Ok(buffers)
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn region(&self) -> Rc<Region> {
        Rc::clone(&self.region)
    }

    /// The first `length` bytes of a buffer that the kernel filled.
    ///
    /// # Safety
    ///
    /// The buffer came with a completion and is not given back yet, nobody else was lent it since,
    /// and the caller keeps a [`Buffers::region`] for as long as it uses the bytes.
    pub(crate) unsafe fn filled<'a>(&self, buffer: u16, length: usize) -> &'a mut [u8] {
        assert!(
            buffer < self.count && length <= self.size as usize,
            "the kernel overran a buffer"
        );
        // SAFETY: inside the mapping by the check above; the kernel does not touch a buffer
        // between its completion and its return, and the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts_mut(self.address(buffer), length) }
    }

    /// Returns a buffer that came with a completion.
    pub(crate) fn give_back(&mut self, buffer: u16) {
        assert!(
            buffer < self.count,
            "the kernel named a buffer that does not exist"
        );
        self.used += 1;
        self.back.push(buffer);
    }

    /// A receive found none: from the next [`Buffers::publish`] on the ring holds twice as many.
    /// True: it holds all there are already.
    pub(crate) fn ran_out(&mut self) -> bool {
        let were_all = self.offered == self.count;
        self.doubles = !were_all;
        were_all
    }

    /// Puts buffers into the ring, once a turn, and lets the kernel see them.
    pub(crate) fn publish(&mut self) {
        self.judge();
        let held = self.count - self.back.len() as u16; // never more than there are
        for _ in held..self.offered {
            let Some(buffer) = self.back.pop() else { break };
            self.put(buffer);
        }
        // SAFETY: the ring starts with an initialised entry whose last field is the tail.
        let tail = unsafe { BufRingEntry::tail(self.entries()) };
        // SAFETY: aligned, mapped, and written by this thread only; the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    fn judge(&mut self) {
        self.used_max = self.used_max.max(std::mem::take(&mut self.used));
        if std::mem::take(&mut self.doubles) {
            self.offered = self.offered.saturating_mul(2).min(self.count);
            (self.turns, self.used_max) = (0, 0);
        }
        self.turns += 1;
        if self.turns == TURNS {
            self.offered = self.used_max.max(OFFERED_MIN).min(self.count);
            (self.turns, self.used_max) = (0, 0);
        }
    }

    fn put(&mut self, buffer: u16) {
        let address = self.address(buffer) as u64;
        let slot = usize::from(self.tail & (self.count - 1));
        // SAFETY: `slot` is inside the ring. Only this thread writes there, and the kernel does
        // not read the slot before the tail passes it. The fields are set one by one, because
        // slot 0 also holds the tail.
        unsafe {
            let entry = &mut *self.entries().add(slot);
            entry.set_addr(address);
            entry.set_len(self.size);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn entries(&self) -> *mut BufRingEntry {
        self.region.base.cast()
    }

    fn address(&self, buffer: u16) -> *mut u8 {
        let offset = entries_length(self.count) + usize::from(buffer) * self.size as usize;
        // SAFETY: inside the mapping, by the length computed in `new`.
        unsafe { self.region.base.add(offset) }
    }
}

/// The ring of descriptors in whole pages, so that the buffers start on one.
fn entries_length(count: u16) -> usize {
    (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(PAGE)
}
