//! What goes out: the control plane's replies as bytes, refusals, and the order in which they
//! leave.
//!
//! A connection has one send under way; answers behind it gather in one buffer, so that a sender
//! may pipeline as many requests as it likes and gets its answers in few writes. Each answer is
//! counted here and nowhere else.

use crate::conn::{Conn, Stage};
use crate::limits;
use crate::tally::ShedReason;
use crate::worker::Worker;
use shm_abi::{
    REPLY_ACCEPTED, REPLY_DUPLICATE, REPLY_INLINE, REPLY_QUEUED, REPLY_REFUSED, ReplyEntry,
};
use sluice_core::Refusal;
use sluice_core::answers::{self, Backpressure, Manner, Success};
use sluice_kernel::{Backend, Close, Errno, SendBuf};
use sluice_lane::Reply;

/// The status that a reply asks for, where the sender wants to hear of success in that way.
/// `None`: the entry means nothing, and least of all a 2xx.
pub fn status(entry: &ReplyEntry, success: Success) -> Option<u16> {
    match (entry.kind, entry.code) {
        (REPLY_ACCEPTED | REPLY_DUPLICATE, _) => Some(success.accepted),
        (REPLY_QUEUED, _) => Some(success.queued),
        (REPLY_REFUSED, 400..=599) | (REPLY_INLINE, 200..=599) => Some(entry.code),
        _ => None,
    }
}

/// Writes a reply that has a status.
pub fn write(out: &mut Vec<u8>, reply: &Reply<'_>, success: Success, manner: &Manner<'_>) {
    let entry = &reply.entry;
    match entry.kind {
        REPLY_ACCEPTED => answers::accepted(out, &entry.event_id, success, manner),
        REPLY_DUPLICATE => answers::duplicate(out, &entry.event_id, success, manner),
        REPLY_QUEUED => answers::queued(out, &entry.event_id, success, manner),
        REPLY_INLINE => answers::inline(out, entry.code, reply.head, reply.body, manner),
        _ => answers::canned(out, entry.code, entry.retry_after_s, manner),
    }
}

