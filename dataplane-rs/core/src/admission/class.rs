//! Who matters, and the order in which waiting requests are served.

/// What a source is configured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Goes before all others, whatever its share.
    High,
    /// What most sources are.
    Default,
    /// Goes when there is room.
    Low,
}

/// Who goes first. No request of a class gets a slot while one of a class above waits for one.
///
/// Computed for each request: from its source's priority, whether its sender tries again, whether
/// this is such a try, and whether the source is within its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Sources of priority high, and those that their provider is about to disable.
    High = 0,
    /// Default priority of a sender that never tries again: what is shed is lost.
    NeverRetries = 1,
    /// Default priority.
    Default = 2,
    /// Priority low.
    Low = 3,
    /// As [`Class::NeverRetries`], beyond the source's share.
    NeverRetriesOverShare = 4,
    /// As [`Class::Default`], beyond the source's share.
    DefaultOverShare = 5,
    /// A sender's further try, which it will make again.
    Repeat = 6,
    /// Priority low beyond the source's share, repeats included.
    LowOverShare = 7,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// All of them, the first to be served first.
    pub const ALL: [Class; Class::COUNT] = [
        Class::High,
        Class::NeverRetries,
        Class::Default,
        Class::Low,
        Class::NeverRetriesOverShare,
        Class::DefaultOverShare,
        Class::Repeat,
        Class::LowOverShare,
    ];

    /// The class's bit in [`super::Slots::overloaded`].
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }

    /// Its name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Class::High => "high",
            Class::NeverRetries => "never_retries",
            Class::Default => "default",
            Class::Low => "low",
            Class::NeverRetriesOverShare => "never_retries_over_share",
            Class::DefaultOverShare => "default_over_share",
            Class::Repeat => "repeat",
            Class::LowOverShare => "low_over_share",
        }
    }
}
