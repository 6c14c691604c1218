//! From a whole request with a slot to a frame in the lane, and from a reply in the lane to its
//! connection.

use crate::conn::{Conn, Request, Stage, seat_of};
use crate::frames::Slot;
use crate::limits;
use crate::request::Whole;
use crate::tally::ShedReason;
use crate::worker::Worker;
use shm_abi::{
    FRAME_FLAG_HTTP10, FRAME_FLAG_TLS, REPLY_ACCEPTED, REPLY_QUEUED, REPLY_REFUSED, ReplyEntry,
};
use sluice_core::answers::{Manner, Success};
use sluice_core::http1::{Framing, Version};
use sluice_core::routes::Ack;
use sluice_kernel::Backend;
use sluice_lane::{FrameParts, HeaderSpan};

fn flag(is_set: bool, flag: u16) -> u16 {
    if is_set { flag } else { 0 }
}

impl Worker {
    /// Puts an admitted request into the lane, behind those that wait for room. True: there is no
    /// room now, and its bytes must be kept. `taken_ns`: when its slot was taken, if it has one.
    pub(crate) fn publish<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        whole: Whole<'_>,
        request: Request,
        taken_ns: Option<u64>,
    ) -> bool {
        // Small frames that pass a large one by would keep it waiting until its budget is over.
        if self.lane_waiting.is_empty() && !self.write_frame(io, conn, whole, request, taken_ns) {
            return false;
        }
        conn.stage = Stage::LaneFull(request, taken_ns);
        self.lane_waiting.push_back(conn.token());
        self.set_deadline(conn, request.routed.until_ns);
        true
    }

    /// Copies a request into the lane. True: there is no room, and nothing was done.
    fn write_frame<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        whole: Whole<'_>,
        request: Request,
        taken_ns: Option<u64>,
    ) -> bool {
        let Request { head, routed, .. } = &request;
        self.spans.clear();
        self.spans
            .extend(self.fields.as_slice().iter().map(|field| HeaderSpan {
                name: field.name_offset,
                name_length: field.name_length,
                value: field.value_offset,
                value_length: field.value_length,
            }));
        let parts = FrameParts {
            method: head.method.as_str().as_bytes(),
            target: head.target(whole.head),
            client: conn.transport.client_names(),
            headers: head.block(whole.head),
            index: &self.spans,
            body: &[whole.body],
            peer: conn.sender,
            flags: flag(head.version == Version::Http10, FRAME_FLAG_HTTP10)
                | flag(conn.transport.has_tls(), FRAME_FLAG_TLS),
            source_id: routed.source_id,
            config_version: routed.config_version,
            seq: conn.seq,
            received_ns: self.wall_ns,
            admitted_ns: taken_ns.unwrap_or(self.now_ns),
            token: conn.token(),
            until_ns: routed.until_ns,
        };
        match self.lane.publish(&parts) {
            Ok(Some(position)) => {
                let to = self.lane.position();
                let weight = routed.verify_weight;
                if taken_ns.is_some() || weight > 0 {
                    let until_room = routed.ack == Ack::Delivered;
                    self.frames
                        .push(position, to, Slot::new(taken_ns, until_room, weight));
                }
                self.published = true;
                self.tally.worker().add_frames(1);
                self.tally.worker().add_frame_bytes(to - position);
                conn.stage = Stage::Awaiting {
                    since_ns: self.now_ns,
                    position,
                };
                self.set_deadline(conn, routed.until_ns);
                false
            }
            Ok(None) => true,
            Err(error) => {
                self.give_back(taken_ns, routed.verify_weight, false);
                conn.stage = Stage::Head; // it has neither slot nor frame
                self.fail(error.to_string());
                self.shed(io, conn, ShedReason::Stopping);
                false
            }
        }
    }

    /// Publishes a request that was held or waited for room. True: there is still no room.
    pub(crate) fn publish_kept<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        request: Request,
        taken_ns: Option<u64>,
        is_first: bool,
    ) -> bool {
        let head_length = request.head.length;
        let inbox = std::mem::take(&mut conn.inbox);
        let spill = std::mem::take(&mut conn.spill);
        let bytes = match request.head.framing {
            Framing::Chunked => &spill[..],
            _ => &inbox.as_slice()[..conn.whole],
        };
        let (head, body) = bytes.split_at(head_length);
        let whole = Whole { head, body };
        self.read_fields(conn, head);
        conn.reader.restart();
        let waits = match is_first {
            true => self.write_frame(io, conn, whole, request, taken_ns),
            false => self.publish(io, conn, whole, request, taken_ns),
        };
        conn.inbox = inbox;
        conn.spill = spill;
        if matches!(conn.stage, Stage::Lingering) {
            self.abandon(conn);
        } else if !waits {
            self.drop_request(conn);
        }
        waits
    }

    /// Goes on with those that wait for room, first come, first served.
    pub(crate) fn retry_lane_waiting<B: Backend>(&mut self, io: &mut B) {
        while let Some(token) = self.lane_waiting.pop_front() {
            let mut waits = false;
            self.with_token(io, token, |worker, io, conn| {
                if let Stage::LaneFull(request, taken_ns) = conn.stage {
                    waits = worker.publish_kept(io, conn, request, taken_ns, true);
                }
            });
            if waits {
                return self.lane_waiting.push_front(token);
            }
        }
    }

    /// Drains the reply ring.
    pub(crate) fn replies<B: Backend>(&mut self, io: &mut B) {
        let asleep_ns = self
            .slept_at_ns
            .map_or(0, |at| self.now_ns.saturating_sub(at));
        let leaving = self.is_leaving();
        while !self.failed {
            let reply = match self.lane.next_reply() {
                Ok(Some(reply)) => reply,
                Ok(None) => return,
                Err(error) => return self.fail(error.to_string()),
            };
            let entry = reply.entry;
            if crate::answer::status(&entry, Success::default()).is_none() {
                let (kind, code) = (entry.kind, entry.code);
                return self.fail(format!("the control plane left a reply {kind} of {code}"));
            }
            let seat = seat_of(entry.token);
            let conn = self.conns.get_mut(seat).and_then(Option::as_mut);
            let awaited = conn.and_then(|conn| Some((conn.awaits(&entry)?, conn)));
            let answer = awaited.map(|(since_ns, conn)| {
                conn.asked.keep_alive &= !leaving;
                let mut out = self
                    .buffers
                    .pop()
                    .unwrap_or_else(|| Vec::with_capacity(512));
                let manner = Manner {
                    keep_alive: conn.asked.keep_alive,
                    head_only: conn.asked.head_only,
                    date: Some(&self.date),
                };
                let success = conn.asked.success;
                crate::answer::write(&mut out, &reply, success, &manner);
                let status = crate::answer::status(&entry, success);
                (since_ns, conn.asked.slot.zip(status), out)
            });
            self.lane.reply_done(entry.length);
            self.tally.worker().add_replies(1);
            if asleep_ns >= limits::SLEEP_NS_MAX {
                self.unrung_ns.get_or_insert(self.now_ns);
            }
            self.give_answered_slot(&entry);
            let Some((since_ns, counted, out)) = answer else {
                self.tally.worker().add_late_replies(1);
                continue;
            };
            if let Some((slot, status)) = counted {
                match status {
                    200..300 => self.plane.slots.succeeded(slot, self.now_ns),
                    429 | 503 => self.plane.slots.refused(slot),
                    _ => {}
                }
                self.tally.answered(slot, status);
                self.tally
                    .acknowledged(slot, self.now_ns.saturating_sub(since_ns));
            }
            self.with_conn(io, seat, |worker, io, conn| worker.finish(io, conn, out));
        }
    }

    /// Gives the slot of a frame back with its reply, whoever still waits for that. What was
    /// accepted is durable; any other frame says nothing about the journal, but for a 503 that does
    /// not say when to come again.
    fn give_answered_slot(&mut self, entry: &ReplyEntry) {
        if let Some(slot) = self.frames.answered(entry.position) {
            let is_drop = (entry.kind, entry.code, entry.retry_after_s) == (REPLY_REFUSED, 503, 0);
            if is_drop && !slot.missed {
                self.tally.worker().add_drops(1);
            }
            let is_sample = matches!(entry.kind, REPLY_ACCEPTED | REPLY_QUEUED);
            self.give_back(slot.taken_ns, slot.weight, is_sample);
        }
    }

    /// Gives the slots of frames back whose room was given back. One whose reply may come later is
    /// durable.
    pub(crate) fn give_consumed_slots(&mut self) {
        if self.failed {
            return;
        }
        let used = match self.lane.used() {
            Ok(used) => used,
            Err(error) => return self.fail(error.to_string()),
        };
        let consumed = self.lane.position() - used;
        while let Some(slot) = self.frames.consumed(consumed) {
            self.give_back(slot.taken_ns, slot.weight, slot.until_room);
        }
    }
}
