//! The text form of event ids: ULID.

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// 26 characters of Crockford's base 32, five bits each from the right; they sort like the bytes.
pub fn event_id_text(id: &[u8; 16]) -> [u8; 26] {
    let mut bits = u128::from_be_bytes(*id);
    let mut text = [0; 26];
    for place in text.iter_mut().rev() {
        *place = CROCKFORD[(bits & 31) as usize];
        bits >>= 5;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out apart from this code; the control plane prints the same.
    #[test]
    fn an_event_id_reads_the_same_on_both_sides() {
        let id = |bytes: [u8; 16]| String::from_utf8(event_id_text(&bytes).to_vec()).unwrap();
        assert_eq!(id([0; 16]), "00000000000000000000000000");
        assert_eq!(id([0xff; 16]), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        let counted = [1, 0x93, 0x7a, 0x5c, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(id(counted), "01JDX5R000000G40R40M30E209");
        let counted: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(id(counted), "00041061050R3GG28A1C60T3GF");
    }
}
