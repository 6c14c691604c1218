//! The Rust face of the gRPC contract between control plane and data plane.
//!
//! Generated code only; `make generate` makes it anew from `proto/sluice/v1/dataplane.proto`.

#![allow(missing_docs, clippy::all)]

include!("sluice.v1.rs");
