//! What a scenario is; [`parse`] has its text form, `go/sim/README.md` describes it.

mod line;
mod parse;

pub use parse::parse;

use sluice_core::admission::Priority;

/// One scenario.
#[derive(Debug)]
pub struct Scenario {
    /// What it shows, in a sentence.
    pub about: String,
    /// Too long for every day.
    pub soak: bool,
    /// Workers, each with its weight when connections are dealt out.
    pub spread: Vec<f64>,
    /// Keys and values of the config's `admission`, as they are.
    pub admission: Vec<(String, String)>,
    /// Frames that the lane of a worker has room for.
    pub lane_frames: u64,
    /// From the decision to wake another worker to its turn.
    pub wake_ns: u64,
    /// A reply later than this after the request is no good any more.
    pub good_ns: u64,
    /// The healthy store.
    pub store: Store,
    /// Senders, one slot each.
    pub sources: Vec<Source>,
    /// One after the other, from 0 on.
    pub phases: Vec<Phase>,
    /// From and to: the control plane takes no tick.
    pub away: Vec<(u64, u64)>,
    /// A new control plane takes up the page of the old one.
    pub restarts: Vec<u64>,
    /// A new data plane with a counters file of its own; what waited and was in flight goes on.
    pub replaced: Vec<u64>,
    /// What must hold.
    pub gates: Vec<Gate>,
}

/// A model of a store.
#[derive(Clone, Copy, Debug)]
pub enum Store {
    /// So many servers of that mean time, lognormal.
    Slots {
        /// Servers.
        count: u64,
        /// Mean time of one.
        service_ns: u64,
        /// Of the lognormal.
        sigma: f64,
    },
    /// One group at a time; the next one is all that came meanwhile.
    Commit {
        /// Of a group.
        sync_ns: u64,
        /// Of each frame in it.
        event_ns: u64,
        /// Share of the syncs that take `tail_ns` instead, uniform.
        tail: f64,
        /// From and to.
        tail_ns: (u64, u64),
    },
    /// All jobs share `count` servers, and beyond `count` jobs the whole gets slower: by half when
    /// `beyond` more are in it.
    Collapse {
        /// Servers.
        count: u64,
        /// Mean work of a job.
        service_ns: u64,
        /// See above.
        beyond: f64,
        /// A job that is not done by then is dropped.
        timeout_ns: u64,
    },
}

/// Frames in a group of a closed system with as many senders as anybody has.
const GROUP: f64 = 512.0;

impl Store {
    /// Frames a second that the healthy store can take: with any number of them in it, or with
    /// that number which it likes best. A group commit likes more the better; what it does with
    /// groups of [`GROUP`] stands for that.
    pub fn capacity(&self) -> f64 {
        match *self {
            Store::Slots {
                count, service_ns, ..
            }
            | Store::Collapse {
                count, service_ns, ..
            } => count as f64 * 1e9 / service_ns as f64,
            Store::Commit {
                sync_ns,
                event_ns,
                tail,
                tail_ns: (low, high),
            } => {
                let sync_ns = (1.0 - tail) * sync_ns as f64 + tail * (low + high) as f64 / 2.0;
                GROUP * 1e9 / (sync_ns + GROUP * event_ns as f64)
            }
        }
    }

    /// The time that a frame takes in the healthy store when it is alone.
    pub fn service_ns(&self) -> f64 {
        match *self {
            Store::Slots { service_ns, .. } | Store::Collapse { service_ns, .. } => {
                service_ns as f64
            }
            Store::Commit {
                sync_ns, event_ns, ..
            } => (sync_ns + event_ns) as f64,
        }
    }
}

/// Where a sender puts the id that stays the same when it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// In a header.
    Header,
    /// In the body: read only while it matters.
    Body,
    /// A header says that this is another try.
    RetryHeader,
    /// Nowhere.
    None,
}

/// What a sender does when it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retries {
    /// Nothing: the event is lost.
    Never,
    /// So many tries in all, each after `Retry-After`, or after 10 s without one.
    After(usize),
    /// One try after each of these, whatever it was told.
    At(Vec<u64>),
}

/// How a request of a source ends when it is not shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Durable, and then answered.
    Event,
    /// Answered at once, durable later.
    Ring,
    /// A handshake: answered by the control plane, not stored.
    Handshake,
    /// A provider's test with a bad signature: to be answered 401.
    Probe,
}

/// One sender.
#[derive(Clone, Debug)]
pub struct Source {
    /// `group-number`, or `group` when there is one.
    pub name: String,
    /// The name in the scenario.
    pub group: String,
    /// As configured.
    pub priority: Priority,
    /// Share of the load.
    pub weight: f64,
    /// The sender's timeout, known to the data plane.
    pub deadline_ns: u64,
    /// The sender leaves earlier than that and has told nobody.
    pub leaves_ns: u64,
    /// What it does when refused.
    pub retries: Retries,
    /// Where its ids are.
    pub ids: Ids,
    /// What it sends.
    pub nature: Nature,
    /// Its own bound, requests a second.
    pub rate: Option<f64>,
    /// Refusals in a row after which the provider gives up, 0: never.
    pub delete_after: u64,
    /// Refusals in a row after which it is guarded, 0: never.
    pub guard_after: u32,
    /// Share of its requests that are answered 401.
    pub unauthorized: f64,
    /// Its requests come over so many connections.
    pub connections: usize,
    /// The worker that has all of them.
    pub worker: Option<usize>,
}

/// A stretch of time.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// Requests a second at its begin and end (without retries; while a burst is on).
    pub load: (f64, f64),
    /// Service time in that of the healthy store, at its begin and end.
    pub slow: (f64, f64),
    /// The store does nothing.
    pub stopped: bool,
    /// The load is on, and then off.
    pub burst_ns: Option<(u64, u64)>,
    /// The store's time is drawn again so often, lognormal of that sigma.
    pub wobble: Option<(f64, u64)>,
    /// Weights of groups otherwise than usual.
    pub weights: Vec<(String, f64)>,
}

/// How a gate compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// At least.
    AtLeast,
    /// At most.
    AtMost,
}

/// Something that must hold at the end.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The line that asks for it.
    pub line: usize,
    /// As it stands there.
    pub text: String,
    /// What is measured.
    pub metric: String,
    /// Of a group of sources, instead of all.
    pub group: Option<String>,
    /// In a phase, by its index, instead of the whole.
    pub phase: Option<usize>,
    /// The direction.
    pub compare: Compare,
    /// A share, a count, or nanoseconds.
    pub bound: f64,
    /// The bound is in service times of the store as it was in the phase.
    pub in_services: bool,
    /// Judged by the mean over the seeds.
    pub mean: bool,
}
