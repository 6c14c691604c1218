//! One data plane in this process: its directory, control page, workers and sockets.

use crate::control::{ControlPlane, Frame, REPLY_CAPACITY};
use crate::sender::Sender;
use rustls::ClientConfig;
use shm_abi::{CONTROL_MAGIC, LAYOUT_HASH, PAGE_SIZE};
use sluice_dataplane::{Config, Parts, Plane, TURNED_AWAY_MAX, Worker};
use sluice_kernel::sys::{self, EventFd};
use sluice_kernel::{Caps, Epoll, Options, Share, Uring};
use sluice_lane::{Control, Counters, CountersOptions, Lane, LaneOptions};
use sluice_proto as proto;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const SECOND: u64 = 1_000_000_000;
pub const MILLISECOND: u64 = 1_000_000;

const JOURNAL: [u8; 16] = *b"a journal's name";

/// Words of the control page, as `layout.abi` has them.
pub const LIMIT: u64 = 128;
pub const MAX_HELD: u64 = 136;
pub const HOLD_BUDGET: u64 = 144;
pub const FLOOR_SLOTS: u64 = 176;
pub const FLOOR_RATE_MILLI: u64 = 184;
pub const REPEAT_SHARE_MILLI: u64 = 192;
pub const SHARE_RATE_MILLI: u64 = 200;
pub const WRITABLE: u64 = 256;
pub const STOPPING: u64 = 392;
pub const NEWEST_GENERATION: u64 = 400;
pub const ELDER_LIMIT: u64 = 408;

/// The generation of every data plane here.
pub const GENERATION: u32 = 7;

/// Words with which those that wait go in the order in which they came, however long that takes:
/// otherwise the newest goes first once a queue was not empty for some time.
pub const FIRST_COME: [(u64, u64); 2] = [(208, 3600 * SECOND), (216, 3600 * SECOND)];

/// Waits until it holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "still not so: {what}");
        std::thread::yield_now();
    }
}

/// What a row of listening sockets is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// One TCP socket a worker.
    Tcp,
    /// One TCP socket that all workers share.
    Shared,
    /// One Unix socket that all workers share.
    Unix,
}

enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What a world is made of.
pub struct Setup {
    pub workers: usize,
    pub rows: Vec<Row>,
    /// One a row; none: all are plain.
    pub listeners: Vec<proto::Listener>,
    pub ticket_keys: Vec<proto::TicketKey>,
    pub ring_size: u64,
    pub limit: u64,
    pub max_held: u64,
    pub hold_budget_ns: u64,
    /// More words of the control page; all others are 0.
    pub words: Vec<(u64, u64)>,
    pub http: proto::HttpBounds,
    pub sources: Vec<proto::Source>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            workers: 1,
            rows: vec![Row::Tcp],
            listeners: vec![],
            ticket_keys: vec![],
            ring_size: 1 << 20,
            limit: 1000,
            max_held: 1000,
            hold_budget_ns: 60 * SECOND,
            words: vec![],
            http: proto::HttpBounds {
                max_header: 32 * 1024,
                header_timeout_ns: 60 * SECOND,
                body_timeout_ns: 60 * SECOND,
                idle_timeout_ns: 60 * SECOND,
                max_connections: 200,
                max_connections_per_ip: 0,
                max_body: 1 << 20,
                receive_memory: 64 << 20,
                handshake_timeout_ns: 60 * SECOND,
                ..proto::HttpBounds::default()
            },
            sources: vec![source("/a", 0)],
        }
    }
}

/// As many requests of weight 1 may be unanswered at a worker.
pub const VERIFY_WEIGHT_MAX: u32 = 2;

/// A source of that path and slot, acknowledged when durable, with a budget beyond any test.
pub fn source(path: &str, slot: u32) -> proto::Source {
    proto::Source {
        id: 100 + slot,
        slot,
        name: path[1..].into(),
        path: path.into(),
        methods: vec!["POST".into(), "GET".into(), "HEAD".into()],
        priority: proto::Priority::Default.into(),
        acknowledge: proto::Acknowledge::Durable.into(),
        max_body: 128 * 1024,
        budget_ns: 60 * SECOND,
        shed_status: 503,
        ..proto::Source::default()
    }
}

/// A running data plane. Dropped, it is told to drain and must end.
pub struct World {
    pub plane: Arc<Plane>,
    pub control: Vec<ControlPlane>,
    page: File,
    /// By row and worker.
    addresses: Vec<Vec<Address>>,
    listeners: Vec<proto::Listener>,
    ticket_keys: Vec<proto::TicketKey>,
    threads: Vec<JoinHandle<Result<(), String>>>,
    dir: PathBuf,
}

