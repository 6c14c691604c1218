//! Vector loops: unaligned first and last block, whole blocks with aligned stores between.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_store_si128, _mm_storeu_si128, _mm256_loadu_si256,
    _mm256_store_si256, _mm256_storeu_si256,
};

/// # Safety
///
/// AVX2 is there; `len >= 128`; `from` is readable and `to` writable for `len`; no overlap.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn copy_avx2(to: *mut u8, from: *const u8, len: usize) {
    const VECTOR: usize = 32;
    const BLOCK: usize = 4 * VECTOR;
    debug_assert!(len >= BLOCK);
    // SAFETY: each access is inside `len`: the first vector and the last block by `len >= BLOCK`,
    // the loop by its condition. `at` starts at the first 32-byte boundary of `to` above 0, so
    // stores in the loop are aligned, and the bytes below `at` (at most 32) are the first vector.
    unsafe {
        _mm256_storeu_si256(to.cast(), _mm256_loadu_si256(from.cast()));
        let mut at = VECTOR - (to as usize) % VECTOR;
        while at + BLOCK <= len {
            let source = from.add(at).cast::<__m256i>();
            let target = to.add(at).cast::<__m256i>();
            // All loads before the stores: a load right after a store to the same address
            // modulo 4096 would wait for it.
            let a = _mm256_loadu_si256(source);
            let b = _mm256_loadu_si256(source.add(1));
            let c = _mm256_loadu_si256(source.add(2));
            let d = _mm256_loadu_si256(source.add(3));
            _mm256_store_si256(target, a);
            _mm256_store_si256(target.add(1), b);
            _mm256_store_si256(target.add(2), c);
            _mm256_store_si256(target.add(3), d);
            at += BLOCK;
        }
        let source = from.add(len - BLOCK).cast::<__m256i>();
        let target = to.add(len - BLOCK).cast::<__m256i>();
        for lane in 0..4 {
            _mm256_storeu_si256(target.add(lane), _mm256_loadu_si256(source.add(lane)));
        }
    }
}

/// # Safety
///
/// `len >= 64`; `from` is readable and `to` writable for `len`; no overlap.
pub(super) unsafe fn copy_sse2(to: *mut u8, from: *const u8, len: usize) {
    const VECTOR: usize = 16;
    const BLOCK: usize = 4 * VECTOR;
    debug_assert!(len >= BLOCK);
    // SAFETY: as in `copy_avx2`, with vectors of 16 bytes.
    unsafe {
        _mm_storeu_si128(to.cast(), _mm_loadu_si128(from.cast()));
        let mut at = VECTOR - (to as usize) % VECTOR;
        while at + BLOCK <= len {
            let source = from.add(at).cast::<__m128i>();
            let target = to.add(at).cast::<__m128i>();
            let a = _mm_loadu_si128(source);
            let b = _mm_loadu_si128(source.add(1));
            let c = _mm_loadu_si128(source.add(2));
            let d = _mm_loadu_si128(source.add(3));
            _mm_store_si128(target, a);
            _mm_store_si128(target.add(1), b);
            _mm_store_si128(target.add(2), c);
            _mm_store_si128(target.add(3), d);
            at += BLOCK;
        }
        let source = from.add(len - BLOCK).cast::<__m128i>();
        let target = to.add(len - BLOCK).cast::<__m128i>();
        for lane in 0..4 {
            _mm_storeu_si128(target.add(lane), _mm_loadu_si128(source.add(lane)));
        }
    }
}
