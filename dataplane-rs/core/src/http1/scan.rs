//! Finds where a head ends, looking at each byte once however the bytes are cut.

use super::characters::is_token;
use crate::Refusal;

/// How far a head has been looked through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Bytes that hold no line end that was not seen.
    scanned: usize,
    /// Where the line that is being looked for begins.
    line_start: usize,
}

impl Scan {
    /// Where the request line begins and where the head ends (behind its empty line), once it is
    /// all there. `bytes` are all that came since the request began.
    ///
    /// Two faults are told before the head is whole, because such a head might never be: a first
    /// byte that begins no method (TLS, binary), and a line that ends in a bare LF.
    pub(super) fn advance(
        &mut self,
        bytes: &[u8],
        bytes_max: usize,
    ) -> Result<Option<(usize, usize)>, Refusal> {
        let Some(start) = request_line_start(bytes)? else {
            return Ok(None);
        };
        let window = &bytes[..bytes.len().min(bytes_max)];
        self.scanned = self.scanned.max(start);
        self.line_start = self.line_start.max(start);
        while let Some(distance) = memchr::memchr(b'\n', &window[self.scanned..]) {
            let line_feed = self.scanned + distance;
            // A byte precedes: the first one of the request line is no LF.
            if window[line_feed - 1] != b'\r' {
                return Err(Refusal::BadLineEnd);
            }
            let is_empty = line_feed - 1 == self.line_start;
            self.scanned = line_feed + 1;
            self.line_start = line_feed + 1;
            if is_empty {
                return Ok(Some((start, line_feed + 1)));
            }
        }
        self.scanned = window.len();
        if bytes.len() >= bytes_max {
            return Err(Refusal::HeadTooLarge { bytes_max });
        }
        Ok(None)
    }
}

/// One empty line before a request is skipped (RFC 9112 §2.2).
fn request_line_start(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let start = match bytes {
        [] | [b'\r'] => return Ok(None),
        [b'\r', b'\n', ..] => 2,
        [b'\r', ..] => return Err(Refusal::BadLineEnd),
        _ => 0,
    };
    match bytes.get(start) {
        None => Ok(None),
        Some(&c) if is_token(c) => Ok(Some(start)),
        Some(_) => Err(Refusal::BadRequestLine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_looked_through_are_not_looked_at_again() {
        let mut bytes = b"GET / HTTP/1.1\r\nHost: a.test\r\nX-A: b".to_vec();
        let mut scan = Scan::default();
        assert_eq!(scan.advance(&bytes, 1000), Ok(None));
        for place in &mut bytes[5..] {
            *place = b'\n';
        }
        bytes.extend_from_slice(b"c\r\n\r\n");
        assert_eq!(scan.advance(&bytes, 1000), Ok(Some((0, bytes.len()))));
    }

    #[test]
    fn a_head_exactly_at_the_bound_is_taken_and_one_byte_more_is_not() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let whole = Scan::default().advance(head, head.len());
        assert_eq!(whole, Ok(Some((0, head.len()))));
        let bytes_max = head.len() - 1;
        let short = Scan::default().advance(head, bytes_max);
        assert_eq!(short, Err(Refusal::HeadTooLarge { bytes_max }));
    }
}
