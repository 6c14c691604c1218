//! The data plane: from an accepted socket to a frame in the lane and back to an answer.
//!
//! It holds no tuned constant (numbers come through the control page), knows no provider (routes come
//! through a snapshot) and never touches a disk. It never waits for the control plane: without one
//! it goes on under its last snapshot, and what is not answered within its sender's budget gets 503.
//!
//! In the order of a request: `worker` (accept, turn) → `conn` → `request` (parse, admit, publish) →
//! `answer`. Beside them: `config` (snapshots), `plane` (what threads share), `grpc` and `handover`
//! (the control plane's calls).

mod answer;
mod args;
mod config;
mod conn;
mod grpc;
mod handover;
mod limits;
mod plane;
mod request;
mod tally;
mod worker;

use args::{Args, Command};
use plane::Plane;
use sluice_kernel::sys::{self, EventFd};
use sluice_kernel::{Caps, Options, Uring};
use sluice_lane::{Control, Counters, CountersOptions, Lane, LaneOptions};
use std::error::Error;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::sync::Arc;
use worker::{Parts, Worker};

/// The first inherited descriptor.
const FIRST_FD: RawFd = 3;

fn main() -> ExitCode {
    match args::parse(std::env::args().skip(1)) {
        Err(error) => {
            eprintln!("sluice-dataplane: {error}");
            ExitCode::from(2)
        }
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            println!("sluice-dataplane {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Command::Probe) => {
            let report = sluice_kernel::probe().unwrap_or_else(|refusal| Caps {
                kernel: sys::kernel_release(),
                refusal: Some(refusal),
                ..Caps::default()
            });
            println!("{}", report.to_json());
            ExitCode::from(u8::from(report.refusal.is_some()))
        }
        Ok(Command::Run(args)) => match run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!(
                    "level=ERROR component=dataplane generation={} msg={:?}",
                    args.generation,
                    error.to_string()
                );
                ExitCode::FAILURE
            }
        },
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    sys::report_sigbus("sluice-dataplane")?;
    let fds = inherited(args)?;
    let options = backend_options(args);
    let caps = sluice_kernel::probe()
        .map_err(|refusal| format!("io_uring cannot be used here: {refusal}"))?;
    let control = Control::open(&args.shm.join("control"), args.journal_id)?;
    let dp = args.shm.join("dp");
    let counters = Counters::create(&CountersOptions {
        path: dp.join(format!("{}.counters", args.generation)),
        generation: args.generation,
        workers: args.workers as u32,
        sources: shm_abi::SOURCES_MAX as u32,
    })?;
    let pokes = (0..args.workers).map(|_| EventFd::new()).collect::<Result<_, _>>()?;
    let plane =
        Arc::new(Plane::new(args.generation, control, counters, args.ring_size, pokes));

    let mut lanes = Vec::new();
    let mut parts = Vec::new();
    for index in 0..args.workers {
        let part = worker_parts(args, index, &plane, &fds)?;
        lanes.push(part.0);
        parts.push(part.1);
    }
    let memory_locked = parts.iter().all(|part| part.lane.memory_locked());

    // All lanes are there before anybody may say hello.
    let mut workers = Vec::new();
    for part in parts {
        let (plane, options, caps) = (plane.clone(), options.clone(), caps.clone());
        workers.push(std::thread::Builder::new().name(format!("worker-{}", part.index)).spawn(
            move || {
                let index = part.index;
                if let Err(error) = work(part, &options, &caps) {
                    plane.set_accepting(index, 0);
                    plane.fail(format!("worker {index}: {error}"), sys::boot_ns());
                }
            },
        )?);
    }
    let service = grpc::Service {
        plane: plane.clone(),
        journal_id: args.journal_id,
        caps,
        lanes,
        memory_locked,
    };
    let socket = dp.join(format!("{}.sock", args.generation));
    let served = plane.clone();
    std::thread::Builder::new().name("control".into()).spawn(move || {
        if let Err(error) = grpc::serve(service, &socket) {
            served.fail(format!("serve {}: {error}", socket.display()), sys::boot_ns());
        }
    })?;
    let socket = dp.join(format!("{}.fds", args.generation));
    let (served, counts) = (plane.clone(), (args.workers, args.listeners));
    std::thread::Builder::new().name("handover".into()).spawn(move || {
        let result = handover::serve(served.clone(), &socket, counts.0, counts.1, fds);
        if let Err(error) = result {
            served.fail(format!("serve {}: {error}", socket.display()), sys::boot_ns());
        }
    })?;

    for worker in workers {
        if worker.join().is_err() {
            plane.fail("a worker panicked".into(), sys::boot_ns());
            return Err("a worker panicked".into()); // its lane's lock goes with the process
        }
    }
    if plane.failed() { Err("gave up; see above".into()) } else { Ok(()) }
}

