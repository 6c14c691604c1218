//! The record of a run: how each request ended, for programs that compute what they like.
//!
//! Text, one line each, in the order in which the requests ended; `--help` has the form.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

use crate::agenda::Due;

/// An open record, or none.
pub struct Record {
    out: Option<BufWriter<File>>,
}

impl Record {
    /// Creates the file; without a path every line is dropped.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let out = path.map(File::create).transpose()?;
        let out = out.map(|file| BufWriter::with_capacity(1 << 16, file));
        Ok(Self { out })
    }

    /// Says when the clock of the run began. On disk at once: others set their clocks by it.
    pub fn start(&mut self) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        writeln!(out, "start {}", since.map_or(0, |age| age.as_nanos()))?;
        out.flush()
    }

    /// Notes how a request ended: with a code, or with the name of a fault.
    pub fn note(
        &mut self,
        stream: &str,
        due: Due,
        took_ns: u64,
        end: &str,
        retry_after: Option<u32>,
    ) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        writeln!(
            out,
            "{stream} {} {} {} {} {end} {}",
            due.index,
            due.attempt,
            due.at_ns / 1000,
            took_ns / 1000,
            retry_after.unwrap_or(0)
        )
    }

    /// Notes how many connections are open.
    pub fn pulse(&mut self, now_ns: u64, connections: usize) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        writeln!(out, "@ {} {connections}", now_ns / 1000)
    }

    /// Leaves nothing in memory.
    pub fn close(self) -> io::Result<()> {
        self.out.map_or(Ok(()), |mut out| out.flush())
    }
}
