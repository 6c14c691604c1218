//! What came from a connection and cannot be used yet.

use crate::limits;

/// Makes room for `more` bytes behind those that are there: a quarter more than that, which is what
/// growing costs, but not beyond `most` where that is enough.
pub fn reserve(bytes: &mut Vec<u8>, more: usize, most: usize) {
    let needed = bytes.len() + more;
    if needed > bytes.capacity() {
        let roomy = needed.saturating_add(needed / 4).min(most.max(needed));
        bytes.reserve_exact(roomy - bytes.len());
    }
}

/// What a buffer with `used` bytes counts as: these, or all of its memory where that is more than a
/// buffer that is used again may have.
pub fn size(buffer: &Vec<u8>, used: usize) -> usize {
    match buffer.capacity() {
        capacity if capacity > limits::BUFFER_BYTES_KEPT => capacity,
        _ => used,
    }
}

/// Bytes in the order in which they came. Taking from the front moves nothing; the gap is closed
/// when it has grown larger than what is left, so each byte moves at most once in the mean, however
/// many small requests it is cut into.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends, to `most` bytes if all goes well. An inbox that owns no memory takes some from
    /// `buffer`.
    pub fn push(&mut self, data: &[u8], most: usize, buffer: impl FnOnce() -> Vec<u8>) {
        if self.bytes.capacity() == 0 {
            self.bytes = buffer();
        }
        if self.start > self.len() {
            self.close_gap();
        }
        reserve(&mut self.bytes, data.len(), most.saturating_add(self.start));
        self.bytes.extend_from_slice(data);
    }

    /// What it counts as, as [`size`] has it.
    pub fn size(&self) -> usize {
        size(&self.bytes, self.len())
    }

    fn close_gap(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
    }

    /// Steps over the first `count` bytes. One that is empty afterwards gives its memory back, so
    /// that an idle connection owns none, and one that has become much smaller the most of it.
    pub fn consume(&mut self, count: usize) -> Option<Vec<u8>> {
        debug_assert!(count <= self.len());
        self.start += count;
        if self.start < self.bytes.len() || self.bytes.capacity() == 0 {
            if self.start > self.len() && self.bytes.capacity() > limits::BUFFER_BYTES_KEPT {
                self.close_gap();
                self.bytes.shrink_to(limits::BUFFER_BYTES_KEPT);
            }
            return None;
        }
        self.start = 0;
        Some(std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_however_they_are_cut() {
        let mut inbox = Inbox::default();
        let (mut next_in, mut next_out) = (0u32, 0u32);
        for step in 0..2000u32 {
            let count = step * 7 % 23;
            let piece: Vec<u8> = (0..count).map(|i| (next_in + i) as u8).collect();
            next_in += count;
            inbox.push(&piece, usize::MAX, || Vec::with_capacity(16));
            let taken = (inbox.len() * (step % 5) as usize / 4).min(inbox.len());
            for &byte in &inbox.as_slice()[..taken] {
                assert_eq!(byte, next_out as u8, "byte {next_out}");
                next_out += 1;
            }
            inbox.consume(taken);
        }
        assert_eq!(inbox.len(), (next_in - next_out) as usize);
    }

    #[test]
    fn an_emptied_inbox_owns_no_memory() {
        let mut inbox = Inbox::default();
        inbox.push(b"abc", usize::MAX, || Vec::with_capacity(64));
        assert!(inbox.consume(2).is_none());
        let buffer = inbox.consume(1).expect("its memory");
        assert_eq!(buffer.capacity(), 64);
        assert!(inbox.is_empty() && inbox.consume(0).is_none());
    }

    #[test]
    fn what_it_counts_as_is_all_its_memory_and_little_more_than_its_bytes() {
        let mut inbox = Inbox::default();
        let (piece, most) = ([7; 10_000], 1_005_000);
        while inbox.len() + piece.len() <= most {
            inbox.push(&piece, most, Vec::new);
            let size = inbox.size();
            assert!(size >= inbox.len() && size <= (inbox.len() + inbox.len() / 4).max(32 * 1024));
            assert!(size <= most, "{size} of {}", inbox.len());
        }
        inbox.push(&piece, most, Vec::new);
        assert!(inbox.size() >= inbox.len(), "more came than was to come");
        while inbox.len() > 100 {
            inbox.consume(100);
            let (len, size) = (inbox.len(), inbox.size());
            assert!(
                size <= (2 * len + len / 2).max(32 * 1024),
                "{size} for {len}"
            );
        }
    }
}
