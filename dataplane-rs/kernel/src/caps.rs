//! What this kernel, seen through whatever sandbox is around us, gives, as a report that people
//! and programs can read.

use std::fmt::{self, Write};

use crate::Errno;

/// Something that is wanted, and the kernel version that brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is wanted.
    pub what: &'static str,
    /// The first kernel version that has it.
    pub since: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (Linux {})", self.what, self.since)
    }
}

/// Why io_uring cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A security module (SELinux, or a BPF program) denies `io_uring_setup`.
    Forbidden,
    /// Rings of the smallest useful size need more locked memory than RLIMIT_MEMLOCK allows.
    LockedMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// The kernel is too old, or built without.
    Missing(Vec<Missing>),
    /// `io_uring_setup` says ENOSYS: a kernel built without io_uring, or a sandbox that hides it.
    NoSuchCall,
    /// A seccomp filter forbids or hides `io_uring_setup`.
    Sandboxed {
        /// What it answers.
        errno: Errno,
    },
    /// A feature is listed but does not do what it should in the self-test.
    SelfTest {
        /// The step that went wrong.
        step: &'static str,
        /// What was seen.
        seen: String,
    },
    /// The sysctl `kernel.io_uring_disabled` forbids it: 1 for the unprivileged, 2 for all.
    SwitchedOff {
        /// The sysctl's value.
        value: u32,
    },
    /// `io_uring_setup` failed in a way nobody foresaw.
    Unexpected(Errno),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Forbidden => f.write_str(
                "a security module denies io_uring_setup, while kernel.io_uring_disabled and \
                 seccomp do not; allow io_uring in the policy that confines this process",
            ),
            Refusal::LockedMemory { limit } => write!(
                f,
                "RLIMIT_MEMLOCK of {limit} bytes is too small for the smallest ring; \
                 raise it (LimitMEMLOCK=, --ulimit memlock)"
            ),
            Refusal::Missing(missing) => {
                f.write_str("the kernel lacks ")?;
                for (position, one) in missing.iter().enumerate() {
                    let comma = if position == 0 { "" } else { ", " };
                    write!(f, "{comma}{one}")?;
                }
                Ok(())
            }
            Refusal::NoSuchCall => f.write_str(
                "ENOSYS: this kernel was built without io_uring (CONFIG_IO_URING), or a sandbox \
                 hides it",
            ),
            Refusal::Sandboxed { errno } => write!(
                f,
                "a seccomp filter, such as containers have by default, answers io_uring_setup \
                 with {errno}; allow io_uring_setup, io_uring_enter and io_uring_register in \
                 the container's seccomp profile"
            ),
            Refusal::SelfTest { step, seen } => write!(f, "self-test step {step:?}: {seen}"),
            Refusal::SwitchedOff { value: 1 } => f.write_str(
                "the sysctl kernel.io_uring_disabled is 1; set it to 0, or set \
                 kernel.io_uring_group to a group of this process",
            ),
            Refusal::SwitchedOff { value } => write!(
                f,
                "the sysctl kernel.io_uring_disabled is {value}; set it to 0"
            ),
            Refusal::Unexpected(errno) => write!(f, "io_uring_setup: {errno}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What a backend is and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// `"uring"` or `"epoll"`.
    pub backend: &'static str,
    /// Receive buffers as made. This and the other sizes are 0 in a probe's report.
    pub buffers: u32,
    /// Size of one in bytes.
    pub buffer_size: u32,
    /// Completion queue entries as granted, which may be less than asked for.
    pub cq_entries: u32,
    /// Whether [`crate::Wait::gather`] works.
    pub gather: bool,
    /// The running kernel's release.
    pub kernel: String,
    /// Wanted and useful, but not there; the backend works without.
    pub lacking: Vec<Missing>,
    /// A wait is not counted as iowait.
    pub no_iowait: bool,
    /// Why io_uring is not used, when this is another backend.
    pub refusal: Option<Refusal>,
    /// The ring's descriptor is registered, which spares a lookup per turn.
    pub registered_ring: bool,
    /// The ring takes only the operations that this crate uses ([`crate::Options::restrict`]).
    /// Never in a probe's report.
    pub restricted: bool,
    /// Setup flags in force, by name.
    pub setup: Vec<&'static str>,
    /// Submission queue entries as granted.
    pub sq_entries: u32,
}

