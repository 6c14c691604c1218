//! The doorbell and the cursors under a model checker: every value that the memory model lets a
//! load return, and every interleaving up to a bound on how often a process is stopped.
//!
//! The deciding code is the crate's own (`Ringer`, `Sleeper`), over words of the checker instead of
//! shared memory. A lost wake-up is a sleeper that nobody wakes: the checker calls it a deadlock.
//! What is not here: the byte layout, and load reordering that the checker does not know of. Each
//! rule also has a test that takes it out and demands the fault, so that a model which can no
//! longer fail is noticed.

mod crash;
mod cursors;
mod doorbell;
mod world;
