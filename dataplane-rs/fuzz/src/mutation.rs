//! Inputs near others, from a seed: a small fuzzer without coverage, for the tests.

/// Splitmix64.
pub struct Seed(pub u64);

impl Seed {
    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % bound.max(1)
    }
}

/// What bytes turn on, in any of the targets.
const TOKENS: [&[u8]; 30] = [
    b"\r\n",
    b"\r",
    b"\n",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"0",
    b"\0",
    b"\x7f",
    b"\xff",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: b\r\n",
    b"HTTP/1.0",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff",
    b"PROXY ",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"10.0.0.1",
    b"::ffff:1.2.3.4",
    b"unknown",
    b"\"",
    b"\\u",
    b"{",
    b"[",
];

/// Bytes of the longest input that is made.
pub const BYTES_MAX: usize = 8 * 1024;

/// Changes `input` at a few places, perhaps by parts of `other`.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], seed: &mut Seed) {
    for _ in 0..=seed.below(4) {
        let at = seed.below(input.len() + 1);
        let end = at + seed.below(1 + (input.len() - at).min(64));
        match seed.below(7) {
            0 if at < input.len() => input[at] ^= 1 << seed.below(8),
            1 if at < input.len() => input[at] = seed.below(256) as u8,
            2 => drop(input.splice(at..at, TOKENS[seed.below(TOKENS.len())].iter().copied())),
            3 => drop(input.drain(at..end)),
            4 => {
                let again = input[at..end].to_vec();
                drop(input.splice(at..at, again));
            }
            5 => {
                let from = seed.below(other.len() + 1);
                let to = from + seed.below(1 + (other.len() - from).min(256));
                drop(input.splice(at..end, other[from..to].iter().copied()));
            }
            _ => input.truncate(at),
        }
    }
    input.truncate(BYTES_MAX);
}
