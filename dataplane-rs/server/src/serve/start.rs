//! The threads of a data plane, from their making to the instant at which all may serve.
//!
//! ```text
//!  main       spawn ─► wait for all ─► filter their calls ─► open the gate ─► join the workers
//!  worker           make its backend ─► up ──────────────────────► the gate ─► turn
//!  control, handover ─────────────────► up ──────────────────────► the gate ─► serve
//! ```
//!
//! Between `up` and the gate a thread does nothing, so that the filter meets each where it needs
//! nothing any more that the filter takes away: a ring, a thread's own start.

use crate::args::Driver;
use crate::grpc;
use crate::handover::{self, Handover};
use crate::plane::Plane;
use crate::worker::{Parts, Worker};
use sluice_kernel::sandbox::{Lacking, Layer, Sandbox};
use sluice_kernel::{Backend, Caps, Epoll, Error, Options, Refusal, Uring, sys};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

/// What connections and waits are to go through.
#[derive(Clone, Debug)]
pub enum Choice {
    /// epoll; why not io_uring, if it was not asked for.
    Epoll(Option<Refusal>),
    /// A ring, as the probe found it; `or_epoll`: where one is refused, that worker takes epoll.
    Ring { caps: Box<Caps>, or_epoll: bool },
}

impl Choice {
    /// Looks at the host. Binds and connects sockets of its own, so it comes before they are
    /// forbidden, and behind the change of user, for the host may allow a ring to root alone.
    pub fn new(driver: Driver) -> Result<Choice, String> {
        if driver == Driver::Epoll {
            return Ok(Choice::Epoll(None));
        }
        let or_epoll = driver == Driver::Auto;
        match sluice_kernel::probe() {
            Ok(caps) => Ok(Choice::Ring {
                caps: Box::new(caps),
                or_epoll,
            }),
            Err(refusal) if or_epoll => Ok(Choice::Epoll(Some(refusal))),
            Err(refusal) => Err(format!(
                "io_uring cannot be used here: {refusal}; driver auto takes epoll instead"
            )),
        }
    }
}

/// What a worker made for itself.
enum Io {
    Epoll(Box<Epoll>),
    Uring(Box<Uring>),
}

impl Io {
    fn new(choice: &Choice, options: &Options) -> Result<Io, Error> {
        match choice {
            Choice::Epoll(refusal) => {
                Ok(Io::Epoll(Box::new(Epoll::new(options, refusal.clone())?)))
            }
            Choice::Ring { caps, or_epoll } => match Uring::new(options, caps) {
                // Rings of several workers and generations may ask for more than one did.
                Err(Error::Refused(refusal)) if *or_epoll => {
                    Ok(Io::Epoll(Box::new(Epoll::new(options, Some(refusal))?)))
                }
                made => Ok(Io::Uring(Box::new(made?))),
            },
        }
    }

    fn caps(&self) -> &Caps {
        match self {
            Io::Epoll(io) => io.caps(),
            Io::Uring(io) => io.caps(),
        }
    }

    fn run(self, mut worker: Worker) -> Result<(), Error> {
        match self {
            Io::Epoll(mut io) => worker.run(io.as_mut()),
            Io::Uring(mut io) => worker.run(io.as_mut()),
        }
    }
}

/// A thread has all that it needs: a worker the backend of these caps. An error: it cannot serve.
type Up = Result<Option<Caps>, String>;

/// Threads that are made, and wait for the gate.
pub struct Threads {
    gate: Arc<Barrier>,
    workers: Vec<JoinHandle<()>>,
    service: Sender<grpc::Service>,
    caps: Vec<Caps>,
}

impl Threads {
    /// Starts all threads and waits until each has what it needs.
    pub fn start(
        plane: &Arc<Plane>,
        parts: Vec<Parts>,
        choice: &Choice,
        options: &Options,
        server: grpc::Server,
        handover: Handover,
    ) -> Result<Threads, Box<dyn std::error::Error>> {
        let (up, is_up) = mpsc::channel();
        let (service, hello) = mpsc::channel();
        // The workers, the handover and this thread; the control thread waits for its service.
        let gate = Arc::new(Barrier::new(parts.len() + 2));
        let mut workers = Vec::new();
        for part in parts {
            let (choice, options) = (choice.clone(), options.clone());
            let (up, gate) = (up.clone(), gate.clone());
            let thread = thread::Builder::new().name(format!("worker-{}", part.index));
            workers.push(thread.spawn(move || work(part, &choice, &options, up, &gate))?);
        }
        let (shared, control_up) = (plane.clone(), up.clone());
        let thread = thread::Builder::new().name("control".into());
        thread.spawn(move || control(&shared, server, control_up, &hello))?;
        let (shared, opened) = (plane.clone(), gate.clone());
        let thread = thread::Builder::new().name("handover".into());
        thread.spawn(move || {
            let _ = up.send(Ok(None)); // main reads it, or the process ends
            drop(up);
            opened.wait();
            handover::serve(&shared, &handover);
        })?;
        let caps = all_up(&is_up, workers.len() + 2)?;
        Ok(Threads {
            gate,
            workers,
            service,
            caps,
        })
    }

