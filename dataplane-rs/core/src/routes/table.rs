//! The table from path to route.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use super::handshake::Handshake;
use super::network::Networks;
use crate::admission::{Priority, Rate};
use crate::answers::Success;
use crate::http1::{Fields, Head, Method};
use crate::ids::Places;
use crate::{Refusal, limits};

/// A set of methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Methods(u16);

impl Methods {
    /// Whether `method` is one of them.
    pub fn contains(self, method: Method) -> bool {
        self.0 & 1 << method as u16 != 0
    }

    /// The same and `method`.
    pub const fn with(self, method: Method) -> Methods {
        Methods(self.0 | 1 << method as u16)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Method> {
        Method::ALL
            .into_iter()
            .filter(move |&method| self.contains(method))
    }
}

impl FromIterator<Method> for Methods {
    fn from_iter<I: IntoIterator<Item = Method>>(methods: I) -> Methods {
        methods.into_iter().fold(Methods::default(), Methods::with)
    }
}

/// As in `Allow`: `GET, POST`.
impl fmt::Display for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for method in self.iter() {
            write!(f, "{separator}{}", method.as_str())?;
            separator = ", ";
        }
        Ok(())
    }
}

/// What a 2xx of a route waits for. Numbers are those of the shared layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ack {
    /// Verified.
    Ring = 1,
    /// On the disk.
    Durable = 2,
    /// At its destination.
    Delivered = 3,
}

/// Everything the data plane knows of a source.
#[derive(Clone, Debug)]
pub struct Route {
    /// The exact path.
    pub path: Box<[u8]>,
    /// Assigned once, never reused; goes into frames.
    pub source_id: u32,
    /// The source's place in counters and queues of this snapshot, under [`limits::SOURCES_MAX`].
    pub source_slot: u16,
    /// The snapshot's version; goes into frames.
    pub config_version: u32,
    /// What is taken. Those of a handshake are among them.
    pub methods: Methods,
    /// Peers that are let in; `None`: all.
    pub allow_from: Option<Networks>,
    /// Most bytes of a body.
    pub body_bytes_max: u64,
    /// From the first byte of a request to the last instant at which an answer still helps.
    pub budget_ns: u64,
    /// What a 2xx waits for.
    pub ack: Ack,
    /// 503 or 429.
    pub shed_status: u16,
    /// How the sender wants to hear that an event is kept.
    pub success: Success,
    /// Who goes first when slots are short.
    pub priority: Priority,
    /// The sender never tries again: what is refused is lost.
    pub never_retries: bool,
    /// Where the sender's id of an event is.
    pub ids: Places,
    /// A request with a field of one of these names is a repeat, as the sender itself says.
    pub retry_headers: Box<[Box<str>]>,
    /// What its handshakes look like.
    pub handshakes: Box<[Handshake]>,
    /// The sender tests with wrong signatures and wants its answer soon.
    pub probes: bool,
    /// Refusals in a row from which on the source is served first until it has had a success; 0:
    /// its sender disables nothing.
    pub guard_after: u32,
    /// Refusals in a row that were counted before this snapshot's data plane began.
    pub refused_in_row: u32,
    /// `None`: unbounded.
    pub rate: Option<Rate>,
    /// What it takes to judge a request; 0: nothing that counts.
    pub verify_weight: u32,
}

impl Route {
    /// Whether a request looks like a handshake. `fields` are those of its head in `head_bytes`.
    pub fn is_handshake_like(
        &self,
        head: &Head,
        head_bytes: &[u8],
        fields: &Fields,
        body_bytes: u64,
    ) -> bool {
        let (target, block) = (head.target(head_bytes), head.block(head_bytes));
        self.handshakes
            .iter()
            .any(|handshake| handshake.is_like(head.method, target, block, fields, body_bytes))
    }

    /// Whether the sender says that it sends this again. `fields` are ranges of `block`.
    pub fn is_marked_repeat(&self, block: &[u8], fields: &Fields) -> bool {
        self.retry_headers
            .iter()
            .any(|name| fields.find(block, name).is_some())
    }
}

/// Why routes make no table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteFault {
    /// A route without methods takes nothing.
    NoMethods {
        /// Its path.
        path: String,
    },
    /// A path is empty, too long, or does not start with a slash.
    Path {
        /// The path.
        path: String,
    },
    /// Two routes of one path.
    PathTwice {
        /// The path.
        path: String,
    },
    /// Two routes that count in one place.
    SlotTwice {
        /// The place.
        slot: u16,
    },
    /// A number beyond its bound in [`limits`].
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many there may be.
        count_max: u64,
    },
}

