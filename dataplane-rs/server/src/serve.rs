//! A data plane from its command line to its end: lanes, threads, and what its exit says.

use crate::args::Args;
use crate::grpc;
use crate::handover;
use crate::limits;
use crate::plane::Plane;
use crate::worker::{Parts, Worker};
use sluice_kernel::sys::{self, EventFd};
use sluice_kernel::{Caps, Options, Uring};
use sluice_lane::{Control, Counters, CountersOptions, Lane, LaneOptions};
use std::error::Error;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

/// The first inherited descriptor.
const FIRST_FD: RawFd = 3;

/// Serves until it has drained. An error: it could not begin, or it gave itself up and another one
/// is to be started in its place.
pub fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
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
    let mut seed = [0; 8];
    sys::random(&mut seed)?;
    let pokes = (0..args.workers)
        .map(|_| EventFd::new())
        .collect::<Result<_, _>>()?;
    let plane = Arc::new(Plane::new(
        args.generation,
        control,
        counters,
        args.ring_size,
        pokes,
        u64::from_le_bytes(seed),
    ));

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
        let (options, caps) = (options.clone(), caps.clone());
        let thread = std::thread::Builder::new().name(format!("worker-{}", part.index));
        workers.push(thread.spawn(move || work(part, &options, &caps))?);
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
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            if let Err(error) = grpc::serve(service, &socket) {
                served.fail(
                    format!("serve {}: {error}", socket.display()),
                    sys::boot_ns(),
                );
            }
        })?;
    let socket = dp.join(format!("{}.fds", args.generation));
    let (served, counts) = (plane.clone(), (args.workers, args.listeners));
    std::thread::Builder::new()
        .name("handover".into())
        .spawn(move || {
            let result = handover::serve(served.clone(), &socket, counts.0, counts.1, fds);
            if let Err(error) = result {
                served.fail(
                    format!("serve {}: {error}", socket.display()),
                    sys::boot_ns(),
                );
            }
        })?;

    for worker in workers {
        // One that panicked has given the plane up, too; the locks of the lanes go with the
        // process.
        drop(worker.join());
    }
    if plane.failed() {
        Err("gave up; see above".into())
    } else {
        Ok(())
    }
}

fn work(parts: Parts, options: &Options, caps: &Caps) {
    let last_words = LastWords {
        plane: parts.plane.clone(),
        worker: parts.index,
    };
    // On this thread: the ring has a single issuer.
    let result = Uring::new(options, caps)
        .and_then(|mut io| Worker::new(parts, options.conns_max as usize).run(&mut io));
    if let Err(error) = result {
        last_words.give_up(error.to_string());
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
    Ok(sys::inherit_fds(FIRST_FD, count)?)
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
        kept_bytes_max: limits::KEPT_BYTES_MAX,
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

/// What this host can do, and why not more.
pub fn probe_report() -> Caps {
    sluice_kernel::probe().unwrap_or_else(|refusal| Caps {
        kernel: sys::kernel_release(),
        refusal: Some(refusal),
        ..Caps::default()
    })
}
