//! Reads one HTTP/1.1 answer out of a buffer.
//!
//! It reads what a webhook endpoint sends: a head and a body with `Content-Length`. A chunked
//! or unframed body is named as a fault instead of being guessed at.

use std::ops::Range;

/// An answer that is there to its last byte.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Bytes of the whole answer in the buffer.
    pub len: usize,
    /// The server closes after it.
    pub close: bool,
    /// Where the value of `X-Event-Id` stands in the buffer.
    pub event_id: Option<Range<usize>>,
    /// `Retry-After` in seconds; its form with a date is not read.
    pub retry_after: Option<u32>,
}

/// `None`: more bytes are needed. A fault says what the server sent wrongly.
pub fn read(buf: &[u8]) -> Result<Option<Answer>, &'static str> {
    let Some(head_len) = buf
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|at| at + 4)
    else {
        return Ok(None);
    };
    let head = &buf[..head_len - 2];
    let status = match head {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            b'0' | b'1',
            b' ',
            a,
            b,
            c,
            ..,
        ] => {
            let digits = [a, b, c].map(|d| u16::from(d.wrapping_sub(b'0')));
            if digits.iter().any(|&d| d > 9) {
                return Err("status is no number");
            }
            digits[0] * 100 + digits[1] * 10 + digits[2]
        }
        _ => return Err("not an HTTP/1 status line"),
    };
    let mut close = false;
    let mut event_id = None;
    let mut retry_after = None;
    let mut body_len = None;
    let mut at = 0;
    while at < head.len() {
        // Each line of `head` ends in CRLF; a stray CR would only make a longer line.
        let line_len = head[at..]
            .windows(2)
            .position(|w| w == b"\r\n")
            .unwrap_or(0);
        let line = &head[at..at + line_len];
        if let Some(colon) = line.iter().position(|&b| b == b':') {
            let name = &line[..colon];
            let value = line[colon + 1..].trim_ascii();
            if name.eq_ignore_ascii_case(b"content-length") {
                body_len = Some(number(value).ok_or("Content-Length is no number")?);
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                return Err("a chunked answer is not read here");
            } else if name.eq_ignore_ascii_case(b"connection") {
                close = value.eq_ignore_ascii_case(b"close");
            } else if name.eq_ignore_ascii_case(b"retry-after") {
                retry_after = number(value).and_then(|seconds| u32::try_from(seconds).ok());
            } else if name.eq_ignore_ascii_case(b"x-event-id") {
                let from = at + colon + 1 + line[colon + 1..].len()
                    - line[colon + 1..].trim_ascii_start().len();
                event_id = Some(from..from + value.len());
            }
        }
        at += line_len + 2;
    }
    let body_len = match (body_len, status) {
        (Some(len), _) => len,
        (None, 204 | 304) => 0,
        (None, _) => return Err("an answer without Content-Length"),
    };
    let len = head_len
        .checked_add(body_len)
        .ok_or("Content-Length is out of range")?;
    if buf.len() < len {
        return Ok(None);
    }
    Ok(Some(Answer {
        status,
        len,
        close,
        event_id,
        retry_after,
    }))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTED: &[u8] = b"HTTP/1.1 200 OK\r\nX-Event-Id:  01ABC \r\n\
        content-length: 2\r\n\r\nok";

    #[test]
    fn an_answer_is_whole_at_its_last_byte_and_not_before() {
        for len in 0..ACCEPTED.len() {
            assert_eq!(read(&ACCEPTED[..len]), Ok(None), "{len} bytes");
        }
        let answer = read(ACCEPTED).unwrap().unwrap();
        assert_eq!(
            (answer.status, answer.len, answer.close),
            (200, ACCEPTED.len(), false)
        );
        assert_eq!(&ACCEPTED[answer.event_id.unwrap()], b"01ABC");
    }

    #[test]
    fn a_close_is_seen() {
        let bytes = b"HTTP/1.1 503 Busy\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
        let answer = read(bytes).unwrap().unwrap();
        assert_eq!(
            (answer.status, answer.close, answer.event_id),
            (503, true, None)
        );
    }

    #[test]
    fn retry_after_is_read_in_seconds() {
        for (value, want) in [
            ("17", Some(17)),
            ("0", Some(0)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None),
            ("99999999999", None),
        ] {
            let text =
                format!("HTTP/1.1 503 Busy\r\nretry-after: {value}\r\nContent-Length: 0\r\n\r\n");
            let answer = read(text.as_bytes()).unwrap().unwrap();
            assert_eq!(answer.retry_after, want, "{value}");
        }
    }

    #[test]
    fn what_cannot_be_framed_is_a_fault() {
        for bytes in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 2x0 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
        ] {
            assert!(read(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
