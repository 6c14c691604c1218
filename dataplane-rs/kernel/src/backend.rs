//! The seam between worker and kernel: completions go up into a [`Sink`], orders go down into a
//! [`Backend`].
//!
//! Two state machines are visible to a sink.
//!
//! ```text
//! connection   attach ──► open ──close(Graceful)──► flushing ──► lingering ──EOF──► closed
//!                          │                            │            │
//!                          └──────close(Now | Abort)────┴────────────┘──► tearing ──► closed
//! listener     listen ──► accepting ◄──accepting(on/off)──► paused
//!                            └──────────unlisten───────────────┘──► draining ──► closed
//! ```
//!
//! Only the sink (and whoever owns the backend) moves them forward; the backend never closes a
//! connection by itself. It says `closed` exactly once, when nothing of the thing is in flight
//! any more: only then may a seat be used again.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::{Caps, ConnId, Errno, Error, ListenerId, Stats, WakeId};

/// What a worker does with completions. Called only from inside [`Backend::turn`], on the
/// worker's own thread.
///
/// Every method gets the backend, so that it can give orders at once. Orders never call back
/// into the sink before the current callback has returned.
#[allow(unused_variables)]
pub trait Sink {
    /// The wait of this turn is over and the clock is fresh; nothing has been dispatched yet.
    /// The place to give the sleep ticket back, drain replies and fire timers.
    fn on_awake<B: Backend>(&mut self, io: &mut B) {}

    /// A connection was accepted. Keep it with [`Backend::attach`]; drop `socket` to refuse it.
    ///
    /// Also called for connections that the kernel accepted before it heard of a pause or an
    /// `unlisten`: those are already off the accept queue and lost if not served.
    fn on_accept<B: Backend>(&mut self, io: &mut B, listener: ListenerId, socket: OwnedFd);

    /// Bytes arrived. `data` is never empty and is valid only during this call, in which the sink
    /// may do with it as it likes (decrypt it in place).
    fn on_data<B: Backend>(&mut self, io: &mut B, conn: ConnId, data: &mut [u8]);

    /// The peer is done: it sent FIN (`None`), or the connection broke (`Some`). Called at most
    /// once, after all data. The connection stays attached, and after FIN it can still send,
    /// until [`Backend::close`].
    fn on_eof<B: Backend>(&mut self, io: &mut B, conn: ConnId, broken: Option<Errno>);

    /// A [`Backend::send`] is over: all of it went into the socket, or it failed. One call for
    /// each accepted send, in their order, and always before `on_closed`. `buf` comes back so
    /// that its memory can be used again.
    ///
    /// That a send went well wakes nobody: it is told in the turn that ends with something else.
    /// Who waits for it takes that turn with [`Wait::none`].
    fn on_sent<B: Backend>(
        &mut self,
        io: &mut B,
        conn: ConnId,
        buf: SendBuf,
        result: Result<(), Errno>,
    );

    /// After [`Backend::close`]: the socket is closed, the seat free. Called exactly once.
    fn on_closed<B: Backend>(&mut self, io: &mut B, conn: ConnId);

    /// After [`Backend::unlisten`] (`None`), or because accepting on this socket cannot work
    /// (`Some`): no further connection comes from it.
    fn on_listener_closed<B: Backend>(
        &mut self,
        io: &mut B,
        listener: ListenerId,
        broken: Option<Errno>,
    ) {
    }

    /// A watched eventfd was written to since it was last reported. Several writes may come as
    /// one call. The counter is not read.
    fn on_wake<B: Backend>(&mut self, io: &mut B, wake: WakeId) {}
}

