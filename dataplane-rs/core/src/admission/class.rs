//! The order in which waiting requests are served.

/// Who goes first. No request of a class gets a slot while one of a class above waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Sources of priority high.
    High = 0,
    /// Default priority, and the sender never tries again: what is shed is lost.
    DefaultNeverRetries = 1,
    /// Everybody else.
    Default = 2,
    /// Sources of priority low.
    Low = 3,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All of them, the first to be served first.
    pub const ALL: [Class; Class::COUNT] = [
        Class::High,
        Class::DefaultNeverRetries,
        Class::Default,
        Class::Low,
    ];

    /// The class's bit in [`super::Numbers::overloaded`].
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }
}
