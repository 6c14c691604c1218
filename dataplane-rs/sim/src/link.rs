//! The line to the control plane, which drives: a line out, and the world stands still until one
//! comes back.

use std::fmt::Arguments;
use std::io::{self, BufRead, BufReader, Stdin, Stdout, Write};

/// Standard output and input.
pub struct Link {
    out: Stdout,
    back: BufReader<Stdin>,
    line: String,
    ticks: u64,
}

impl Link {
    /// Both as they are.
    pub fn new() -> Link {
        Link {
            out: io::stdout(),
            back: BufReader::new(io::stdin()),
            line: String::new(),
            ticks: 0,
        }
    }

    /// Says a line and waits for one. That the other side is gone is an error.
    pub fn say(&mut self, line: Arguments) -> io::Result<()> {
        self.ticks += 1;
        writeln!(self.out, "{line}")?;
        self.out.flush()?;
        self.line.clear();
        if self.back.read_line(&mut self.line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}