/// One thread's access to the kernel. Made and used on that thread only.
pub trait Backend: Sized {
    /// Accepts connections on `socket`, which must listen already; the backend keeps its own
    /// duplicate of it, and makes it non-blocking for all who share it. Options of accepted
    /// sockets (`TCP_NODELAY`, `SO_RCVBUF`, keepalive) are inherited from the listener, so set
    /// them there.
    fn listen(&mut self, socket: BorrowedFd<'_>, share: Share) -> Result<ListenerId, Error>;

    /// Pauses or resumes a listener. Connections wait in the kernel's accept queue meanwhile.
    fn accepting(&mut self, listener: ListenerId, on: bool);

    /// Stops accepting for good. Connections that were accepted before the kernel heard of it
    /// still arrive in [`Sink::on_accept`]; [`Sink::on_listener_closed`] is the last word.
    fn unlisten(&mut self, listener: ListenerId);

    /// Takes over a connection that came with [`Sink::on_accept`] and begins to receive from it.
    /// Gives the socket back when all [`Options::conns_max`] seats are taken, or the kernel has
    /// no room to watch another one.
    fn attach(&mut self, socket: OwnedFd) -> Result<ConnId, OwnedFd>;

    /// Turns receiving off or on. While off neither `on_data` nor `on_eof` is called; what the
    /// kernel had delivered already is kept and comes first when receiving is on again.
    fn recv(&mut self, conn: ConnId, on: bool);

    /// Sends all of `buf` after what was queued before. The backend owns it until
    /// [`Sink::on_sent`]. At most [`Options::sends_max`] may be unfinished per connection; to
    /// answer several pipelined requests in one turn, put the answers into one buffer.
    fn send(&mut self, conn: ConnId, buf: SendBuf) -> Result<(), SendRefused>;

    /// Closes a connection; [`Sink::on_closed`] follows in a later callback. Calling it again
    /// can only make it faster ([`Close::Graceful`], then `Now` or `Abort` from a timer).
    fn close(&mut self, conn: ConnId, how: Close);

    /// The socket of an attached connection, to ask it something (its peer's address).
    fn socket(&self, conn: ConnId) -> Option<BorrowedFd<'_>>;

    /// How many seats are taken.
    fn conns(&self) -> usize;

    /// Reports writes to an eventfd through [`Sink::on_wake`]; the backend keeps its own
    /// duplicate. A count that is there already is reported, too.
    fn watch(&mut self, eventfd: BorrowedFd<'_>) -> Result<WakeId, Error>;

    /// Stops reporting.
    fn unwatch(&mut self, wake: WakeId);

    /// `CLOCK_BOOTTIME` in nanoseconds, read once per turn right after the wait.
    fn boot_ns(&self) -> u64;

    /// One turn: submits the orders given since the last one, waits as told, calls the sink for
    /// all that is there. Returns early for a signal; that is no error.
    fn turn<S: Sink>(&mut self, sink: &mut S, wait: Wait) -> Result<(), Error>;

    /// What this backend is and has.
    fn caps(&self) -> &Caps;

    /// What it counted.
    fn stats(&self) -> &Stats;
}

/// Who else accepts on the same listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Nobody: the usual case, one `SO_REUSEPORT` socket per worker.
    Exclusive,
    /// Other workers, too (a single socket from systemd). Each accepts one connection at a time
    /// and goes behind the others, because the kernel would give nearly all of them to one.
    Shared,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Sends what is queued, then FIN, then reads and throws away what still comes until the
    /// peer's FIN: so that the last answer is not destroyed by a reset for unread bytes. It
    /// waits for the peer without bound; the caller's timer follows up with `Now`.
    Graceful,
    /// FIN at once, queued sends dropped; bytes already in the kernel still go out. If the peer
    /// sent bytes that nobody read, the kernel adds a reset.
    Now,
    /// Reset at once, everything dropped.
    Abort,
}

/// Bytes to send, owned by the backend until they are sent.
#[derive(Debug, PartialEq, Eq)]
pub enum SendBuf {
    /// A canned answer.
    Static(&'static [u8]),
    /// A made answer; the vector comes back with [`Sink::on_sent`].
    Owned(Vec<u8>),
}

impl SendBuf {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            SendBuf::Static(bytes) => bytes,
            SendBuf::Owned(bytes) => bytes,
        }
    }
}

/// A send that was not taken, with its buffer.
#[derive(Debug)]
pub struct SendRefused {
    /// What was to be sent.
    pub buf: SendBuf,
    /// Why it is not.
    pub why: WhyRefused,
}

/// Why a send was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyRefused {
    /// The connection is closing, broken by an earlier failed send, or gone.
    Closed,
    /// Nothing to send.
    Empty,
    /// [`Options::sends_max`] sends are unfinished: the peer does not read.
    QueueFull,
}

/// How long a turn waits for the first completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub(crate) at_most: Option<Duration>,
    pub(crate) gather: Option<(u32, Duration)>,
}

impl Wait {
    /// Until something happens.
    pub const fn for_event() -> Wait {
        Wait {
            at_most: None,
            gather: None,
        }
    }

    /// Until something happens, but not longer than this (zero: only look).
    pub const fn at_most(limit: Duration) -> Wait {
        Wait {
            at_most: Some(limit),
            gather: None,
        }
    }

    /// Not at all.
    pub const fn none() -> Wait {
        Wait::at_most(Duration::ZERO)
    }

