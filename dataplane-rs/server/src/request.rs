//! From bytes to a frame in the lane, or to a refusal.

use crate::conn::{Await, Conn, Routed, Stage};
use crate::limits;
use crate::plane::Slots;
use crate::tally::ShedReason;
use crate::worker::Worker;
use shm_abi::FRAME_FLAG_HTTP10;
use sluice_core::Refusal;
use sluice_core::admission::{Offer, Verdict};
use sluice_core::answers::{self, Backpressure, Manner};
use sluice_core::http1::{ChunkedDecoder, Framing, Head, Method, Version};
use sluice_core::routes::Ack;
use sluice_kernel::{Backend, Close, SendBuf, sys};
use sluice_lane::{FrameParts, HeaderSpan};

impl Worker {
    /// Bytes came.
    pub(crate) fn data<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) {
        match conn.stage {
            Stage::Lingering => return,
            Stage::Head | Stage::Body(..) if !conn.pending.is_empty() => {
                let mut joined = std::mem::take(&mut conn.pending);
                joined.extend_from_slice(data);
                self.advance_joined(io, conn, joined);
            }
            _ => {
                let used = self.advance(io, conn, data);
                conn.pending.extend_from_slice(&data[used..]);
            }
        }
        self.bound_kept(io, conn);
    }

    /// Goes on with what waited behind the last request.
    pub(crate) fn resume<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        if !matches!(conn.stage, Stage::Head) {
            return;
        }
        if !conn.pending.is_empty() {
            let joined = std::mem::take(&mut conn.pending);
            self.advance_joined(io, conn, joined);
        }
        if conn.eof && matches!(conn.stage, Stage::Head) {
            return self.close(io, conn);
        }
        if !conn.receiving && conn.pending.len() <= limits::AHEAD_BYTES_MAX && !conn.eof {
            conn.receiving = true;
            io.recv(conn.id, true);
        }
    }

    fn advance_joined<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, mut joined: Vec<u8>) {
        let used = self.advance(io, conn, &joined);
        if !conn.pending.is_empty() {
            conn.pending.extend_from_slice(&joined[used..]);
        } else if joined.len() > used || joined.capacity() <= limits::BUFFER_BYTES_KEPT {
            joined.drain(..used);
            conn.pending = joined;
        }
    }

    /// Takes as many bytes as it can and says how many. They begin where the current request begins,
    /// or where its body goes on when its head is kept.
    fn advance<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        let mut used = 0;
        while used < data.len() {
            let rest = &data[used..];
            let taken = match &mut conn.stage {
                Stage::Head => self.head(io, conn, rest),
                Stage::Body(head, routed) => {
                    let (head, routed) = (*head, *routed);
                    self.body(io, conn, rest, head, routed, false)
                }
                Stage::Chunks(..) => self.chunks(io, conn, rest),
                Stage::Discard(..) | Stage::DiscardChunks(..) => self.discard(io, conn, rest),
                Stage::Lingering => return data.len(),
                Stage::Held(..) | Stage::LaneFull(..) | Stage::Awaiting(..) => break,
            };
            if taken == 0 {
                break;
            }
            used += taken;
        }
        used
    }

    /// Stops receiving when too much waits behind the current request, and bounds what all
    /// connections of this worker keep.
    fn bound_kept<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        let waits = matches!(conn.stage, Stage::Held(..) | Stage::LaneFull(..) | Stage::Awaiting(_));
        let own = if matches!(conn.stage, Stage::Awaiting(_)) { 0 } else { conn.whole };
        let ahead = conn.pending.len().saturating_sub(own);
        if waits && conn.receiving && ahead > limits::AHEAD_BYTES_MAX {
            conn.receiving = false;
            io.recv(conn.id, false);
        }
        let unfinished = matches!(conn.stage, Stage::Body(..) | Stage::Chunks(..));
        if unfinished && self.kept + conn.kept() > limits::KEPT_BYTES_MAX {
            let (Stage::Body(_, routed) | Stage::Chunks(_, _, routed)) = conn.stage else { return };
            self.shed(io, conn, &routed, ShedReason::HeldFull, 0, false, false);
        }
    }

    fn head<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        let is_first = conn.began_ns == 0;
        if is_first {
            conn.began_ns = self.now_ns;
        }
        let head = match conn.reader.read(data, &mut self.fields) {
            Ok(Some(head)) => head,
            Ok(None) => {
                if is_first {
                    self.set_timer(conn, self.now_ns + self.config.header_timeout_ns);
                }
                return 0;
            }
            Err(refusal) => {
                self.tally.worker().add_malformed(1);
                self.refuse(io, conn, &refusal, None, false, false);
                return data.len();
            }
        };
        self.tally.worker().add_requests(1);
        if self.is_stopping() {
            let mut out = self.buffer();
            let retry_after_s = self.jitter.retry_after_s(self.now_ns, 0);
            let date = self.date();
            let manner = Manner {
                keep_alive: false,
                head_only: head.method == Method::Head,
                date: Some(&date),
            };
            answers::canned(&mut out, 503, retry_after_s, &manner);
            self.tally.worker().add_unrouted(1);
            self.send(io, conn, out, false);
            return data.len();
        }
        let path = head.path(data);
        let routed = match self.config.routes.find(path, head.method, &conn.ip) {
            Ok(route) => match head.framing.fits(route.body_bytes_max) {
                Ok(()) => (Routed::new(route, conn.began_ns), route.body_bytes_max),
                Err(refusal) => {
                    let slot = route.source_slot;
                    self.refuse(io, conn, &refusal, Some(slot), false, false);
                    return data.len();
                }
            },
            Err(refusal) => return self.unrouted(io, conn, data, &head, refusal),
        };
        let (routed, body_bytes_max) = routed;
        if head.expect_continue && data.len() == head.length && head.framing != Framing::None {
            self.send_now(io, conn, SendBuf::Static(answers::CONTINUE));
        }
        if head.framing == Framing::Chunked {
            conn.pending.extend_from_slice(&data[..head.length]);
            conn.whole = head.length;
            conn.stage = Stage::Chunks(head, ChunkedDecoder::new(body_bytes_max), routed);
            self.set_timer(conn, self.now_ns + self.config.body_timeout_ns);
            return head.length;
        }
        conn.stage = Stage::Body(head, routed);
        let taken = self.body(io, conn, data, head, routed, true);
        if taken == 0 {
            self.set_timer(conn, self.now_ns + self.config.body_timeout_ns);
        }
        taken
    }

    /// A request that no route takes. Where that is all that is wrong, its body is read first, so
    /// that the connection can go on.
    fn unrouted<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        data: &[u8],
        head: &Head,
        refusal: Refusal,
    ) -> usize {
        let head_only = head.method == Method::Head;
        let keep_alive = head.keep_alive
            && !refusal.closes()
            && !head.expect_continue // a body that may never come
            && head.framing.fits(self.config.body_bytes_max).is_ok();
        match head.framing {
            _ if !keep_alive => {
                self.refuse(io, conn, &refusal, None, false, head_only);
                return data.len();
            }
            Framing::None => self.refuse(io, conn, &refusal, None, true, head_only),
            Framing::Length(length) => {
                conn.stage = Stage::Discard(refusal, length, head_only);
                self.set_timer(conn, self.now_ns + self.config.body_timeout_ns);
            }
            Framing::Chunked => {
                let decoder = ChunkedDecoder::new(self.config.body_bytes_max);
                conn.stage = Stage::DiscardChunks(refusal, decoder, head_only);
                self.set_timer(conn, self.now_ns + self.config.body_timeout_ns);
            }
        }
        head.length
    }

    fn discard<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        match &mut conn.stage {
            Stage::Discard(refusal, left, head_only) => {
                let taken = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                if *left == 0 {
                    let (refusal, head_only) = (*refusal, *head_only);
                    self.refuse(io, conn, &refusal, None, true, head_only);
                }
                taken
            }
            Stage::DiscardChunks(refusal, decoder, head_only) => {
                let (refusal, head_only) = (*refusal, *head_only);
                match decoder.step(data) {
                    Ok(step) => {
                        if step.done {
                            self.refuse(io, conn, &refusal, None, true, head_only);
                        }
                        step.consumed
                    }
                    Err(broken) => {
                        self.tally.worker().add_malformed(1);
                        self.refuse(io, conn, &broken, None, false, head_only);
                        data.len()
                    }
                }
            }
            _ => 0,
        }
    }

    /// A body of known length, or none: taken when it is whole. `fields_are_its`: the worker's
    /// fields are those of this head.
    fn body<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        data: &[u8],
        head: Head,
        routed: Routed,
        fields_are_its: bool,
    ) -> usize {
        let length = match head.framing {
            Framing::Length(length) => length as usize, // within the route's bound
            _ => 0,
        };
        let whole = head.length + length;
        if data.len() < whole {
            return 0;
        }
        if !fields_are_its {
            self.read_fields(conn, &data[..head.length]);
        }
        let body = &data[head.length..whole];
        if self.whole(io, conn, &data[..head.length], body, head, routed) {
            // It waits: its bytes are kept.
            conn.pending.extend_from_slice(&data[..whole]);
            conn.whole = whole;
        }
        whole
    }

    fn chunks<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        let Stage::Chunks(head, decoder, routed) = &mut conn.stage else { return 0 };
        let (head, routed) = (*head, *routed);
        let progress = match decoder.decode(data, &mut conn.spill) {
            Ok(progress) => progress,
            Err(refusal) => {
                self.tally.worker().add_malformed(1);
                self.refuse(io, conn, &refusal, Some(routed.slot), false, false);
                return data.len();
            }
        };
        if progress.done {
            let bytes = std::mem::take(&mut conn.pending);
            let spill = std::mem::take(&mut conn.spill);
            self.read_fields(conn, &bytes);
            if self.whole(io, conn, &bytes, &spill, head, routed) {
                conn.pending = bytes;
                conn.spill = spill;
            }
        }
        progress.consumed
    }

    /// Reads the fields of a head that was accepted before.
    fn read_fields(&mut self, conn: &mut Conn, head_bytes: &[u8]) {
        conn.reader.restart();
        let again = conn.reader.read(head_bytes, &mut self.fields);
        debug_assert!(matches!(again, Ok(Some(_))), "the same bytes, another outcome");
    }

    /// A whole request asks for a slot. True: it waits, and its bytes must be kept.
    fn whole<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        head_bytes: &[u8],
        body: &[u8],
        head: Head,
        routed: Routed,
    ) -> bool {
        conn.reader.restart();
        conn.seq = conn.seq.wrapping_add(1);
        let head_only = head.method == Method::Head;
        let keep_alive = head.keep_alive;
        let page = self.plane.control.page();
        if page.writable() == 0 || page.journal_full() != 0 {
            self.shed(io, conn, &routed, ShedReason::Journal, 0, keep_alive, head_only);
            return false;
        }
        if let Some(rate) = routed.rate
            && let Err(wait_ns) = rate.take(self.plane.rate(routed.slot), self.now_ns)
        {
            self.shed(io, conn, &routed, ShedReason::Rate, wait_ns, keep_alive, head_only);
            return false;
        }
        match self.lane.used() {
            Ok(used) if used * 1000 / self.lane.capacity() < limits::LANE_SHED_MILLI => {}
            Ok(_) => {
                self.tally.worker().add_lane_full(1);
                self.shed(io, conn, &routed, ShedReason::Lane, 0, keep_alive, head_only);
                return false;
            }
            Err(error) => {
                self.fail(error.to_string());
                self.shed(io, conn, &routed, ShedReason::Stopping, 0, false, head_only);
                return false;
            }
        }
        let offer = Offer {
            token: conn.token(),
            class: routed.class,
            source: routed.slot,
            until_ns: routed.until_ns,
            ring: routed.ack == Ack::Ring,
            floor: false,
        };
        let verdict = self.admission.offer(
            self.now_ns,
            &offer,
            &self.numbers,
            &mut Slots(&self.plane),
        );
        match verdict {
            Verdict::Admit => self.publish(io, conn, head_bytes, body, head, routed),
            Verdict::Hold { ticket, pushed_out } => {
                conn.stage = Stage::Held(head, routed, ticket);
                self.clear_timer(conn);
                if let Some(waiter) = pushed_out {
                    let seat = crate::conn::seat_of(waiter.token);
                    self.with_conn(io, seat, |worker, io, other| {
                        if other.token() == waiter.token {
                            worker.held_in_vain(io, other, ShedReason::Class);
                        }
                    });
                }
                true
            }
            Verdict::Shed(why) => {
                let reason = match why {
                    sluice_core::admission::Shed::HeldFull => ShedReason::HeldFull,
                    sluice_core::admission::Shed::HoldSpent => ShedReason::Hold,
                    _ => ShedReason::Class,
                };
                self.shed(io, conn, &routed, reason, 0, keep_alive, head_only);
                false
            }
        }
    }

    /// Copies the request into the lane. It has a slot. True: there is no room now, and its bytes
    /// must be kept.
    fn publish<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        head_bytes: &[u8],
        body: &[u8],
        head: Head,
        routed: Routed,
    ) -> bool {
        self.spans.clear();
        self.spans.extend(self.fields.as_slice().iter().map(|field| HeaderSpan {
            name: field.name_offset,
            name_length: field.name_length,
            value: field.value_offset,
            value_length: field.value_length,
        }));
        let received_ns = sys::wall_ns();
        let parts = FrameParts {
            method: head.method.as_str().as_bytes(),
            target: head.target(head_bytes),
            headers: head.block(head_bytes),
            index: &self.spans,
            body: &[body],
            peer: conn.peer,
            flags: if head.version == Version::Http10 { FRAME_FLAG_HTTP10 } else { 0 },
            source_id: routed.source_id,
            config_version: routed.config_version,
            seq: conn.seq,
            received_ns,
            admitted_ns: self.now_ns,
            token: conn.token(),
        };
        match self.lane.publish(&parts) {
            Ok(Some(position)) => {
                self.frame_published(position);
                conn.stage = Stage::Awaiting(Await {
                    seq: conn.seq,
                    slot: routed.slot,
                    shed_status: routed.shed_status,
                    keep_alive: head.keep_alive,
                    head_only: head.method == Method::Head,
                    received_ns,
                });
                self.set_timer(conn, routed.until_ns);
                false
            }
            Ok(None) => {
                conn.stage = Stage::LaneFull(head, routed);
                self.lane_waiting.push_back(conn.token());
                self.set_timer(conn, routed.until_ns);
                true
            }
            Err(error) => {
                self.admission.release(&mut Slots(&self.plane));
                self.fail(error.to_string());
                self.shed(io, conn, &routed, ShedReason::Stopping, 0, false, false);
                false
            }
        }
    }

    /// A held request got its slot.
    pub(crate) fn granted<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, since_ns: u64) {
        let Stage::Held(head, routed, _) = conn.stage else {
            self.admission.release(&mut Slots(&self.plane));
            return;
        };
        self.tally.held(routed.slot, self.now_ns.saturating_sub(since_ns));
        self.publish_kept(io, conn, head, routed);
    }

    /// There may be room in the lane again.
    pub(crate) fn room_again<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        if let Stage::LaneFull(head, routed) = conn.stage {
            self.publish_kept(io, conn, head, routed);
        }
    }

    fn publish_kept<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        head: Head,
        routed: Routed,
    ) {
        let mut bytes = std::mem::take(&mut conn.pending);
        let spill = std::mem::take(&mut conn.spill);
        self.read_fields(conn, &bytes[..head.length]);
        conn.reader.restart();
        let body = match head.framing {
            Framing::Chunked => &spill[..],
            _ => &bytes[head.length..conn.whole],
        };
        if self.publish(io, conn, &bytes[..head.length], body, head, routed) {
            conn.spill = spill;
        } else {
            bytes.drain(..conn.whole);
        }
        conn.pending = bytes;
    }

    /// A held request leaves the queue without a slot; the queue no longer knows it.
    pub(crate) fn held_in_vain<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        reason: ShedReason,
    ) {
        let Stage::Held(head, routed, _) = conn.stage else { return };
        self.drop_whole(conn);
        let head_only = head.method == Method::Head;
        self.shed(io, conn, &routed, reason, 0, head.keep_alive, head_only);
        self.resume(io, conn);
    }

    /// Forgets the kept bytes of the current request; those behind it stay.
    fn drop_whole(&mut self, conn: &mut Conn) {
        conn.pending.drain(..conn.whole.min(conn.pending.len()));
        conn.whole = 0;
        conn.spill = Vec::new();
    }

    /// The timer of the current stage fired.
    pub(crate) fn timed_out<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        match conn.stage {
            Stage::Head if conn.began_ns == 0 => self.close(io, conn),
            Stage::Head => self.refuse(io, conn, &Refusal::TooSlow, None, false, false),
            Stage::Body(_, routed) | Stage::Chunks(_, _, routed) => {
                self.refuse(io, conn, &Refusal::TooSlow, Some(routed.slot), false, false);
            }
            Stage::Discard(..) | Stage::DiscardChunks(..) => {
                self.refuse(io, conn, &Refusal::TooSlow, None, false, false);
            }
            Stage::Held(..) => {} // the queue has its own clock
            Stage::LaneFull(head, routed) => {
                self.admission.release(&mut Slots(&self.plane));
                self.drop_whole(conn);
                let head_only = head.method == Method::Head;
                self.shed(io, conn, &routed, ShedReason::Lane, 0, head.keep_alive, head_only);
            }
            Stage::Awaiting(wait) => {
                // The frame stays and may still be stored; a retry is then a duplicate.
                self.tally.worker().add_budget_over(1);
                self.shed_answer(
                    io,
                    conn,
                    (wait.slot, wait.shed_status),
                    ShedReason::Budget,
                    0,
                    wait.keep_alive,
                    wait.head_only,
                );
            }
            Stage::Lingering => io.close(conn.id, Close::Now),
        }
    }

    /// The peer sent FIN, or the connection broke.
    pub(crate) fn ended<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, broken: bool) {
        conn.eof = true;
        let answer_is_due =
            matches!(conn.stage, Stage::Held(..) | Stage::LaneFull(..) | Stage::Awaiting(_));
        if broken {
            self.leave(io, conn, Close::Abort);
        } else if !answer_is_due && !matches!(conn.stage, Stage::Lingering) {
            self.leave(io, conn, Close::Graceful);
        }
    }

    /// Gives the current request up as far as it is not in the lane: its place in the queue, or the
    /// slot that it has without a frame.
    pub(crate) fn forget_request(&mut self, conn: &mut Conn) {
        match conn.stage {
            Stage::Held(_, _, ticket) => {
                self.admission.cancel(ticket, &mut Slots(&self.plane));
            }
            Stage::LaneFull(..) => self.admission.release(&mut Slots(&self.plane)),
            _ => {}
        }
        conn.stage = Stage::Lingering;
    }

    /// Ends a connection without an answer.
    pub(crate) fn leave<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, how: Close) {
        self.forget_request(conn);
        conn.pending = Vec::new();
        conn.spill = Vec::new();
        self.set_timer(conn, self.now_ns + limits::LINGER_NS);
        io.close(conn.id, how);
    }

    /// Ends a connection behind its last answer.
    fn close<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        self.leave(io, conn, Close::Graceful);
    }

    fn refuse<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        refusal: &Refusal,
        slot: Option<u16>,
        keep_alive: bool,
        head_only: bool,
    ) {
        let mut out = self.buffer();
        let date = self.date();
        let manner = Manner { keep_alive: keep_alive && !self.draining, head_only, date: Some(&date) };
        answers::refused(&mut out, refusal, &manner);
        match slot {
            Some(slot) => self.tally.answered(slot, refusal.status()),
            None => self.tally.worker().add_unrouted(1),
        }
        self.send(io, conn, out, manner.keep_alive && !refusal.closes());
    }

    #[allow(clippy::too_many_arguments)]
    fn shed<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        routed: &Routed,
        reason: ShedReason,
        wait_ns: u64,
        keep_alive: bool,
        head_only: bool,
    ) {
        let route = (routed.slot, routed.shed_status);
        self.shed_answer(io, conn, route, reason, wait_ns, keep_alive, head_only);
    }

    #[allow(clippy::too_many_arguments)]
    fn shed_answer<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        (slot, shed_status): (u16, u16),
        reason: ShedReason,
        wait_ns: u64,
        keep_alive: bool,
        head_only: bool,
    ) {
        let since_ns = self.plane.control.page().overload_since_ns();
        let (why, status, retry_after_s) = match reason {
            ShedReason::Journal => {
                (Backpressure::IngestionQueueFull, 503, self.jitter.retry_after_journal_s())
            }
            ShedReason::Rate => {
                (Backpressure::RateLimited, 429, self.jitter.retry_after_rate_s(wait_ns))
            }
            _ => (
                Backpressure::Overloaded,
                shed_status,
                self.jitter.retry_after_s(self.now_ns, since_ns),
            ),
        };
        let mut out = self.buffer();
        let date = self.date();
        let manner = Manner { keep_alive: keep_alive && !self.draining, head_only, date: Some(&date) };
        answers::shed(&mut out, why, status, retry_after_s, &manner);
        self.tally.shed(slot, reason);
        self.tally.answered(slot, status);
        self.send(io, conn, out, manner.keep_alive);
    }

    /// Sends the answer of the current request and makes the connection ready for the next one, or
    /// closes it.
    pub(crate) fn send<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        out: Vec<u8>,
        keep_alive: bool,
    ) {
        self.send_now(io, conn, SendBuf::Owned(out));
        if matches!(conn.stage, Stage::Lingering) {
            return;
        }
        if !keep_alive {
            return self.close(io, conn);
        }
        conn.whole = 0;
        conn.stage = Stage::Head;
        conn.reader.restart();
        conn.began_ns = 0;
        self.set_timer(conn, self.now_ns + self.config.idle_timeout_ns);
    }

    fn send_now<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, buf: SendBuf) {
        if let Err(refused) = io.send(conn.id, buf) {
            if let SendBuf::Owned(buffer) = refused.buf {
                self.keep_buffer(buffer);
            }
            self.leave(io, conn, Close::Now); // a peer that does not read its answers
        }
    }
}
