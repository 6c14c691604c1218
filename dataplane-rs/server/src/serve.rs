//! A data plane from its command line to its end: lanes, sandbox, threads, and what its exit says.

mod start;

use crate::args::{Args, Driver};
use crate::grpc;
use crate::handover::Handover;
use crate::limits;
use crate::plane::Plane;
use crate::worker::Parts;
use sluice_kernel::sandbox::{self, Sandbox, User};
use sluice_kernel::sys::{self, EventFd};
use sluice_kernel::{Caps, Options, Refusal, Share};
use sluice_lane::{Control, Counters, CountersOptions, Lane, LaneOptions};
use start::{Choice, Threads};
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

/// The first inherited descriptor.
const FIRST_FD: RawFd = 3;

/// Descriptors beside those of connections and those handed down: standard ones, rings or epolls,
/// bells, the control plane's connections.
const SPARE_FDS: u64 = 256;

/// Serves until it has drained. An error: it could not begin, or it gave itself up and another one
/// is to be started in its place.
pub fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let fds = inherited(args); // before anything is opened that could have their numbers
    let mut words = words(args);
    let begun = fds.and_then(|fds| begin(args, fds));
    let (plane, threads, service) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            if let Ok(file) = &mut words {
                let _ = writeln!(file, "{error}"); // it is on standard error as well
            }
            return Err(error);
        }
    };
    threads.serve(service);
    if plane.failed() {
        Err("gave up; see above".into())
    } else {
        Ok(())
    }
}

