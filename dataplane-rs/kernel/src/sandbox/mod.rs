//! Takes away from this process what serving does not need, layer by layer and for good.
//!
//! It does *not* decide what to do about a host that does not give a layer beyond what [`Mode`]
//! says, changes no limit of its own accord, and restricts no ring: that is an option of the ring
//! ([`Sandbox::note`] takes down what came of it).
//!
//! The order matters, and it is the caller's to keep. [`Sandbox::lower`] and
//! [`Sandbox::close_files`] work on the calling thread and are inherited by threads started later,
//! so both come before the first one; whatever has a path or needs a privilege (lanes, Unix
//! sockets) comes before them. [`Sandbox::filter_calls`] works on all threads at once and comes
//! when every thread has what it needs: rings above all.
//!
//! A layer that fails leaves the process as able as it was, so that it can go on with fewer.

mod landlock;
mod limits;
mod privileges;
mod seccomp;
mod user;

use std::fmt;

pub use landlock::close_files;
pub use limits::{raise_descriptors, raise_locked_memory};
pub use privileges::{drop_capabilities, forbid_core_dumps, forbid_new_privileges};
pub use seccomp::filter_calls;
pub use user::{User, become_user, current_user};

/// One thing that the process takes away from itself, in the order in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// It runs as an ordinary user.
    User,
    /// It has no capability.
    Capabilities,
    /// No program that it starts gets more rights than it has.
    NoNewPrivs,
    /// It opens no file and binds or connects no socket.
    Landlock,
    /// Its rings do what the backend uses and nothing else.
    RingRestrictions,
    /// It makes the system calls of a list and no others.
    Seccomp,
}

impl Layer {
    /// Its name in the control protocol.
    pub fn name(self) -> &'static str {
        match self {
            Layer::User => "user",
            Layer::Capabilities => "capabilities",
            Layer::NoNewPrivs => "no_new_privs",
            Layer::Landlock => "landlock",
            Layer::RingRestrictions => "ring_restrictions",
            Layer::Seccomp => "seccomp",
        }
    }
}

/// A layer that this host does not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Which one.
    pub layer: Layer,
    /// What stands in its way.
    pub cause: String,
    /// What an operator can do about it.
    pub mend: &'static str,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.layer.name(), self.cause, self.mend)
    }
}

impl std::error::Error for Lacking {}

/// How much is to be taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Off,
    /// What the host gives.
    #[default]
    Auto,
    /// Everything, or the process does not start.
    Require,
}

/// What was taken away from this process, and what could not be.
#[derive(Debug, Default)]
pub struct Sandbox {
    mode: Mode,
    held: Vec<Layer>,
    lacking: Vec<Lacking>,
}

impl Sandbox {
    /// One that has taken nothing away yet.
    pub fn new(mode: Mode) -> Sandbox {
        Sandbox {
            mode,
            ..Sandbox::default()
        }
    }

    /// Whether anything is to be taken away at all.
    pub fn is_on(&self) -> bool {
        self.mode != Mode::Off
    }

    /// Becomes `user` where it is root, and drops whatever is privileged: capabilities, those that
    /// a program would bring along, memory dumps. An error: [`Mode::Require`] and the host does not
    /// give it; the process is to end.
    pub fn lower(&mut self, user: User) -> Result<(), Lacking> {
        if !self.is_on() {
            return Ok(());
        }
        forbid_core_dumps();
        self.note(Layer::User, become_user(user))?;
        self.note(Layer::Capabilities, drop_capabilities())?;
        self.note(Layer::NoNewPrivs, forbid_new_privileges())
    }

    /// Closes the file system. Errors as [`Sandbox::lower`].
    pub fn close_files(&mut self) -> Result<(), Lacking> {
        if !self.is_on() {
            return Ok(());
        }
        self.note(Layer::Landlock, close_files())
    }

    /// Leaves all threads the system calls of the list; `rings`: also those of io_uring, of rings
    /// that are there already. Errors as [`Sandbox::lower`].
    pub fn filter_calls(&mut self, rings: bool) -> Result<(), Lacking> {
        if !self.is_on() {
            return Ok(());
        }
        self.note(Layer::Seccomp, filter_calls(rings))
    }

    /// Takes down what came of a layer. Errors as [`Sandbox::lower`].
    pub fn note(&mut self, layer: Layer, outcome: Result<(), Lacking>) -> Result<(), Lacking> {
        match outcome {
            Ok(()) => self.held.push(layer),
            Err(lacking) if self.mode == Mode::Require => return Err(lacking),
            Err(lacking) => self.lacking.push(lacking),
        }
        Ok(())
    }

    /// The layers that hold, in the order in which they were taken.
    pub fn held(&self) -> &[Layer] {
        &self.held
    }

    /// What the host does not give and why, in one line; empty: it gives everything asked for.
    pub fn reason(&self) -> String {
        let all: Vec<String> = self.lacking.iter().map(Lacking::to_string).collect();
        all.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking() -> Lacking {
        Lacking {
            layer: Layer::Landlock,
            cause: "it is not there".into(),
            mend: "boot another kernel",
        }
    }

    #[test]
    fn auto_goes_on_without_a_layer_and_says_which_and_why() {
        let mut sandbox = Sandbox::new(Mode::Auto);
        sandbox.note(Layer::Landlock, Err(lacking())).unwrap();
        sandbox.note(Layer::Seccomp, Ok(())).unwrap();
        assert_eq!(sandbox.held(), [Layer::Seccomp]);
        assert_eq!(
            sandbox.reason(),
            "landlock: it is not there (boot another kernel)"
        );
    }

    #[test]
    fn require_ends_at_the_first_layer_that_lacks() {
        let mut sandbox = Sandbox::new(Mode::Require);
        assert_eq!(
            sandbox.note(Layer::Landlock, Err(lacking())),
            Err(lacking())
        );
    }

    #[test]
    fn off_takes_nothing_away() {
        let mut sandbox = Sandbox::new(Mode::Off);
        sandbox.lower(User { uid: 1, gid: 1 }).unwrap();
        sandbox.close_files().unwrap();
        sandbox.filter_calls(false).unwrap();
        assert!(sandbox.held().is_empty() && sandbox.reason().is_empty());
        std::fs::read("/proc/self/status").unwrap();
    }
}
