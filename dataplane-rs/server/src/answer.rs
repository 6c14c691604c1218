//! The control plane's reply as bytes for the sender.

use shm_abi::{REPLY_ACCEPTED, REPLY_DUPLICATE, REPLY_INLINE, REPLY_QUEUED};
use sluice_core::answers::{self, Manner};
use sluice_lane::Reply;

/// Writes a reply. What the entry's kind does not say is answered by its code alone.
pub fn write(out: &mut Vec<u8>, reply: &Reply<'_>, manner: &Manner<'_>) {
    let entry = &reply.entry;
    match entry.kind {
        REPLY_ACCEPTED => answers::accepted(out, &entry.event_id, manner),
        REPLY_DUPLICATE => answers::duplicate(out, &entry.event_id, manner),
        REPLY_QUEUED => answers::queued(out, &entry.event_id, manner),
        REPLY_INLINE => answers::inline(out, entry.code, reply.head, reply.body, manner),
        _ => answers::canned(out, entry.code, entry.retry_after_s, manner),
    }
}