/// Where it is written why a data plane could not begin, for the control plane to tell. The file
/// is made first of all, since none can be made later; it is empty where all went well.
fn words(args: &Args) -> std::io::Result<File> {
    let path = args.shm.join(format!("dp/{}.words", args.generation));
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Everything up to the instant at which somebody may say hello.
///
/// The order is that of what is taken away. Lanes and sockets have paths that belong to the user
/// who started us, so they come before we are somebody else; files are closed before the first
/// thread, because threads inherit that; the calls are filtered when the rings are there.
fn begin(
    args: &Args,
    fds: Vec<OwnedFd>,
) -> Result<(Arc<Plane>, Threads, grpc::Service), Box<dyn Error>> {
    sys::report_sigbus("sluice-dataplane")?;
    let owner = sandbox::current_user();
    let mut sandbox = Sandbox::new(args.sandbox);
    let user = User::find(&args.user)?;
    let plane = plane(args)?;
    let mut lanes = Vec::new();
    let mut parts = Vec::new();
    // All lanes are there before anybody may say hello.
    for index in 0..args.workers {
        let part = worker_parts(args, index, &plane, &fds)?;
        lanes.push(part.0);
        parts.push(part.1);
    }
    let memory_locked = parts.iter().all(|part| part.lane.memory_locked());
    let socket = |kind| args.shm.join(format!("dp/{}.{kind}", args.generation));
    let told = |kind, error| format!("bind {}: {error}", socket(kind).display());
    let server = grpc::Server::bind(&socket("sock")).map_err(|error| told("sock", error))?;
    let listener = UnixListener::bind(socket("fds")).map_err(|error| told("fds", error))?;

    raise_limits(args, &plane, fds.len());
    let handover = Handover {
        listener,
        owner,
        workers: args.workers,
        listeners: args.listeners,
        fds,
    };
    sandbox.lower(user)?;
    let choice = Choice::new(args.driver)?;
    sandbox.close_files()?;
    let options = backend_options(args, sandbox.is_on());
    let threads = Threads::start(&plane, parts, &choice, &options, server, handover)?;
    threads.confine(&mut sandbox)?;

    let (driver, driver_reason) = threads.driver();
    if driver == "epoll" && args.driver != Driver::Epoll {
        let message = format!("io_uring is not used, epoll takes its place: {driver_reason}");
        plane.report("warning", message);
    }
    if !sandbox.reason().is_empty() {
        let message = format!("the sandbox lacks layers: {}", sandbox.reason());
        plane.report("warning", message);
    }
    let service = grpc::Service {
        plane: plane.clone(),
        journal_id: args.journal_id,
        lanes,
        memory_locked,
        driver,
        driver_reason,
        sandbox: sandbox.held().iter().map(|l| l.name().into()).collect(),
        sandbox_reason: sandbox.reason(),
    };
    Ok((plane, threads, service))
}

/// What the threads share, on the control plane's page and counters of our own.
fn plane(args: &Args) -> Result<Arc<Plane>, Box<dyn Error>> {
    let control = Control::open(&args.shm.join("control"), args.journal_id)?;
    let counters = Counters::create(&CountersOptions {
        path: args.shm.join(format!("dp/{}.counters", args.generation)),
        generation: args.generation,
        workers: args.workers as u32,
        sources: shm_abi::SOURCES_MAX as u32,
    })?;
    let mut seed = [0; 8];
    sys::random(&mut seed)?;
    let pokes = (0..args.workers)
        .map(|_| EventFd::new())
        .collect::<Result<_, _>>()?;
    Ok(Arc::new(Plane::new(
        args.generation,
        control,
        counters,
        args.ring_size,
        args.listeners,
        pokes,
        u64::from_le_bytes(seed),
    )))
}

/// Raises what may be raised, and says where that does not do. A data plane with fewer descriptors
/// than connections serves all the same.
fn raise_limits(args: &Args, plane: &Plane, inherited: usize) {
    sandbox::raise_locked_memory();
    let turned_away = u64::from(limits::TURNED_AWAY_MAX) * args.workers as u64;
    let own = 3 * inherited as u64 + SPARE_FDS;
    let needed = u64::from(args.connections_max) + turned_away + own;
    let limit = sandbox::raise_descriptors(needed);
    if limit < needed {
        plane.report(
            "error",
            format!(
                "RLIMIT_NOFILE is {limit}: {} connections need {needed} descriptors, and those \
                 beyond about {} wait and are then turned away; set LimitNOFILE={needed} \
                 (systemd) or --ulimit nofile={needed} (docker), or lower http.max_connections",
                args.connections_max,
                limit.saturating_sub(own),
            ),
        );
    }
}

fn backend_options(args: &Args, restrict: bool) -> Options {
    let conns_max = args.connections_max.saturating_add(limits::TURNED_AWAY_MAX);
    let conns_max = conns_max.min(limits::SEATS_MAX);
    Options {
        conns_max,
        cq_entries: (2 * conns_max).next_power_of_two().clamp(4096, 65_536),
        restrict,
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
    let sockets = fds[..bells].chunks(args.workers).map(|row| {
        // A socket that is not each worker's own, as systemd hands over: one accept at a time.
        let mut others = row.iter().enumerate().filter(|&(other, _)| other != index);
        let share = match others.any(|(_, fd)| sys::same_socket(fd.as_fd(), row[index].as_fd())) {
            true => Share::Shared,
            false => Share::Exclusive,
        };
        Ok::<_, std::io::Error>((row[index].try_clone()?, share))
    });
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

/// What a data plane that is started here by this user, to become nobody if that is root, would
/// take, and why not io_uring.
pub fn probe_report() -> Caps {
    sandbox::raise_locked_memory();
    // Whoever cannot become nobody probes as who it is, and would serve so as well.
    let _ = User::find("nobody").map(sandbox::become_user);
    sluice_kernel::probe().unwrap_or_else(epoll)
}

fn epoll(refusal: Refusal) -> Caps {
    Caps {
        backend: "epoll",
        kernel: sys::kernel_release(),
        refusal: Some(refusal),
        ..Caps::default()
    }
}

/// This program's version with the layout of memory that it shares: two programs of one layout fit.
pub fn version() -> String {
    let (version, layout) = (env!("CARGO_PKG_VERSION"), shm_abi::LAYOUT_HASH);
    format!("sluice-dataplane {version} (layout {layout:016x})")
}
