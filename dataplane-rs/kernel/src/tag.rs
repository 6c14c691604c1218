//! What travels in the user data of a submission or registration and comes back with its events.
//!
//! ```text
//!  63      56 55                    32 31                              0
//! ┌──────────┬────────────────────────┬─────────────────────────────────┐
//! │ op       │ generation             │ seat                            │
//! └──────────┴────────────────────────┴─────────────────────────────────┘
//! ```

use crate::ids::GENERATION_MASK;

/// What was asked for. The values are arbitrary but never 0, so that a forgotten tag shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    /// Accept on a listener's seat.
    Accept = 1,
    /// A cancel of a listener's accept.
    CancelAccept,
    /// A cancel of everything on a connection's socket.
    CancelAll,
    /// A cancel of a connection's receive.
    CancelRecv,
    /// A cancel whose own completion means nothing: the cancelled thing's completion does.
    CancelQuiet,
    /// Receive on a connection's seat. With epoll, whatever a connection is ready for.
    Recv,
    /// Send on a connection's seat.
    Send,
    /// Poll of a watched eventfd's seat.
    Wake,
    /// Send on a connection's seat that completes only if it fails or goes in part.
    QuietSend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) op: Op,
    pub(crate) generation: u32,
    pub(crate) index: u32,
}

impl Tag {
    pub(crate) fn pack(self) -> u64 {
        debug_assert!(self.generation <= GENERATION_MASK);
        (self.op as u64) << 56 | u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// `None` for a value that this crate never made.
    pub(crate) fn unpack(user_data: u64) -> Option<Tag> {
        let op = match (user_data >> 56) as u8 {
            1 => Op::Accept,
            2 => Op::CancelAccept,
            3 => Op::CancelAll,
            4 => Op::CancelRecv,
            5 => Op::CancelQuiet,
            6 => Op::Recv,
            7 => Op::Send,
            8 => Op::Wake,
            9 => Op::QuietSend,
            _ => return None,
        };
        let generation = (user_data >> 32) as u32 & GENERATION_MASK;
        Some(Tag {
            op,
            generation,
            index: user_data as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_comes_back_as_it_went() {
        use Op::{
            Accept, CancelAccept, CancelAll, CancelQuiet, CancelRecv, QuietSend, Recv, Send, Wake,
        };
        let cancels = [CancelAccept, CancelAll, CancelQuiet, CancelRecv];
        for op in [Accept, QuietSend, Recv, Send, Wake]
            .into_iter()
            .chain(cancels)
        {
            for generation in [0, 1, GENERATION_MASK] {
                for index in [0, 7, u32::MAX] {
                    let tag = Tag {
                        op,
                        generation,
                        index,
                    };
                    assert_eq!(Tag::unpack(tag.pack()), Some(tag));
                }
            }
        }
        assert_eq!(Tag::unpack(0), None);
        assert_eq!(Tag::unpack(u64::MAX), None);
    }
}
