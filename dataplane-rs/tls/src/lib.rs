//! TLS for one connection at a time: bytes in, bytes out, no socket and no clock.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
