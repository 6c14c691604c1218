//! Where connections and listeners stand; the diagrams are in `backend.rs`.

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnPhase {
    /// Attached and not closed.
    Open,
    /// Closing gracefully: queued sends go out first.
    Flushing,
    /// FIN is sent; what the peer still sends is thrown away until its FIN.
    Lingering,
    /// Only waits for the kernel to let go, which a backend without operations in flight need not.
    Tearing,
    /// The socket is closed; the sink is told before this turn ends.
    Gone,
}

/// Where a listener stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerPhase {
    Accepting,
    Paused,
    /// No accepting any more; what was accepted before still arrives.
    Draining,
}
