//! Answers that say no.

use super::{Manner, finish, push_field, push_status};
use crate::Refusal;

/// Why a request is turned away that its sender may send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// The journal is full or cannot be written.
    IngestionQueueFull,
    /// Hold spent, queue or lane full.
    Overloaded,
    /// The source is over its rate.
    RateLimited,
}

impl Backpressure {
    /// The value of `X-Backpressure-Reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Backpressure::IngestionQueueFull => "Ingestion-Queue-Full",
            Backpressure::Overloaded => "Overloaded",
            Backpressure::RateLimited => "Rate-Limited",
        }
    }
}

/// The answer to a fault of the sender. Whether the connection goes on is the fault's matter too.
pub fn refused(out: &mut Vec<u8>, refusal: &Refusal, manner: &Manner) {
    let manner = Manner {
        keep_alive: manner.keep_alive && !refusal.closes(),
        ..*manner
    };
    let body = begin(out, refusal.status());
    if let Refusal::MethodNotAllowed { allow } = refusal {
        out.extend_from_slice(b"Allow: ");
        for (i, method) in allow.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"" } else { b", " });
            out.extend_from_slice(method.as_str().as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    finish(out, body, &manner);
}

/// The answer of a status alone, as the control plane orders it for a frame that it refuses, and
/// 503 while stopping. `retry_after_s` 0: none is named.
pub fn canned(out: &mut Vec<u8>, code: u16, retry_after_s: u32, manner: &Manner) {
    let body = begin(out, code);
    if retry_after_s > 0 {
        push_field(out, "Retry-After", u64::from(retry_after_s));
    }
    finish(out, body, manner);
}

/// The answer under pressure. `status` is 503 or 429, as the route has it.
pub fn shed(
    out: &mut Vec<u8>,
    reason: Backpressure,
    status: u16,
    retry_after_s: u32,
    manner: &Manner,
) {
    let body = begin(out, status);
    push_field(out, "Retry-After", u64::from(retry_after_s));
    out.extend_from_slice(b"X-Backpressure-Reason: ");
    out.extend_from_slice(reason.as_str().as_bytes());
    out.extend_from_slice(b"\r\n");
    finish(out, body, manner);
}

/// Status line and the fields of the body that is returned.
fn begin(out: &mut Vec<u8>, code: u16) -> &'static [u8] {
    let body = error_body(code);
    push_status(out, code);
    out.extend_from_slice(b"Content-Type: application/json\r\n");
    push_field(out, "Content-Length", body.len() as u64);
    body
}

/// Nothing here tells a prober more than the status does.
fn error_body(code: u16) -> &'static [u8] {
    match code {
        400 => br#"{"error":"malformed request"}"#,
        401 => br#"{"error":"unauthorized"}"#,
        403 => br#"{"error":"forbidden"}"#,
        404 => br#"{"error":"not found"}"#,
        405 => br#"{"error":"method not allowed"}"#,
        408 => br#"{"error":"request too slow"}"#,
        413 => br#"{"error":"body too large"}"#,
        417 => br#"{"error":"expectation failed"}"#,
        429 => br#"{"error":"too many requests"}"#,
        431 => br#"{"error":"headers too large"}"#,
        501 => br#"{"error":"not implemented"}"#,
        503 => br#"{"error":"unavailable, try again later"}"#,
        505 => br#"{"error":"HTTP version not supported"}"#,
        _ => br#"{"error":"refused"}"#,
    }
}
