//! Names of things a backend holds: a seat in a table and the generation that sat there.
//!
//! A seat is reused, a (seat, generation) pair is not (the generation wraps after 2^24 uses of
//! one seat, and a seat is only reused when nothing of its last use is in flight any more).

use std::fmt;

/// Generations have 24 bits, because they travel in a completion's 64-bit user data beside an
/// 8-bit operation and a 32-bit seat.
pub(crate) const GENERATION_MASK: u32 = 0x00ff_ffff;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $tag:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name {
            pub(crate) index: u32,
            pub(crate) generation: u32,
        }

        impl $name {
            /// The seat in the table; smaller than the table's size in [`crate::Options`].
            pub fn index(self) -> usize {
                self.index as usize
            }

            /// How often this seat was taken before, modulo 2^24.
            pub fn generation(self) -> u32 {
                self.generation
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($tag, "{}.{}"), self.index, self.generation)
            }
        }
    };
}

id!(
    /// One attached connection, from [`crate::Backend::attach`] to [`crate::Sink::on_closed`].
    ConnId,
    "conn"
);
id!(
    /// One listening socket, from [`crate::Backend::listen`] to
    /// [`crate::Sink::on_listener_closed`].
    ListenerId,
    "listener"
);
id!(
    /// One watched eventfd, from [`crate::Backend::watch`] to [`crate::Backend::unwatch`].
    WakeId,
    "wake"
);
