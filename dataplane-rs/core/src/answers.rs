//! Writes responses as bytes, after what is in the buffer already.
//!
//! It decides nothing: which answer, whether the connection goes on, what time it is are handed in.
//! A buffer with room is written without allocation. Every answer carries its `Content-Length`; an
//! answer to HEAD carries the same fields and no body.

mod canned;
mod date;
mod event_id;
mod verdict;

pub use canned::{Backpressure, canned, refused, shed};
pub use date::http_date;
pub use event_id::event_id_text;
pub use verdict::{Success, accepted, duplicate, inline, queued};

/// What a sender waits for that asked with `Expect: 100-continue`, before its final answer.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How an answer goes out.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// Whether another request may follow.
    pub keep_alive: bool,
    /// The request was HEAD.
    pub head_only: bool,
    /// The text of [`http_date`], made once a second by whoever has a clock.
    pub date: Option<&'a [u8; 29]>,
}

/// Lines that every answer may end with, the empty line, and the body.
fn finish(out: &mut Vec<u8>, body: &[u8], manner: &Manner) {
    if let Some(date) = manner.date {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    if !manner.keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    if !manner.head_only {
        out.extend_from_slice(body);
    }
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

fn push_field(out: &mut Vec<u8>, name: &str, number: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    push_number(out, number);
    out.extend_from_slice(b"\r\n");
}

fn push_status(out: &mut Vec<u8>, code: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_number(out, u64::from(code));
    out.extend_from_slice(b" ");
    out.extend_from_slice(reason_phrase(code).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn reason_phrase(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        // A phrase may be empty (RFC 9112 §4).
        _ => "",
    }
}
