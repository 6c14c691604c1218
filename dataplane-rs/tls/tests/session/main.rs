//! Sessions against real clients: rustls's own, and OpenSSL's where it is installed.

mod alerts;
mod choice;
mod clients;
mod handshake;
mod openssl;
mod pair;
mod tickets;
