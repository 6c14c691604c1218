//! What must hold for any bytes that a sender, a proxy or the other process may send.
//!
//! Each target takes an input and panics when a promise is broken: not only a crash, but an outcome
//! that depends on how the bytes were cut, one that a plain reading of the rules would not give, or
//! bytes that were used and not there. It does not choose inputs: libFuzzer does (`scripts/fuzz`),
//! and [`mutation`] in the tests, which also replay `testdata/TARGET`. An input that has found
//! something goes in there with its mend.

#![forbid(unsafe_code)]

mod chunked;
mod cuts;
mod forwarded;
mod http1;
mod ids;
pub mod mutation;
mod proxy;
mod reply;
mod strict;
mod tls;

/// Something that takes any bytes.
pub struct Target {
    /// Its name: the folder of its corpus, and `FUZZ_TARGET`.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// What one input costs, in those of the cheapest targets.
    pub cost: usize,
}

const fn target(name: &'static str, run: fn(&[u8]), cost: usize) -> Target {
    Target { name, run, cost }
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    target("chunked", chunked::run, 1),
    target("forwarded", forwarded::run, 1),
    target("http1", http1::run, 1),
    target("ids", ids::run, 1),
    target("proxy", proxy::run, 1),
    target("reply", reply::run, 2),
    target("tls", tls::run, 50),
];
