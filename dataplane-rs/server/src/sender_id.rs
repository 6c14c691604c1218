//! The sender's own id of a request: found, remembered so that its repeats are known, and named
//! when it is refused.
//!
//! A head is searched always, a body only where it matters: see `Worker::offer`. Nothing here was
//! verified; it chooses a class and fills a list of what may be missing.

use crate::conn::{Conn, Request};
use crate::tally::ShedReason;
use crate::worker::Worker;
use shm_abi::{REFUSED_ID_BYTES, Refused};
use sluice_core::ids::Found;

const BYTES_MAX: usize = REFUSED_ID_BYTES as usize;

/// As much of an id as an entry of the ring of refusals holds; none at first.
#[derive(Clone, Copy)]
pub struct SenderId {
    length: u16,
    bytes: [u8; BYTES_MAX],
}

impl Default for SenderId {
    fn default() -> SenderId {
        SenderId {
            length: 0,
            bytes: [0; BYTES_MAX],
        }
    }
}

impl SenderId {
    /// Forgets it; the bytes stay where they are.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    fn note(&mut self, id: &[u8]) {
        let length = id.len().min(BYTES_MAX);
        self.bytes[..length].copy_from_slice(&id[..length]);
        self.length = length as u16; // at most BYTES_MAX
    }
}

impl Worker {
    /// Searches a request, whose fields are those that the worker has read last, and its body where
    /// it is given.
    pub(crate) fn identify(
        &mut self,
        conn: &mut Conn,
        request: &mut Request,
        head_bytes: &[u8],
        body: Option<&[u8]>,
    ) {
        let (slot, source_id) = (request.routed.slot, request.routed.source_id);
        let Some(route) = self.config.routes.of_source(slot, source_id) else {
            return;
        };
        let block = request.head.block(head_bytes);
        let found = route
            .ids
            .find(block, &self.fields, body, &mut self.id_buffer);
        request.id_in_body = found == Found::InBody;
        if let Found::Id(id) = found {
            conn.sender_id.note(id);
            let repeats = &self.plane.repeats;
            request.repeat |= !route.never_retries && repeats.seen_before(slot, id, self.now_ns);
        }
        request.repeat |= !route.never_retries && route.is_marked_repeat(block, &self.fields);
    }

    /// Puts the current request on the list of those that were turned away, if it has a name.
    pub(crate) fn name_refused(&self, conn: &Conn, reason: ShedReason) {
        let SenderId { length, bytes } = &conn.sender_id;
        if *length > 0 {
            let mut id = [0; BYTES_MAX];
            let length = usize::from(*length);
            id[..length].copy_from_slice(&bytes[..length]);
            let entry = Refused {
                at_ns: self.wall_ns,
                source_id: conn.asked.source_id,
                reason: reason.code(),
                length: length as u16,
                id,
                ..Refused::default()
            };
            self.plane.counters.push_refused(self.index, &entry);
        }
    }
}