    /// Binds all threads to what serving takes: the sandbox's last layers.
    pub fn confine(&self, sandbox: &mut Sandbox) -> Result<(), Lacking> {
        let mut rings = self.caps.iter().filter(|caps| caps.backend == "uring");
        let has_rings = rings.clone().next().is_some();
        if sandbox.is_on() && has_rings {
            let restricted = if rings.all(|caps| caps.restricted) {
                Ok(())
            } else {
                Err(Lacking {
                    layer: Layer::RingRestrictions,
                    cause: "the kernel takes no IORING_REGISTER_RESTRICTIONS".into(),
                    mend: "run Linux 5.10 or later",
                })
            };
            sandbox.note(Layer::RingRestrictions, restricted)?;
        }
        sandbox.filter_calls(has_rings)
    }

    /// The driver by its name, and why it is not io_uring. With several workers the one that got
    /// no ring speaks for all.
    pub fn driver(&self) -> (&'static str, String) {
        let Some(caps) = self.caps.iter().find(|caps| caps.backend != "uring") else {
            return ("io_uring", String::new());
        };
        let refusal = caps.refusal.as_ref().map(Refusal::to_string);
        let reason = refusal.unwrap_or_else(|| "epoll was asked for".into());
        ("epoll", reason)
    }

    /// Opens the gate, and waits until all workers have drained.
    pub fn serve(self, service: grpc::Service) {
        self.gate.wait();
        let _ = self.service.send(service); // a control thread that ended has given the plane up
        for worker in self.workers {
            // One that panicked has given the plane up, too; the locks of the lanes go with the
            // process.
            drop(worker.join());
        }
    }
}

/// Waits for so many threads; what the workers got.
fn all_up(is_up: &Receiver<Up>, count: usize) -> Result<Vec<Caps>, String> {
    let mut caps = Vec::new();
    for _ in 0..count {
        match is_up.recv() {
            Ok(up) => caps.extend(up?),
            Err(mpsc::RecvError) => return Err("a thread ended before it was up".into()),
        }
    }
    Ok(caps)
}

fn work(parts: Parts, choice: &Choice, options: &Options, up: Sender<Up>, gate: &Barrier) {
    let last_words = LastWords {
        plane: parts.plane.clone(),
        worker: parts.index,
    };
    // On this thread: a ring has a single issuer.
    let made = Io::new(choice, options);
    let caps = match &made {
        Ok(io) => Ok(Some(io.caps().clone())),
        Err(error) => Err(format!("worker {}: {error}", parts.index)),
    };
    let _ = up.send(caps); // main reads it, or the process ends
    drop(up);
    let Ok(io) = made else { return };
    gate.wait();
    let worker = Worker::new(parts, options.conns_max as usize);
    if let Err(error) = io.run(worker) {
        last_words.give_up(error.to_string());
    }
}

fn control(plane: &Plane, server: grpc::Server, up: Sender<Up>, hello: &Receiver<grpc::Service>) {
    let _ = up.send(Ok(None)); // main reads it, or the process ends
    drop(up);
    let Ok(service) = hello.recv() else { return };
    if let Err(error) = server.serve(service) {
        plane.fail(format!("serve the control plane: {error}"), sys::boot_ns());
    }
}

/// Sees to it that no worker ends while the others go on as if it were there: its listening sockets
/// would take connections that nobody serves.
struct LastWords {
    plane: Arc<Plane>,
    worker: usize,
}

impl LastWords {
    fn give_up(&self, why: String) {
        self.plane.set_accepting(self.worker, 0);
        self.plane
            .fail(format!("worker {}: {why}", self.worker), sys::boot_ns());
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.give_up("it panicked".into());
        }
    }
}
