//! The copy into the ring.

/// Copies `source` to `to`, which it must not overlap.
///
/// # Safety
/// `to` must be valid for writes of `source.len()` bytes that no Rust reference covers.
pub unsafe fn copy_bytes(to: *mut u8, source: &[u8]) {
    // SAFETY: the caller vouches for `to`; a slice is valid for reads.
    unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), to, source.len()) }
}