fn work(
    parts: Parts,
    options: &Options,
    caps: &Caps,
) -> Result<(), sluice_kernel::Error> {
    let mut io = Uring::new(options, caps)?; // on this thread: the ring has a single issuer
    Worker::new(parts, options.conns_max as usize).run(&mut io)
}

fn backend_options(args: &Args) -> Options {
    let conns_max = args.connections_max.min(limits::SEATS_MAX);
    Options {
        conns_max,
        cq_entries: (2 * conns_max).next_power_of_two().clamp(4096, 65_536),
        ..Options::default()
    }
}

/// Takes the descriptors over that the supervisor put behind stderr.
fn inherited(args: &Args) -> Result<Vec<OwnedFd>, Box<dyn Error>> {
    let count = args.listeners * args.workers + 2 * args.workers;
    if count > sys::FDS_MAX {
        return Err(format!(
            "{} listeners and {} workers need {count} descriptors, at most {}",
            args.listeners,
            args.workers,
            sys::FDS_MAX
        )
        .into());
    }
    let fds = FIRST_FD..FIRST_FD + count as RawFd;
    for fd in fds.clone() {
        // SAFETY: a plain call; a number that is no descriptor gives EBADF.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(format!("descriptor {fd} was not handed down").into());
        }
    }
    // SAFETY: they are open, as just seen, and nothing else in this process owns them yet.
    Ok(fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
}

/// Makes a worker's lane and gives it its own duplicates of the descriptors; the originals stay for
/// the next control plane.
fn worker_parts(
    args: &Args,
    index: usize,
    plane: &Arc<Plane>,
    fds: &[OwnedFd],
) -> Result<([u8; 16], Parts), Box<dyn Error>> {
    let mut lane_id = [0; 16];
    sys::random(&mut lane_id)?;
    let mut seed = [0; 8];
    sys::random(&mut seed)?;
    let lane = Lane::create(&LaneOptions {
        dir: args.shm.join("lanes"),
        journal_id: args.journal_id,
        boot_id: boot_id()?,
        lane_id,
        generation: args.generation,
        worker: index as u32,
        request_capacity: args.ring_size,
        reply_capacity: args.reply_ring_size,
        lock_memory: args.lock_memory,
    })?;
    let bells = args.listeners * args.workers;
    let duplicate = |at: usize| fds[at].try_clone();
    let sockets = (0..args.listeners).map(|listener| duplicate(listener * args.workers + index));
    let parts = Parts {
        index,
        plane: plane.clone(),
        lane,
        sockets: sockets.collect::<Result<_, _>>()?,
        request_bell: EventFd::from_fd(duplicate(bells + index)?),
        reply_bell: EventFd::from_fd(duplicate(bells + args.workers + index)?),
        seed: u64::from_le_bytes(seed),
    };
    Ok((lane_id, parts))
}

/// The kernel's name for this boot: positions of another boot mean nothing.
fn boot_id() -> Result<[u8; 16], Box<dyn Error>> {
    let path = "/proc/sys/kernel/random/boot_id";
    let digits = std::fs::read_to_string(path)?.trim().replace('-', "");
    u128::from_str_radix(&digits, 16)
        .map(u128::to_be_bytes)
        .map_err(|_| format!("{path}: {digits:?} is no UUID").into())
}
