//! The table from path to route.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use super::network::Networks;
use crate::admission::{Class, Rate};
use crate::http1::Method;
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
    /// Who goes first when slots are short.
    pub class: Class,
    /// `None`: unbounded.
    pub rate: Option<Rate>,
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
}

impl Table {
    /// All or nothing: the first fault is told.
    pub fn new(routes: Vec<Route>) -> Result<Table, RouteFault> {
        bounded("routes", routes.len() as u64, limits::ROUTES_MAX as u64)?;
        let mut by_path = HashMap::default();
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
        }
        Ok(Table { routes, by_path })
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