impl Worker {
    /// Answers a fault of the sender.
    pub(crate) fn refuse<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, refusal: &Refusal) {
        if refusal.status() == 400 {
            self.tally.worker().add_malformed(1);
        }
        conn.asked.keep_alive &= !refusal.closes();
        self.answer(io, conn, refusal.status(), |out, manner| {
            answers::refused(out, refusal, manner);
        });
    }

    /// Answers a request that its sender may send again.
    pub(crate) fn shed<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, reason: ShedReason) {
        if let Some(slot) = conn.asked.slot {
            self.tally.shed(slot, reason);
            self.plane.slots.refused(slot);
            self.name_refused(conn, reason);
        }
        let since_ns = self.plane.slots.overload_since_ns();
        let (why, status, retry_after_s) = match reason {
            ShedReason::Journal => {
                let retry_after_s = self.jitter.retry_after_journal_s();
                (Backpressure::IngestionQueueFull, 503, retry_after_s)
            }
            ShedReason::Rate { wait_ns } => (
                Backpressure::RateLimited,
                429,
                self.jitter.retry_after_rate_s(wait_ns),
            ),
            ShedReason::Stopping => {
                conn.asked.keep_alive = false;
                let retry_after_s = self.jitter.retry_after_s(self.now_ns, 0);
                return self.answer(io, conn, 503, |out, manner| {
                    answers::canned(out, 503, retry_after_s, manner);
                });
            }
            _ => {
                let retry_after_s = self.jitter.retry_after_s(self.now_ns, since_ns);
                (
                    Backpressure::Overloaded,
                    conn.asked.shed_status,
                    retry_after_s,
                )
            }
        };
        self.answer(io, conn, status, |out, manner| {
            answers::shed(out, why, status, retry_after_s, manner);
        });
    }

    fn answer<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        status: u16,
        write: impl FnOnce(&mut Vec<u8>, &Manner<'_>),
    ) {
        match conn.asked.slot {
            Some(slot) => self.tally.answered(slot, status),
            None => self.tally.worker().add_unrouted(1),
        }
        conn.asked.keep_alive &= !self.is_leaving();
        let mut out = self.buffer();
        let manner = Manner {
            keep_alive: conn.asked.keep_alive,
            head_only: conn.asked.head_only,
            date: Some(&self.date),
        };
        write(&mut out, &manner);
        self.finish(io, conn, out);
    }

    /// Sends the answer of the current request and makes the connection ready for the next one, or
    /// closes it.
    pub(crate) fn finish<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, out: Vec<u8>) {
        let goes_on = conn.asked.keep_alive;
        self.push_out(io, conn, SendBuf::Owned(out));
        if matches!(conn.stage, Stage::Lingering) {
            return;
        }
        if !goes_on {
            return self.leave(io, conn, Close::Graceful);
        }
        conn.begin_next();
        self.set_deadline(conn, self.now_ns + self.config.idle_timeout_ns);
        if !conn.inbox.is_empty() {
            self.enqueue(conn);
        }
    }

    /// Sends bytes as they are, or puts them behind what is being sent.
    pub(crate) fn push_raw<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, buf: SendBuf) {
        if buf.as_slice().is_empty() {
            self.take_back(buf);
        } else if !conn.sending {
            self.start_send(io, conn, buf);
        } else {
            self.awaits_sent = true;
            match buf {
                SendBuf::Owned(buffer) if conn.unsent.is_empty() => conn.unsent = buffer,
                _ => {
                    conn.unsent.extend_from_slice(buf.as_slice());
                    self.take_back(buf);
                }
            }
        }
    }

    fn start_send<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, buf: SendBuf) {
        match io.send(conn.id, buf) {
            Ok(()) => conn.sending = true,
            // Only a connection that broke refuses; the backend says so by itself.
            Err(refused) => self.take_back(refused.buf),
        }
    }

    /// A send is over.
    pub(crate) fn sent<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        buf: SendBuf,
        result: Result<(), Errno>,
    ) {
        conn.sending = false;
        if result.is_ok() {
            self.tally
                .worker()
                .add_bytes_out(buf.as_slice().len() as u64);
        }
        self.take_back(buf);
        if result.is_err() {
            return self.ended(io, conn, true);
        }
        if !conn.unsent.is_empty() {
            let unsent = std::mem::take(&mut conn.unsent);
            self.start_send(io, conn, SendBuf::Owned(unsent));
        }
        if std::mem::take(&mut conn.blocked) {
            self.enqueue(conn);
        }
    }

    /// Hands everything over that is still to be sent: the connection is about to close.
    pub(crate) fn flush_last<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        if !conn.unsent.is_empty() {
            let unsent = std::mem::take(&mut conn.unsent);
            self.start_send(io, conn, SendBuf::Owned(unsent));
        }
    }

    pub(crate) fn take_back(&mut self, buf: SendBuf) {
        if let SendBuf::Owned(buffer) = buf {
            self.keep_buffer(buffer);
        }
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.buffers
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(512))
    }

    /// Keeps a buffer's memory for use again.
    pub(crate) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        let capacities = 1..=limits::BUFFER_BYTES_KEPT;
        if self.buffers.len() < limits::BUFFERS_KEPT && capacities.contains(&buffer.capacity()) {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_means_nothing_is_no_answer() {
        let ours = Success {
            queued: 204,
            ..Success::default()
        };
        let status = |kind, code| {
            let entry = ReplyEntry {
                kind,
                code,
                ..ReplyEntry::default()
            };
            status(&entry, ours)
        };
        assert_eq!(status(REPLY_ACCEPTED, 0), Some(200));
        assert_eq!(status(REPLY_DUPLICATE, 200), Some(200));
        assert_eq!(status(REPLY_QUEUED, 202), Some(204));
        assert_eq!(status(REPLY_REFUSED, 401), Some(401));
        assert_eq!(status(REPLY_INLINE, 200), Some(200));
        for (kind, code) in [(0, 200), (6, 200), (u16::MAX, 200)] {
            assert_eq!(status(kind, code), None, "kind {kind}");
        }
        for code in [0, 100, 200, 204, 302, 600, u16::MAX] {
            assert_eq!(status(REPLY_REFUSED, code), None, "a refusal of {code}");
        }
        for code in [0, 101, 199, 600] {
            assert_eq!(status(REPLY_INLINE, code), None, "inline {code}");
        }
    }
}