impl World {
    /// `None`, with the reason on stderr, where the kernel gives no io_uring.
    pub fn start(setup: Setup) -> Option<World> {
        let caps = match driver() {
            Driver::Uring => match sluice_kernel::probe() {
                Ok(caps) => caps,
                Err(refusal) => {
                    eprintln!("skipped: io_uring cannot be used here: {refusal}");
                    return None;
                }
            },
            Driver::Epoll => Caps::default(),
        };
        let dir = directory();
        let page = control_page(&dir, &setup);
        let control = Control::open(&dir.join("control"), JOURNAL).unwrap();
        let counters = Counters::create(&CountersOptions {
            path: dir.join("counters"),
            generation: GENERATION,
            workers: setup.workers as u32,
            sources: shm_abi::SOURCES_MAX as u32,
        })
        .unwrap();
        let pokes = (0..setup.workers)
            .map(|_| EventFd::new().unwrap())
            .collect();
        let rows = setup.rows.len();
        let plane = Plane::new(
            GENERATION,
            control,
            counters,
            setup.ring_size,
            rows,
            pokes,
            1,
        );
        let plane = Arc::new(plane);
        let mut world = World {
            plane: plane.clone(),
            control: Vec::new(),
            page,
            addresses: Vec::new(),
            listeners: setup.listeners,
            ticket_keys: setup.ticket_keys,
            threads: Vec::new(),
            dir,
        };
        let mut sockets: Vec<Vec<(OwnedFd, Share)>> = Vec::new();
        sockets.resize_with(setup.workers, Vec::new);
        for (row, kind) in setup.rows.iter().enumerate() {
            let path = world.dir.join(format!("row-{row}"));
            world.addresses.push(open_row(*kind, path, &mut sockets));
        }
        for (index, sockets) in sockets.into_iter().enumerate() {
            let lane = Lane::create(&LaneOptions {
                dir: world.dir.clone(),
                journal_id: JOURNAL,
                boot_id: [2; 16],
                lane_id: [index as u8 + 1; 16],
                generation: GENERATION,
                worker: index as u32,
                request_capacity: setup.ring_size,
                reply_capacity: REPLY_CAPACITY,
                lock_memory: false,
            })
            .unwrap();
            let (request_bell, reply_bell) = (EventFd::new().unwrap(), EventFd::new().unwrap());
            let bells = (
                request_bell.duplicate().unwrap(),
                reply_bell.duplicate().unwrap(),
            );
            world.control.push(ControlPlane::attach(
                &lane,
                setup.ring_size,
                bells.0,
                bells.1,
            ));
            let parts = Parts {
                index,
                plane: plane.clone(),
                lane,
                sockets,
                request_bell,
                reply_bell,
                seed: 1,
            };
            let caps = caps.clone();
            world.threads.push(std::thread::spawn(move || {
                let result = run(parts, caps);
                result.map_err(|error| error.to_string())
            }));
        }
        world.configure(1, setup.http, setup.sources);
        Some(world)
    }

    /// Puts a config in force and waits until all workers accept under it.
    pub fn configure(&self, version: u32, http: proto::HttpBounds, sources: Vec<proto::Source>) {
        let snapshot = proto::Snapshot {
            config_version: version,
            http: Some(http),
            sources,
            listeners: self.listeners.clone(),
            ticket_keys: self.ticket_keys.clone(),
            verify_weight_max: VERIFY_WEIGHT_MAX,
        };
        let config = Config::new(snapshot, &self.plane.host()).unwrap();
        self.plane.set_config(config);
        eventually("all workers accept", || self.plane.all_accept(version));
    }

    /// Stores a word of the control page.
    pub fn store(&self, word: u64, value: u64) {
        self.page.write_all_at(&value.to_le_bytes(), word).unwrap();
    }

    /// Listeners as the next config has them.
    pub fn set_listeners(&mut self, listeners: Vec<proto::Listener>) {
        self.listeners = listeners;
    }

    /// A connection to a worker.
    pub fn connect(&self, worker: usize) -> Sender {
        self.connect_row(0, worker)
    }

    /// A connection to a worker by way of a row, whatever is spoken there.
    pub fn connect_row(&self, row: usize, worker: usize) -> Sender {
        match &self.addresses[row][worker] {
            Address::Tcp(address) => Sender::connect(*address),
            Address::Unix(path) => Sender::connect_unix(path),
        }
    }

    /// A connection to a worker that speaks TLS.
    pub fn connect_tls(&self, worker: usize, config: &Arc<ClientConfig>) -> Sender {
        self.connect(worker).into_tls(config)
    }

    /// The counts of a worker.
    pub fn counts(&self, worker: usize) -> &shm_abi::WorkerCounters {
        self.plane.counters.worker(worker)
    }

    /// Connections that are counted.
    pub fn connections(&self) -> u64 {
        self.plane.counters.header().connections()
    }

    /// Takes the next frame, which has this body, and accepts it.
    pub fn accept_next(&mut self, worker: usize, body: &[u8]) -> Frame {
        let frame = self.control[worker].frame();
        assert!(frame.body == body, "another body: {:?}", frame.body.len());
        self.control[worker].accept(&frame);
        self.control[worker].consume(&frame);
        frame
    }

