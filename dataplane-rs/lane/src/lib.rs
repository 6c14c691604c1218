//! One lane: the request ring that this process fills, the reply ring that it drains, and the pages
//! beside them.
//!
//! It moves bytes and cursors and knows no HTTP, no admission and no io_uring; it blocks on nothing
//! and writes no doorbell itself (it says when one is due). The protocol is the one of the
//! project's ARCHITECTURE.md: bytes past `commit` do not exist, each word has one writer, and the
//! control plane is a source of bugs: every foreign word is loaded once, checked, and used as the
//! local copy.
//!
//! States of a lane: *made* (`Lane::create`, magic written last), *open*, *closed* (`close`). One
//! process produces into a lane in its life; a crash leaves a file that only the control plane
//! reads and unlinks.

#![deny(missing_docs)]

mod copy;
mod doorbell;
mod error;
mod frame;
mod map;
mod pages;
mod ring;

pub use copy::copy_bytes;
pub use doorbell::{Ringer, Sleeper, Words};
pub use error::{Error, Result};
pub use frame::{CLIENT_BYTES_MAX, FrameParts, HeaderSpan};
pub use pages::{Control, Counters, CountersOptions};
pub use ring::{Lane, LaneOptions, Reply};