    /// Lets up to `events` completions gather for up to `span` before waking: fewer turns under
    /// load, `span` more latency when idle. Ignored where [`Caps::gather`] is false (Linux 6.12
    /// brings it).
    pub const fn gather(self, events: u32, span: Duration) -> Wait {
        Wait {
            gather: Some((events, span)),
            ..self
        }
    }

    /// The same without waiting.
    pub(crate) fn only_look(self) -> Wait {
        Wait {
            at_most: Some(Duration::ZERO),
            ..self
        }
    }

    /// The same, but not longer than until `at`; both are nanoseconds of the boot clock. Rounded
    /// up, so that the turn after this wait does not find it still too early.
    pub(crate) fn not_past(self, at: u64, now: u64) -> Wait {
        let left = Duration::from_nanos(at.saturating_sub(now));
        let at_most = self.at_most.map_or(left, |limit| limit.min(left));
        Wait {
            at_most: Some(at_most + Duration::from_micros(1)),
            ..self
        }
    }
}

/// The size of everything a backend holds. No default is a tuned policy: the control plane's
/// snapshot names the numbers, these are what tests and a first start use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of one receive buffer in bytes; a multiple of 4096.
    pub buffer_size: u32,
    /// Receive buffers, a power of two of at most 32768; all are mapped up front. A backend that
    /// receives only when there is something needs one.
    pub buffers: u16,
    /// Seats for connections, at most 2^20.
    pub conns_max: u32,
    /// Completion queue entries; at least twice `conns_max` spares overflows. With epoll, the
    /// most events of one turn.
    pub cq_entries: u32,
    /// How long descriptors may be lacking before waiting connections are refused one by one
    /// instead of being left to wait.
    pub fd_patience: Duration,
    /// After how long a failed accept (no descriptor, no memory) is tried again.
    pub fd_retry: Duration,
    /// Seats for listeners.
    pub listeners_max: u32,
    /// Whether a ring is made unable to do anything but what this crate asks of it, so that a
    /// worker that was taken over cannot open or connect through it (a seccomp filter does not
    /// see what a ring does). Means nothing to a backend without a ring.
    pub restrict: bool,
    /// Unfinished sends per connection.
    pub sends_max: u32,
    /// Bytes that all connections together may have kept for them while they do not receive: what
    /// the kernel delivered after [`Backend::recv`] had turned receiving off. Those beyond it break
    /// with `ENOBUFS`.
    pub stash_max: usize,
    /// Submission queue entries, if there is such a queue.
    pub sq_entries: u32,
    /// Seats for watched eventfds.
    pub wakes_max: u32,
}

impl Options {
    /// Refuses values that no backend can work with.
    pub fn check(&self) -> Result<(), Error> {
        let rules = [
            (
                self.buffer_size >= 4096 && self.buffer_size.is_multiple_of(4096),
                "buffer_size",
                "a multiple of 4096",
            ),
            (
                self.buffers.is_power_of_two() && self.buffers <= 32768,
                "buffers",
                "a power of two of at most 32768",
            ),
            (
                (1..=1 << 20).contains(&self.conns_max),
                "conns_max",
                "from 1 to 2^20",
            ),
            (
                (1..=1 << 18).contains(&self.cq_entries),
                "cq_entries",
                "from 1 to 2^18",
            ),
            (!self.fd_retry.is_zero(), "fd_retry", "above zero"),
            (self.sends_max >= 1, "sends_max", "at least 1"),
            (
                (1..=1 << 15).contains(&self.sq_entries),
                "sq_entries",
                "from 1 to 2^15",
            ),
        ];
        match rules.into_iter().find(|(kept, ..)| !kept) {
            Some((_, option, must)) => Err(Error::BadOption { option, must }),
            None => Ok(()),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            // A TLS record is a little longer than 16 KiB: half of them are decrypted in place.
            buffer_size: 32 * 1024,
            buffers: 512,
            conns_max: 4096,
            cq_entries: 16384,
            fd_patience: Duration::from_secs(1),
            fd_retry: Duration::from_millis(20),
            listeners_max: 64,
            restrict: false,
            sends_max: 8,
            stash_max: 32 << 20,
            sq_entries: 1024,
            wakes_max: 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_and_a_value_that_cannot_be_is_named() {
        Options::default().check().unwrap();
        let odd = Options {
            buffers: 3,
            ..Options::default()
        };
        let error = odd.check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "option buffers must be a power of two of at most 32768"
        );
    }
}
