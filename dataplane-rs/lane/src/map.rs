//! Mappings: a page, and a ring that is mapped twice back to back.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Takes all pages of a new file now, so that no later store meets a full tmpfs, which is SIGBUS.
pub(crate) fn take_pages(file: &File, size: u64, doing: &'static str) -> Result<()> {
    loop {
        // SAFETY: a plain call on our own file.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size as libc::off_t) } == 0 {
            return Ok(());
        }
        let error = Error::kernel(doing);
        let interrupted = |source: &std::io::Error| source.kind() == ErrorKind::Interrupted;
        match &error {
            // tmpfs gives up at any pending signal, whatever its handler asks for, and has taken
            // nothing then.
            Error::Kernel { source, .. } if interrupted(source) => {}
            _ => return Err(error),
        }
    }
}

/// A mapping of a file, given back when it is dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory shared with another process; nothing in it belongs to a
// thread.
unsafe impl Send for Mapping {}
// SAFETY: what several threads reach of a mapping they reach through atomics; rings have one owner.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of a file from the start, for reading and writing unless `read_only`.
    pub(crate) fn of(file: &File, length: usize, read_only: bool) -> Result<Self> {
        let protection = if read_only {
            libc::PROT_READ
        } else {
            libc::PROT_READ | libc::PROT_WRITE
        };
        // SAFETY: a fresh shared mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(Error::kernel("map a page"));
        }
        Ok(Mapping {
            base: NonNull::new(at.cast()).expect("mmap gives no null"),
            length,
        })
    }

    /// Maps the parts of a file one behind the other, each as often as it says.
    ///
    /// `parts` are (offset in the file, length, times); all multiples of the page size.
    pub(crate) fn of_parts(file: &File, parts: &[(u64, usize, usize)]) -> Result<Self> {
        let length = parts.iter().map(|(_, length, times)| length * times).sum();
        // SAFETY: a reservation without access, so that nothing else lands between the parts.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(Error::kernel("reserve address space for a lane"));
        }
        let mapping = Mapping {
            base: NonNull::new(at.cast()).expect("mmap gives no null"),
            length,
        };
        let mut to = 0;
        for &(offset, length, times) in parts {
            for _ in 0..times {
                // SAFETY: [to, to + length) lies inside the reservation made above.
                let got = unsafe {
                    libc::mmap(
                        mapping.base.as_ptr().add(to).cast(),
                        length,
                        libc::PROT_READ | libc::PROT_WRITE,
                        libc::MAP_SHARED | libc::MAP_FIXED,
                        file.as_raw_fd(),
                        offset as libc::off_t,
                    )
                };
                if got == libc::MAP_FAILED {
                    return Err(Error::kernel("map a ring"));
                }
                to += length;
            }
        }
        Ok(mapping)
    }

    /// Faults every page in for writing (Linux 5.14), so that the first lap costs no faults. Only
    /// speed is lost where the kernel refuses.
    pub(crate) fn populate(&self) {
        // SAFETY: advice about our own mapping; no memory is read or written by us.
        unsafe {
            libc::madvise(
                self.base.as_ptr().cast(),
                self.length,
                libc::MADV_POPULATE_WRITE,
            );
        }
    }

    /// Keeps the pages in memory; false where RLIMIT_MEMLOCK forbids it.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: locks our own mapping.
        unsafe { libc::mlock(self.base.as_ptr().cast(), self.length) == 0 }
    }

    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(
            offset < self.length,
            "offset {offset} of a mapping of {}",
            self.length
        );
        // SAFETY: checked above to lie inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping is ours and nobody keeps a pointer beyond its owner.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.length);
        }
    }
}
