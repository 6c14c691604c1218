//! One data plane in this process: its directory, control page, workers and sockets.

use crate::control::{ControlPlane, REPLY_CAPACITY};
use crate::sender::Sender;
use shm_abi::{CONTROL_MAGIC, LAYOUT_HASH, PAGE_SIZE};
use sluice_dataplane::{Config, Parts, Plane, Worker};
use sluice_kernel::sys::{self, EventFd};
use sluice_kernel::{Options, Uring};
use sluice_lane::{Control, Counters, CountersOptions, Lane, LaneOptions};
use sluice_proto as proto;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
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

/// What a world is made of.
pub struct Setup {
    pub workers: usize,
    pub ring_size: u64,
    pub limit: u64,
    pub max_held: u64,
    pub hold_budget_ns: u64,
    /// More words of the control page; all others are 0.
    pub words: Vec<(u64, u64)>,
    pub kept_bytes_max: usize,
    pub http: proto::HttpBounds,
    pub sources: Vec<proto::Source>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            workers: 1,
            ring_size: 1 << 20,
            limit: 1000,
            max_held: 1000,
            hold_budget_ns: 60 * SECOND,
            words: vec![],
            kept_bytes_max: 64 << 20,
            http: proto::HttpBounds {
                max_header: 32 * 1024,
                header_timeout_ns: 60 * SECOND,
                body_timeout_ns: 60 * SECOND,
                idle_timeout_ns: 60 * SECOND,
                max_connections: 200,
                max_connections_per_ip: 0,
                max_body: 1 << 20,
                ..proto::HttpBounds::default()
            },
            sources: vec![source("/a", 0)],
        }
    }
}

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
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<Result<(), String>>>,
    dir: PathBuf,
}

impl World {
    /// `None`, with the reason on stderr, where the kernel gives no io_uring.
    pub fn start(setup: Setup) -> Option<World> {
        let caps = match sluice_kernel::probe() {
            Ok(caps) => caps,
            Err(refusal) => {
                eprintln!("skipped: io_uring cannot be used here: {refusal}");
                return None;
            }
        };
        let dir = directory();
        let page = control_page(&dir, &setup);
        let control = Control::open(&dir.join("control"), JOURNAL).unwrap();
        let counters = Counters::create(&CountersOptions {
            path: dir.join("counters"),
            generation: 1,
            workers: setup.workers as u32,
            sources: shm_abi::SOURCES_MAX as u32,
        })
        .unwrap();
        let pokes = (0..setup.workers)
            .map(|_| EventFd::new().unwrap())
            .collect();
        let plane = Plane::new(1, control, counters, setup.ring_size, pokes, 1);
        let plane = Arc::new(plane);
        let mut world = World {
            plane: plane.clone(),
            control: Vec::new(),
            page,
            addresses: Vec::new(),
            threads: Vec::new(),
            dir,
        };
        for index in 0..setup.workers {
            let lane = Lane::create(&LaneOptions {
                dir: world.dir.clone(),
                journal_id: JOURNAL,
                boot_id: [2; 16],
                lane_id: [index as u8 + 1; 16],
                generation: 1,
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
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            world.addresses.push(listener.local_addr().unwrap());
            let parts = Parts {
                index,
                plane: plane.clone(),
                lane,
                sockets: vec![listener.into()],
                request_bell,
                reply_bell,
                seed: 1,
                kept_bytes_max: setup.kept_bytes_max,
            };
            let caps = caps.clone();
            world.threads.push(std::thread::spawn(move || {
                let options = Options {
                    buffers: 64,
                    conns_max: 256,
                    cq_entries: 1024,
                    sq_entries: 256,
                    ..Options::default()
                };
                let mut io = Uring::new(&options, &caps).map_err(|error| error.to_string())?;
                Worker::new(parts, 256)
                    .run(&mut io)
                    .map_err(|error| error.to_string())
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
            ..proto::Snapshot::default()
        };
        self.plane
            .set_config(Config::new(snapshot, self.plane.ring_size).unwrap());
        eventually("all workers accept", || self.plane.all_accept(version));
    }

    /// Stores a word of the control page.
    pub fn store(&self, word: u64, value: u64) {
        self.page.write_all_at(&value.to_le_bytes(), word).unwrap();
    }

    /// A connection to a worker.
    pub fn connect(&self, worker: usize) -> Sender {
        Sender::connect(self.addresses[worker])
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
