//! The Rust face of the shared-memory layout between data plane and control plane.
//!
//! It says where each word is, who may store it, and nothing of when: the protocol is in the lane
//! crate. Everything here is generated from `layout.abi` but the test support. A page is only
//! looked at through atomics, because the other process writes it while it is read; a line
//! (`DLine`, `ReplyEntry`) is a plain value that is copied to or from the mapping whole.

#![deny(missing_docs)]

mod layout;
pub use layout::*;

#[cfg(test)]
mod image {
    /// The bytes of a golden image: `offset hex` lines, everything else zero.
    pub fn image(text: &str, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for line in text.lines() {
            let (at, hex) = line.split_once(' ').unwrap();
            let at: usize = at.parse().unwrap();
            for i in 0..hex.len() / 2 {
                bytes[at + i] = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
            }
        }
        bytes
    }

    /// Byte `n` of field number `field`, as the generator fills it.
    pub fn pattern(field: usize, n: usize) -> u8 {
        ((field + n) % 251) as u8
    }

    #[repr(C, align(64))]
    #[derive(Clone, Copy)]
    struct Line([u8; 64]);

    /// Bytes that start on 64, as a mapping does.
    pub struct Page(Vec<Line>);

    impl Page {
        pub fn new(bytes: &[u8]) -> Self {
            Page(
                bytes
                    .chunks_exact(64)
                    .map(|c| Line(c.try_into().unwrap()))
                    .collect(),
            )
        }

        pub fn as_ptr(&self) -> *const u8 {
            self.0.as_ptr().cast()
        }
    }
}
