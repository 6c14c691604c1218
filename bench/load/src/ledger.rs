//! The ledger of acknowledged deliveries: what a server has promised to keep.
//!
//! One line for each 2xx, `DELIVERY EVENT` (`-` where the answer named no event), so that a
//! test can ask the store for every one of them. It says nothing of requests that failed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// An open ledger, or none.
pub struct Ledger {
    out: Option<BufWriter<File>>,
}

impl Ledger {
    /// Creates the file; without a path every line is dropped.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let out = path.map(File::create).transpose()?.map(BufWriter::new);
        Ok(Self { out })
    }

    /// Notes one acknowledged delivery.
    pub fn note(&mut self, delivery: &[u8], event: Option<&[u8]>) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        out.write_all(delivery)?;
        out.write_all(b" ")?;
        out.write_all(event.filter(|id| !id.is_empty()).unwrap_or(b"-"))?;
        out.write_all(b"\n")
    }

    /// Leaves nothing in memory.
    pub fn close(self) -> io::Result<()> {
        self.out.map_or(Ok(()), |mut out| out.flush())
    }
}
