//! How an input says that its bytes come in pieces.

/// Takes the first byte of an input off: where the rest is to be cut.
pub fn split(input: &[u8]) -> (u8, &[u8]) {
    input
        .split_first()
        .map_or((0, input), |(&first, rest)| (first, rest))
}

/// Cuts `bytes` as `how` says: one by one, evenly, or at places that look random.
pub fn pieces(bytes: &[u8], how: u8) -> Vec<&[u8]> {
    let mut state = u32::from(how) * 0x9e37 + 1;
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let length = match how {
            0 => 1,
            1..=63 => usize::from(how),
            _ => {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Mostly short pieces, some that hold what is left.
                1 + (state >> 8) as usize % (1 << (state >> 28))
            }
        };
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
