//! Bytes that the kernel delivered after the sink had turned receiving off.
//!
//! A receive that is turned off may have taken a buffer by the time its cancel is there. The pieces
//! stay as they came, so that each gives its memory back as soon as the sink takes it.

use std::collections::VecDeque;

/// The pieces of one connection, the first received first.
#[derive(Debug, Default)]
pub(super) struct Stash {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Stash {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
        self.pieces.push_back(piece.to_vec());
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        if self.pieces.is_empty() {
            self.pieces = VecDeque::new();
        }
        Some(piece)
    }
}