    /// Slots taken.
    pub fn inflight(&self) -> u64 {
        self.plane.slots.inflight()
    }

    /// Requests held.
    pub fn held(&self) -> u64 {
        self.plane.slots.held()
    }

    /// Bytes of the counters file.
    pub fn counters_bytes(&self, at: usize, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let file = File::open(self.dir.join("counters")).unwrap();
        file.read_exact_at(&mut bytes, at as u64).unwrap();
        bytes
    }

    /// Waits for the end of all workers, and says whether each ended well.
    pub fn end(&mut self) -> Vec<bool> {
        eventually("all workers end", || {
            self.threads.iter().all(JoinHandle::is_finished)
        });
        self.threads
            .drain(..)
            .map(|thread| thread.join().expect("a worker panicked").is_ok())
            .collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.plane.drain(sys::boot_ns());
        if !std::thread::panicking() {
            self.end();
            let header = self.plane.counters.header();
            assert_eq!((header.connections(), self.held()), (0, 0), "left behind");
            assert_eq!(header.held(), 0);
            for index in 0..self.control.len() {
                let worker = self.plane.counters.worker(index);
                assert_eq!(worker.accepted(), worker.closed());
                assert_eq!(worker.belt_wakes(), 0);
                assert_eq!(worker.kept_bytes(), 0, "bytes kept for nobody");
            }
            if !self.plane.failed() && self.control.iter().all(ControlPlane::is_empty) {
                assert_eq!(self.inflight(), 0, "slots without a frame");
                assert_eq!(header.inflight(), 0);
                // One worker alone counts both at the same instants.
                if let [_] = self.control[..] {
                    let worker = self.plane.counters.worker(0);
                    let by_slot_ns = worker.sample_sum_ns() + worker.void_ns();
                    assert_eq!(header.area_ns(), by_slot_ns, "time of slots");
                }
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// What the workers run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Uring,
    Epoll,
}

/// The suite is built twice, under two names.
pub fn driver() -> Driver {
    match env!("CARGO_CRATE_NAME") {
        "component_epoll" => Driver::Epoll,
        _ => Driver::Uring,
    }
}

fn run(parts: Parts, caps: Caps) -> Result<(), sluice_kernel::Error> {
    let seats = 256 + TURNED_AWAY_MAX;
    let options = Options {
        buffers: 64,
        conns_max: seats,
        cq_entries: 2048,
        sq_entries: 256,
        ..Options::default()
    };
    let mut worker = Worker::new(parts, seats as usize);
    match driver() {
        Driver::Uring => worker.run(&mut Uring::new(&options, &caps)?),
        Driver::Epoll => worker.run(&mut Epoll::new(&options, None)?),
    }
}

/// Opens the sockets of a row, puts one into each worker's list, and says where they are.
fn open_row(kind: Row, path: PathBuf, sockets: &mut [Vec<(OwnedFd, Share)>]) -> Vec<Address> {
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let shared: Option<(OwnedFd, SocketAddr)> = match kind {
        Row::Tcp => None,
        Row::Shared => {
            let listener = bind();
            let address = listener.local_addr().unwrap();
            Some((listener.into(), address))
        }
        Row::Unix => {
            let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
            Some((UnixListener::bind(&path).unwrap().into(), nowhere))
        }
    };
    let rows = sockets.iter_mut().map(|sockets| {
        let (socket, share, address) = match &shared {
            None => {
                let listener = bind();
                let address = listener.local_addr().unwrap();
                (listener.into(), Share::Exclusive, address)
            }
            Some((socket, address)) => (socket.try_clone().unwrap(), Share::Shared, *address),
        };
        sockets.push((socket, share));
        match kind {
            Row::Unix => Address::Unix(path.clone()),
            _ => Address::Tcp(address),
        }
    });
    rows.collect()
}

fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = match std::path::Path::new("/dev/shm").is_dir() {
        true => PathBuf::from("/dev/shm"),
        false => std::env::temp_dir(),
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = base.join(format!(
        "sluice-server-test-{}-{number}",
        std::process::id()
    ));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn control_page(dir: &std::path::Path, setup: &Setup) -> File {
    let path = dir.join("control");
    let page = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap();
    page.set_len(PAGE_SIZE).unwrap();
    page.write_all_at(&JOURNAL, 16).unwrap();
    for (word, value) in [
        (LIMIT, setup.limit),
        (MAX_HELD, setup.max_held),
        (HOLD_BUDGET, setup.hold_budget_ns),
        (WRITABLE, 1),
        (8, LAYOUT_HASH),
        (0, CONTROL_MAGIC),
    ]
    .into_iter()
    .chain(setup.words.iter().copied())
    {
        page.write_all_at(&value.to_le_bytes(), word).unwrap();
    }
    page
}
