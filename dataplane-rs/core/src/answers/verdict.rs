//! Answers that keep a promise, and those that the control plane words itself.

use super::event_id::event_id_text;
use super::{Manner, finish, push_field, push_status};

const BEFORE_STATUS: &[u8] = br#"{"status":""#;
const BEFORE_ID: &[u8] = br#"","id":""#;
const AFTER_ID: &[u8] = br#""}"#;
const ID_BYTES: usize = 26;

/// How a sender wants to hear that its event is kept. Some take any other status than the ones they
/// name for a failure, or an answer with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success {
    /// Of an event that is stored, and of one that repeats it.
    pub accepted: u16,
    /// Of an event that will be delivered later.
    pub queued: u16,
    /// Whether an answer may have a body; one of 204 has none.
    pub has_body: bool,
}

impl Default for Success {
    fn default() -> Success {
        Success {
            accepted: 200,
            queued: 202,
            has_body: true,
        }
    }
}

/// Stored at the source's acknowledge level.
pub fn accepted(out: &mut Vec<u8>, id: &[u8; 16], success: Success, manner: &Manner) {
    push_status(out, success.accepted);
    with_id(out, success.accepted, b"accepted", id, success, manner);
}

/// The first copy, whose id this is, was stored.
pub fn duplicate(out: &mut Vec<u8>, id: &[u8; 16], success: Success, manner: &Manner) {
    push_status(out, success.accepted);
    with_id(out, success.accepted, b"duplicate", id, success, manner);
}

/// Stored, to be delivered later.
pub fn queued(out: &mut Vec<u8>, id: &[u8; 16], success: Success, manner: &Manner) {
    push_status(out, success.queued);
    out.extend_from_slice(
        b"X-Execution-Mode: Queued-Async\r\n\
          X-System-Degraded: true\r\n\
          X-Execution-Path: Queue-Only\r\n",
    );
    with_id(out, success.queued, b"accepted", id, success, manner);
}

fn with_id(
    out: &mut Vec<u8>,
    code: u16,
    status: &[u8],
    id: &[u8; 16],
    success: Success,
    manner: &Manner,
) {
    let id = event_id_text(id);
    let has_body = success.has_body && code != 204;
    if has_body {
        out.extend_from_slice(b"Content-Type: application/json\r\n");
    }
    let length = match has_body {
        true => BEFORE_STATUS.len() + status.len() + BEFORE_ID.len() + ID_BYTES + AFTER_ID.len(),
        false => 0,
    };
    if code != 204 {
        push_field(out, "Content-Length", length as u64); // RFC 9110 §8.6: none with 204
    }
    out.extend_from_slice(b"X-Event-Id: ");
    out.extend_from_slice(&id);
    out.extend_from_slice(b"\r\n");
    finish(out, &[], manner);
    if has_body && !manner.head_only {
        for part in [BEFORE_STATUS, status, BEFORE_ID, &id, AFTER_ID] {
            out.extend_from_slice(part);
        }
    }
}

/// Header lines (each ended by CRLF) and a body from a reply entry: handshakes and pass-through.
///
/// The entry was written by the other process, so it is trusted with the meaning and not with the
/// framing: lines that are no field, or that would frame the answer, are left out.
pub fn inline(out: &mut Vec<u8>, code: u16, head: &[u8], body: &[u8], manner: &Manner) {
    // An interim or impossible code would leave the sender waiting.
    let code = if (200..=999).contains(&code) {
        code
    } else {
        502
    };
    push_status(out, code);
    let lines = head.split_inclusive(|&c| c == b'\n');
    for line in lines
        .filter_map(|line| line.strip_suffix(b"\r\n"))
        .filter(|line| passes(line))
    {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
    // RFC 9110 §8.6: no length with 204; with 304 it would be that of another answer.
    let has_body = !matches!(code, 204 | 304);
    if has_body {
        push_field(out, "Content-Length", body.len() as u64);
    }
    finish(out, if has_body { body } else { &[] }, manner);
}

/// Whether a line is a field that does not belong to the connection.
fn passes(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|&c| c == b':') else {
        return false;
    };
    let (name, value) = line.split_at(colon);
    let is_field = !name.is_empty()
        && name
            .iter()
            .all(|&c| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c))
        && value.iter().all(|&c| c == b'\t' || c >= b' ' && c != 0x7f);
    let ours = [
        "Connection",
        "Content-Length",
        "Date",
        "Keep-Alive",
        "Transfer-Encoding",
    ];
    is_field
        && !ours
            .iter()
            .any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANNER: Manner = Manner {
        keep_alive: true,
        head_only: false,
        date: None,
    };

    #[test]
    fn an_inline_answer_cannot_break_its_own_frame() {
        let mut out = Vec::new();
        let head = b"X-A: 1\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 99\r\nX-B: 2\nX-C: 3\r\n\
                     Transfer-Encoding: chunked\r\nX-D: \x00\r\nX-E: 5\r\nX-F: 6";
        inline(&mut out, 200, head, b"abc", &MANNER);
        let text = String::from_utf8(out).unwrap();
        let want = "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-C: 3\r\nX-E: 5\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(text, want);
    }

    #[test]
    fn an_answer_without_content_has_neither_length_nor_body() {
        let mut out = Vec::new();
        inline(&mut out, 204, b"", b"abc", &MANNER);
        assert_eq!(out, b"HTTP/1.1 204 No Content\r\n\r\n");
    }
}
