//! The frame copy: from a receive buffer into a lane, at full speed whatever the alignment.
//!
//! It does not replace `memcpy` in general. From about 1 KB up the C library's copy (and so
//! `copy_from_slice`) switches to `REP MOVSB`, which on several x86 processors drops to a
//! thirtieth of its speed when the target lies 1 to 31 bytes behind the source modulo 4096; a
//! small header in front of a payload from a page-aligned buffer is exactly that. Here long
//! copies are a plain vector loop on x86-64. Other architectures have no such instruction, there
//! it is `memcpy`.

#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Below this many bytes the C library never takes the slow way.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 1024;

/// Copies `from` to raw memory, such as a mapped lane that another process reads later.
///
/// # Safety
///
/// `to` must be writable for `from.len()` bytes and not overlap `from`, and nobody may read or
/// write there meanwhile.
pub unsafe fn copy_bytes(to: *mut u8, from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if from.len() > LONG {
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 is there, the length is over 128, and the rest is the caller's word.
            unsafe { x86_64::copy_avx2(to, from.as_ptr(), from.len()) };
        } else {
            // SAFETY: the length is over 64; SSE2 belongs to x86-64; the rest is as above.
            unsafe { x86_64::copy_sse2(to, from.as_ptr(), from.len()) };
        }
        return;
    }
    // SAFETY: the caller's word.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source bytes such that a shifted or repeated copy shows.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect()
    }

    /// Every pair of alignments, checked against `copy_from_slice`, with guard bytes around.
    fn check(lengths: &[usize], copy: impl Fn(&mut [u8], &[u8])) {
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let from = pattern(longest + 64);
        let mut ours = vec![0u8; longest + 192];
        let mut theirs = ours.clone();
        for &len in lengths {
            for from_at in 0..64 {
                for to_at in 64..128 {
                    let source = &from[from_at..from_at + len];
                    ours[..].fill(0xee);
                    theirs[..].fill(0xee);
                    copy(&mut ours[to_at..to_at + len], source);
                    theirs[to_at..to_at + len].copy_from_slice(source);
                    assert!(ours == theirs, "length {len}, from {from_at}, to {to_at}");
                }
            }
        }
    }

    fn copy(to: &mut [u8], from: &[u8]) {
        assert_eq!(to.len(), from.len());
        // SAFETY: `to` is writable for the length of `from`; an exclusive reference overlaps none.
        unsafe { copy_bytes(to.as_mut_ptr(), from) }
    }

    #[test]
    fn every_alignment_and_edge_length_copies_like_copy_from_slice() {
        check(
            &[
                0, 1, 31, 1023, 1024, 1025, 1056, 1151, 1152, 1153, 2049, 4096,
            ],
            copy,
        );
    }

    #[test]
    fn every_length_around_the_switch_copies_like_copy_from_slice() {
        let from = pattern(1024 + 300);
        for len in 900..from.len() {
            let mut to = vec![0; len];
            copy(&mut to, &from[..len]);
            assert!(to == from[..len], "length {len}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_loop_for_processors_without_avx2_copies_the_same() {
        check(&[64, 65, 127, 128, 129, 1025, 1500], |to, from| {
            // SAFETY: lengths are equal and at least 64; the slices do not overlap.
            unsafe { x86_64::copy_sse2(to.as_mut_ptr(), from.as_ptr(), from.len()) }
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_avx2_loop_copies_the_same_from_its_shortest_length() {
        if !is_x86_feature_detected!("avx2") {
            println!("skipped: this processor has no AVX2");
            return;
        }
        check(&[128, 129, 159, 160, 255, 256, 257], |to, from| {
            // SAFETY: AVX2 is there, lengths are equal and at least 128, no overlap.
            unsafe { x86_64::copy_avx2(to.as_mut_ptr(), from.as_ptr(), from.len()) }
        });
    }
}
