//! From bytes to a whole request, or to a refusal.
//!
//! `advance` takes bytes that begin where the current request begins (or, for a chunked or refused
//! body, where it goes on) and says how many are done with; the caller keeps the others in the
//! inbox. Nothing here calls itself again for the next request: what an answer sets free waits in
//! the worker's queue for its turn.

use crate::conn::{Asked, Conn, Request, Routed, Stage, mapped};
use crate::inbox;
use crate::limits;
use crate::tally::ShedReason;
use crate::worker::Worker;
use sluice_core::Refusal;
use sluice_core::http1::{ChunkedDecoder, Field, Framing, Head, Method};
use sluice_core::{answers, forwarded, proxy};
use sluice_kernel::{Backend, Close, SendBuf};

/// The two parts of a request, wherever they lie.
#[derive(Clone, Copy)]
pub struct Whole<'a> {
    pub head: &'a [u8],
    /// Without transfer coding.
    pub body: &'a [u8],
}

impl Worker {
    /// Bytes came.
    pub(crate) fn data<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) {
        if matches!(conn.stage, Stage::Lingering) {
            return;
        }
        if conn.inbox.is_empty() && !conn.queued && !conn.blocked {
            let used = self.advance(io, conn, data);
            self.keep(conn, &data[used..]);
        } else {
            self.keep(conn, data);
            if !conn.queued && !conn.blocked && !conn.waits() {
                self.advance_kept(io, conn);
            }
        }
    }

    /// Goes on with what the inbox holds.
    pub(crate) fn advance_kept<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        let inbox = std::mem::take(&mut conn.inbox);
        let used = self.advance(io, conn, inbox.as_slice());
        conn.inbox = inbox;
        self.consume(conn, used);
    }

    fn keep(&mut self, conn: &mut Conn, data: &[u8]) {
        if !data.is_empty() && !matches!(conn.stage, Stage::Lingering) {
            let most = match &conn.stage {
                Stage::Body(request) => request.bytes_max,
                _ => usize::MAX,
            };
            conn.inbox.push(data, most, || self.buffer());
        }
    }

    /// Steps over bytes of the inbox.
    pub(crate) fn consume(&mut self, conn: &mut Conn, count: usize) {
        if let Some(buffer) = conn.inbox.consume(count.min(conn.inbox.len())) {
            self.keep_buffer(buffer);
        }
    }

    /// The peer sent FIN, or the connection broke.
    pub(crate) fn ended<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, broken: bool) {
        conn.eof = true;
        if broken {
            self.leave(io, conn, Close::Abort);
        }
    }

    /// Puts right what follows from anything that was done to a connection: whether it is over,
    /// whether it keeps too much, whether more is to be received.
    pub(crate) fn settle<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        if matches!(conn.stage, Stage::Lingering) {
            return;
        }
        let opening = matches!(conn.stage, Stage::Opening);
        let busy = conn.waits() || conn.queued || conn.blocked || conn.transport.waits();
        if conn.eof && (!busy || opening) {
            return self.leave(io, conn, Close::Graceful); // the rest of its request never comes
        }
        let kept = conn.kept();
        let fits = kept == 0 || self.memory.fits(&conn.charge, conn.asked.slot, kept);
        if !fits && (!busy || opening) {
            self.tally.worker().add_kept_refused(1);
            if opening {
                return self.leave(io, conn, Close::Graceful); // there is nothing to answer yet
            }
            conn.asked.keep_alive = false; // its body is not read to the end
            return self.shed(io, conn, ShedReason::HeldFull);
        }
        let bound = match conn.receiving {
            true => limits::AHEAD_BYTES_MAX,
            false => limits::AHEAD_BYTES_AGAIN,
        };
        let receive = !busy || (fits && conn.ahead() <= bound);
        if receive != conn.receiving && !conn.eof {
            conn.receiving = receive;
            io.recv(conn.id, receive);
        }
    }

    fn advance<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        let mut used = 0;
        let mut begun = 0;
        while used < data.len() {
            let rest = &data[used..];
            let taken = match &conn.stage {
                Stage::Head if conn.unsent.len() > limits::UNSENT_BYTES_MAX => {
                    conn.blocked = true;
                    break;
                }
                Stage::Head if begun == limits::REQUESTS_PER_VISIT => {
                    self.enqueue(conn);
                    break;
                }
                Stage::Head => {
                    begun += 1;
                    self.head(io, conn, rest)
                }
                &Stage::Body(request) => self.body(io, conn, rest, request, false),
                Stage::Chunks(..) => self.chunks(io, conn, rest),
                Stage::Discard(..) | Stage::DiscardChunks(..) => self.discard(io, conn, rest),
                Stage::Opening | Stage::Held(..) | Stage::LaneFull(..) | Stage::Awaiting { .. } => {
                    break;
                }
                Stage::Lingering => return data.len(),
            };
            if taken == 0 {
                break;
            }
            used += taken;
        }
        used
    }

    fn head<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        let is_first = conn.began_ns == 0;
        if is_first {
            conn.began_ns = self.now_ns;
        }
        if conn.counted.is_none() {
            conn.asked.head_only = data.starts_with(b"HEAD ");
            self.shed(io, conn, ShedReason::HeldFull);
            return data.len();
        }
        let head = match conn.reader.read(data, &mut self.fields) {
            Ok(Some(head)) => head,
            Ok(None) => {
                if is_first {
                    self.set_deadline(conn, self.now_ns + self.config.header_timeout_ns);
                }
                return 0;
            }
            Err(refusal) => {
                // An answer to HEAD has no body, however broken the rest is (RFC 9110, 9.3.2).
                conn.asked.head_only = data.starts_with(b"HEAD ");
                if matches!(proxy::parse(data), Ok(Some(_))) {
                    self.tally.worker().add_proxy_refused(1);
                }
                self.refuse(io, conn, &refusal);
                return data.len();
            }
        };
        self.tally.worker().add_requests(1);
        conn.asked = Asked {
            keep_alive: head.keep_alive,
            head_only: head.method == Method::Head,
            ..Asked::default()
        };
        let ip = self.name_sender(conn, head.block(data));
        let found = self.config.routes.find(head.path(data), head.method, &ip);
        let (routed, body_bytes_max) = match found {
            Ok(route) => {
                conn.asked.slot = Some(route.source_slot);
                conn.asked.source_id = route.source_id;
                conn.asked.shed_status = route.shed_status;
                conn.asked.success = route.success;
                (Routed::new(route, conn.began_ns), route.body_bytes_max)
            }
            Err(refusal) if !self.is_stopping() => {
                return self.unrouted(io, conn, data, &head, refusal);
            }
            Err(_) => {
                self.shed(io, conn, ShedReason::Stopping);
                return data.len();
            }
        };
        let body_bytes_max = body_bytes_max.min(limits::BODY_BYTES_MAX);
        let bytes_max = match head.framing {
            Framing::None => 0,
            Framing::Length(length) => length.min(body_bytes_max),
            Framing::Chunked => body_bytes_max,
        };
        let mut request = Request {
            head,
            routed,
            bytes_max: head.length + bytes_max as usize,
            repeat: false,
            id_in_body: false,
        };
        self.identify(conn, &mut request, data, None);
        if self.is_stopping() {
            self.shed(io, conn, ShedReason::Stopping);
            return data.len();
        }
        if let Err(refusal) = head.framing.fits(body_bytes_max) {
            self.refuse(io, conn, &refusal);
            return data.len();
        }
        if head.expect_continue && data.len() == head.length {
            self.push_out(io, conn, SendBuf::Static(answers::CONTINUE));
            if matches!(conn.stage, Stage::Lingering) {
                return data.len();
            }
        }
        if head.framing == Framing::Chunked {
            conn.spill = self.buffer();
            conn.spill.extend_from_slice(&data[..head.length]);
            conn.stage = Stage::Chunks(request, ChunkedDecoder::new(body_bytes_max));
            self.expect_body(conn);
            return head.length;
        }
        conn.stage = Stage::Body(request);
        let taken = self.body(io, conn, data, request, true);
        if matches!(conn.stage, Stage::Body(_)) {
            self.expect_body(conn);
        }
        taken
    }

    /// Whose request it is, as a peer that is believed says; the worker's fields are those of
    /// `block`. The address counts for the allow list and in the frame, while the bound on
    /// connections stays with the peer, whose they are.
    fn name_sender(&self, conn: &mut Conn, block: &[u8]) -> [u8; 16] {
        conn.sender = conn.peer;
        let listener = &self.config.listeners[conn.row];
        if !listener.is_believed(conn.peer.map(|_| conn.ip)) {
            return conn.ip;
        }
        let is_it = |field: &&Field| field.name(block).eq_ignore_ascii_case(b"x-forwarded-for");
        let fields = self.fields.as_slice().iter().filter(is_it);
        let values = fields.map(|field| field.value(block));
        match forwarded::client(values, &listener.forwarded_from) {
            Some(ip) => {
                conn.sender = Some((ip, 0).into());
                mapped(ip)
            }
            None => conn.ip,
        }
    }

    /// The head is whole and its body is not.
    fn expect_body(&mut self, conn: &mut Conn) {
        conn.body_until_ns = self.now_ns + self.config.body_timeout_ns;
        self.set_deadline(conn, conn.body_until_ns);
    }

    /// How long the current body has time, as far as it has come: its timeout, and a second more
    /// for so many bytes. Looked at when a deadline is over, so that bytes move no timer.
    fn body_deadline_ns(&self, conn: &Conn) -> u64 {
        let bytes = u128::from(conn.body_bytes());
        let earned_ns = match u128::from(self.config.body_rate_min) {
            0 => 0,
            rate => bytes * 1_000_000_000 / rate,
        };
        conn.body_until_ns
            .saturating_add(u64::try_from(earned_ns).unwrap_or(u64::MAX))
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
        let goes_on = head.keep_alive
            && !refusal.closes()
            && !head.expect_continue // a body that may never come
            && head.framing.fits(self.config.body_bytes_max).is_ok();
        conn.asked.keep_alive = goes_on;
        match head.framing {
            _ if !goes_on => {
                self.refuse(io, conn, &refusal);
                return data.len();
            }
            Framing::None => {
                self.refuse(io, conn, &refusal);
                return head.length;
            }
            Framing::Length(length) => conn.stage = Stage::Discard(refusal, 0, length),
            Framing::Chunked => {
                let decoder = ChunkedDecoder::new(self.config.body_bytes_max);
                conn.stage = Stage::DiscardChunks(refusal, decoder, 0);
            }
        }
        self.expect_body(conn);
        head.length
    }

    fn discard<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        let (taken, refusal) = match &mut conn.stage {
            Stage::Discard(refusal, read, left) => {
                let taken = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *read += taken as u64;
                *left -= taken as u64;
                (taken, (*left == 0).then_some(*refusal))
            }
            Stage::DiscardChunks(refusal, decoder, read) => match decoder.step(data) {
                Ok(step) => {
                    *read += step.data.len() as u64;
                    (step.consumed, step.done.then_some(*refusal))
                }
                Err(broken) => (data.len(), Some(broken)),
            },
            _ => return 0,
        };
        if let Some(refusal) = refusal {
            self.refuse(io, conn, &refusal);
        }
        taken
    }

    /// A body of known length, or none: taken when it is whole. `fields_are_its`: the worker's
    /// fields are those of this head.
    fn body<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        data: &[u8],
        request: Request,
        fields_are_its: bool,
    ) -> usize {
        let head = &request.head;
        let length = match head.framing {
            Framing::Length(length) => length as usize, // within the route's bound
            _ => 0,
        };
        let end = head.length + length;
        if data.len() < end {
            return 0;
        }
        if !fields_are_its {
            self.read_fields(conn, &data[..head.length]);
        }
        let whole = Whole {
            head: &data[..head.length],
            body: &data[head.length..end],
        };
        if self.offer(io, conn, whole, request) {
            conn.whole = end; // it waits: these bytes are not done with
            return 0;
        }
        end
    }

    fn chunks<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &[u8]) -> usize {
        let Stage::Chunks(request, decoder) = &mut conn.stage else {
            return 0;
        };
        let request = *request;
        inbox::reserve(&mut conn.spill, data.len(), request.bytes_max);
        let progress = match decoder.decode(data, &mut conn.spill) {
            Ok(progress) => progress,
            Err(refusal) => {
                self.refuse(io, conn, &refusal);
                return data.len();
            }
        };
        if progress.done {
            let spill = std::mem::take(&mut conn.spill);
            let (head, body) = spill.split_at(request.head.length);
            self.read_fields(conn, head);
            if self.offer(io, conn, Whole { head, body }, request) {
                conn.spill = spill;
            } else {
                self.keep_buffer(spill);
            }
        }
        progress.consumed
    }

    /// Reads the fields of a head that was accepted before.
    pub(crate) fn read_fields(&mut self, conn: &mut Conn, head_bytes: &[u8]) {
        conn.reader.restart();
        let again = conn.reader.read(head_bytes, &mut self.fields);
        debug_assert!(
            matches!(again, Ok(Some(_))),
            "the same bytes, another outcome"
        );
    }

    /// The deadline of the current stage has passed.
    pub(crate) fn timed_out<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        match conn.stage {
            Stage::Opening => self.opened_too_late(io, conn),
            Stage::Head if conn.is_idle() => self.leave(io, conn, Close::Graceful),
            Stage::Head => self.too_slow(io, conn),
            Stage::Body(_) | Stage::Chunks(..) | Stage::Discard(..) | Stage::DiscardChunks(..) => {
                let until_ns = self.body_deadline_ns(conn);
                match until_ns > self.now_ns {
                    true => self.set_deadline(conn, until_ns),
                    false => self.too_slow(io, conn),
                }
            }
            Stage::Held(..) => self.give_up(io, conn, ShedReason::Hold),
            Stage::LaneFull(..) => self.give_up(io, conn, ShedReason::Lane),
            Stage::Awaiting { position, .. } => {
                // The frame stays and may still be stored; a retry is then a duplicate.
                self.tally.worker().add_budget_over(1);
                if self.frames.miss(position) {
                    self.tally.worker().add_drops(1);
                }
                self.shed(io, conn, ShedReason::Budget);
            }
            Stage::Lingering => io.close(conn.id, Close::Now),
        }
    }
    fn too_slow<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        self.tally.worker().add_too_slow(1);
        self.refuse(io, conn, &Refusal::TooSlow);
    }
}