impl fmt::Display for RouteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteFault::NoMethods { path } => write!(f, "operator: route {path} has no methods"),
            RouteFault::Path { path } => {
                write!(
                    f,
                    "operator: route {path:?}: a path starts with / and is not too long"
                )
            }
            RouteFault::PathTwice { path } => write!(f, "operator: two routes of path {path}"),
            RouteFault::SlotTwice { slot } => write!(f, "operator: two routes of slot {slot}"),
            RouteFault::TooMany {
                what,
                count,
                count_max,
            } => {
                write!(f, "operator: {count} {what}, at most {count_max}")
            }
        }
    }
}

impl std::error::Error for RouteFault {}

/// All routes of one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Table {
    routes: Vec<Route>,
    by_path: HashMap<Box<[u8]>, usize, BuildHasherDefault<Fnv>>,
    /// The route of each source slot, by its place in `routes`.
    by_slot: Vec<Option<u16>>,
}

impl Table {
    /// All or nothing: the first fault is told.
    pub fn new(routes: Vec<Route>) -> Result<Table, RouteFault> {
        bounded("routes", routes.len() as u64, limits::ROUTES_MAX as u64)?;
        let mut by_path = HashMap::default();
        let mut by_slot = vec![None; limits::SOURCES_MAX];
        for (index, route) in routes.iter().enumerate() {
            let path = || String::from_utf8_lossy(&route.path).into_owned();
            if route.path.first() != Some(&b'/') || route.path.len() > limits::PATH_BYTES_MAX {
                return Err(RouteFault::Path { path: path() });
            }
            if route.methods.is_empty() {
                return Err(RouteFault::NoMethods { path: path() });
            }
            let slots = limits::SOURCES_MAX as u64;
            bounded("sources", u64::from(route.source_slot) + 1, slots)?;
            bounded(
                "bytes of a body",
                route.body_bytes_max,
                limits::BODY_BYTES_MAX,
            )?;
            if by_path.insert(route.path.clone(), index).is_some() {
                return Err(RouteFault::PathTwice { path: path() });
            }
            let slot = route.source_slot;
            // Bounded above, and there are fewer routes than numbers of 16 bits.
            if by_slot[usize::from(slot)].replace(index as u16).is_some() {
                return Err(RouteFault::SlotTwice { slot });
            }
        }
        Ok(Table {
            routes,
            by_path,
            by_slot,
        })
    }

    /// The route of a request from `peer` (IPv4 as `::ffff:a.b.c.d`, all zero for a Unix socket).
    ///
    /// A peer outside the allow list learns nothing about methods. What is refused with 404 or 405
    /// keeps its connection, so its body still has to be read.
    pub fn find(&self, path: &[u8], method: Method, peer: &[u8; 16]) -> Result<&Route, Refusal> {
        let route = self.by_path.get(path).map(|&index| &self.routes[index]);
        let route = route.ok_or(Refusal::NotFound)?;
        if route
            .allow_from
            .as_ref()
            .is_some_and(|networks| !networks.contains(peer))
        {
            return Err(Refusal::Forbidden);
        }
        if !route.methods.contains(method) {
            return Err(Refusal::MethodNotAllowed {
                allow: route.methods,
            });
        }
        Ok(route)
    }

    /// The route of a slot, if it is still that source's: a request may have begun under an older
    /// snapshot.
    pub fn of_source(&self, slot: u16, source_id: u32) -> Option<&Route> {
        let index = (*self.by_slot.get(usize::from(slot))?)?;
        let route = &self.routes[usize::from(index)];
        (route.source_id == source_id).then_some(route)
    }

    /// All routes, in the order that they were given in.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }
}

fn bounded(what: &'static str, count: u64, count_max: u64) -> Result<(), RouteFault> {
    if count > count_max {
        Err(RouteFault::TooMany {
            what,
            count,
            count_max,
        })
    } else {
        Ok(())
    }
}

/// FNV-1a. The keys of a table are the operator's, so a sender cannot make them collide, and paths
/// are short.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &c in bytes {
            self.0 = (self.0 ^ u64::from(c)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
