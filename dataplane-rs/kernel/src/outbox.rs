//! What a connection has to send, oldest first, up to the moment in which the sink is told what
//! became of it.
//!
//! ```text
//!   over: whole in the kernel     next, `sent` bytes of it in the kernel     waiting
//! ┌──────┬──────┬──────────────┬──────────────────────────────────────────┬─────────┐
//! │      │      │              │                                          │         │
//! └──────┴──────┴──────────────┴──────────────────────────────────────────┴─────────┘
//! ```

use std::collections::VecDeque;

use crate::{Errno, SendBuf, SendRefused, WhyRefused};

/// The queue of one connection.
#[derive(Default)]
pub(crate) struct Outbox {
    bufs: VecDeque<SendBuf>,
    /// How many of the oldest are in the kernel whole.
    over: usize,
    /// Bytes of the next one that are in the kernel.
    sent: usize,
    /// A send failed; there is no more sending.
    broken: Option<Errno>,
}

impl Outbox {
    /// Queues `buf`, if fewer than `most` are there.
    pub(crate) fn put(&mut self, buf: SendBuf, most: u32) -> Result<(), SendRefused> {
        let why = if self.broken.is_some() {
            WhyRefused::Closed
        } else if buf.as_slice().is_empty() {
            WhyRefused::Empty
        } else if self.bufs.len() >= most as usize {
            WhyRefused::QueueFull
        } else {
            self.bufs.push_back(buf);
            return Ok(());
        };
        Err(SendRefused { buf, why })
    }

    /// What goes into the kernel next; it stays where it is in memory until it is over.
    pub(crate) fn rest(&self) -> Option<&[u8]> {
        if self.broken.is_some() {
            return None;
        }
        let next = self.bufs.get(self.over)?;
        Some(&next.as_slice()[self.sent..])
    }

    /// The kernel took `bytes` of [`Outbox::rest`]. Says whether that was all of it.
    pub(crate) fn took(&mut self, bytes: usize) -> bool {
        let left = self.rest().map_or(0, <[u8]>::len);
        assert!(0 < bytes && bytes <= left, "sent {bytes} of {left} bytes");
        self.sent += bytes;
        let whole = bytes == left;
        if whole {
            self.over += 1;
            self.sent = 0;
        }
        whole
    }

    /// A send failed, and with it all that wait.
    pub(crate) fn fail(&mut self, errno: Errno) {
        self.broken.get_or_insert(errno);
    }

    /// Why there is no more sending. A receive may then see no more than an end: of a reset, the
    /// kernel tells the first call only.
    pub(crate) fn broken(&self) -> Option<Errno> {
        self.broken
    }

    /// How many the sink can be told of.
    pub(crate) fn over(&self) -> usize {
        match self.broken {
            Some(_) => self.bufs.len(),
            None => self.over,
        }
    }

    /// Takes out the oldest that is over, and what became of it.
    pub(crate) fn pop(&mut self) -> Option<(SendBuf, Result<(), Errno>)> {
        let result = match (self.over, self.broken) {
            (0, None) => return None,
            (0, Some(errno)) => Err(errno),
            _ => Ok(()),
        };
        let buf = self.bufs.pop_front()?;
        self.over = self.over.saturating_sub(1);
        Some((buf, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(texts: &[&'static str]) -> Outbox {
        let mut outbox = Outbox::default();
        for text in texts {
            outbox.put(SendBuf::Static(text.as_bytes()), 3).unwrap();
        }
        outbox
    }

    #[test]
    fn sends_are_over_in_their_order_and_only_when_whole() {
        let mut outbox = outbox(&["one", "two"]);
        assert!(!outbox.took(2));
        assert_eq!(outbox.rest(), Some(&b"e"[..]));
        assert_eq!(outbox.pop(), None);
        assert!(outbox.took(1));
        assert_eq!((outbox.rest(), outbox.over()), (Some(&b"two"[..]), 1));
        assert_eq!(outbox.pop(), Some((SendBuf::Static(b"one"), Ok(()))));
        assert_eq!(outbox.pop(), None);
    }

    #[test]
    fn a_failure_is_that_of_all_that_were_not_over() {
        let mut outbox = outbox(&["one", "two", "three"]);
        assert!(outbox.took(3));
        assert!(!outbox.took(1));
        outbox.fail(Errno(libc::EPIPE));
        outbox.fail(Errno(libc::ECANCELED));
        assert_eq!((outbox.rest(), outbox.over()), (None, 3));
        assert_eq!(outbox.pop(), Some((SendBuf::Static(b"one"), Ok(()))));
        let broken = Err(Errno(libc::EPIPE));
        assert_eq!(outbox.pop(), Some((SendBuf::Static(b"two"), broken)));
        assert_eq!(outbox.pop(), Some((SendBuf::Static(b"three"), broken)));
        assert_eq!(outbox.pop(), None);
        let refused = outbox.put(SendBuf::Static(b"late"), 3).unwrap_err();
        assert_eq!(refused.why, WhyRefused::Closed);
    }

    #[test]
    fn what_is_over_counts_until_it_is_told() {
        let mut outbox = outbox(&["one", "two", "three"]);
        assert!(outbox.took(3));
        let refused = outbox.put(SendBuf::Static(b"four"), 3).unwrap_err();
        assert_eq!(refused.why, WhyRefused::QueueFull);
        assert!(outbox.pop().is_some());
        outbox.put(SendBuf::Static(b"four"), 3).unwrap();
    }
}
