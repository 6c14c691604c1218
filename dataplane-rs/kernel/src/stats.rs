//! Counters of one backend. They only grow; the worker copies them into its counters page.

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a backend has counted since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Every counter with its name, in a fixed order.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

stats! {
    /// Accept was stopped by lack of descriptors or memory and armed again by the clock.
    accept_paused,
    /// Connections refused with a reset because descriptors were lacking for longer than
    /// [`crate::Options::fd_patience`].
    accept_refused,
    /// Connections handed to the sink.
    accepted,
    /// Bytes handed to the sink.
    bytes_in,
    /// Bytes the kernel took from us.
    bytes_out,
    /// Bytes thrown away while a closing connection lingered.
    bytes_lingered,
    /// Bytes that arrived while receiving was off and had to be kept aside.
    bytes_stashed,
    /// Connections attached and closed again, resources freed.
    closed,
    /// Completions handled (readiness events in a readiness backend).
    completions,
    /// Turns that found the completion queue overflown; nothing is lost by it, it only costs.
    cq_overflows,
    /// Receives armed again behind one that brought something.
    recv_rearmed,
    /// Receives that ended because all buffers were in use.
    recv_starved,
    /// Sends that failed.
    sends_failed,
    /// Sends the kernel took only a part of.
    sends_short,
    /// Completions of a connection that is gone. Anything but 0 is a bug of ours.
    stale,
    /// Turns taken.
    turns,
    /// Watched eventfds reported.
    wakes,
}