impl Caps {
    /// The report as one JSON object.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(512);
        out.push('{');
        text(&mut out, "backend", self.backend);
        number(&mut out, "buffer_size", self.buffer_size);
        number(&mut out, "buffers", self.buffers);
        number(&mut out, "cq_entries", self.cq_entries);
        flag(&mut out, "gather", self.gather);
        text(&mut out, "kernel", &self.kernel);
        list(
            &mut out,
            "lacking",
            self.lacking.iter().map(|one| one.to_string()),
        );
        flag(&mut out, "no_iowait", self.no_iowait);
        if let Some(refusal) = &self.refusal {
            text(&mut out, "refusal", &refusal.to_string());
        }
        flag(&mut out, "registered_ring", self.registered_ring);
        flag(&mut out, "restricted", self.restricted);
        list(
            &mut out,
            "setup",
            self.setup.iter().map(|one| (*one).to_owned()),
        );
        number(&mut out, "sq_entries", self.sq_entries);
        out.pop(); // The comma behind the last member.
        out.push('}');
        out
    }
}

impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on Linux {}", self.backend, self.kernel)?;
        if self.buffers > 0 {
            let (sq, cq) = (self.sq_entries, self.cq_entries);
            let (count, size) = (self.buffers, self.buffer_size);
            write!(f, ", sq {sq}, cq {cq}, {count} buffers of {size} bytes")?;
        }
        if !self.setup.is_empty() {
            write!(f, ", setup {}", self.setup.join("|"))?;
        }
        for missing in &self.lacking {
            write!(f, ", without {missing}")?;
        }
        if let Some(refusal) = &self.refusal {
            write!(f, ", io_uring not used: {refusal}")?;
        }
        Ok(())
    }
}

fn key(out: &mut String, name: &str) {
    quote(out, name);
    out.push(':');
}

fn text(out: &mut String, name: &str, value: &str) {
    key(out, name);
    quote(out, value);
    out.push(',');
}

fn number(out: &mut String, name: &str, value: u32) {
    key(out, name);
    out.push_str(&value.to_string());
    out.push(',');
}

fn flag(out: &mut String, name: &str, value: bool) {
    key(out, name);
    out.push_str(if value { "true" } else { "false" });
    out.push(',');
}

fn list(out: &mut String, name: &str, values: impl Iterator<Item = String>) {
    key(out, name);
    out.push('[');
    let mut any = false;
    for value in values {
        quote(out, &value);
        out.push(',');
        any = true;
    }
    if any {
        out.pop();
    }
    out.push_str("],");
}

fn quote(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => {
                write!(out, "\\u{:04x}", c as u32).expect("a String takes every write");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_json_whatever_the_kernel_calls_itself() {
        let caps = Caps {
            backend: "epoll",
            kernel: "6.1\"\\\n".to_owned(),
            lacking: vec![Missing {
                what: "gather",
                since: "6.12",
            }],
            refusal: Some(Refusal::SwitchedOff { value: 2 }),
            ..Caps::default()
        };
        assert_eq!(
            caps.to_json(),
            "{\"backend\":\"epoll\",\"buffer_size\":0,\"buffers\":0,\"cq_entries\":0,\
             \"gather\":false,\"kernel\":\"6.1\\\"\\\\\\u000a\",\
             \"lacking\":[\"gather (Linux 6.12)\"],\"no_iowait\":false,\
             \"refusal\":\"the sysctl kernel.io_uring_disabled is 2; set it to 0\",\
             \"registered_ring\":false,\"restricted\":false,\"setup\":[],\"sq_entries\":0}"
        );
    }
}
