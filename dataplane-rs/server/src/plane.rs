//! What the threads of one data plane share: the config in force, the pages, and who must be told.

use crate::config::Config;
use sluice_core::admission::{Class, Shared};
use sluice_kernel::sys::EventFd;
use sluice_lane::{Control, Counters};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by the workers and the control thread.
pub struct Plane {
    /// Which data plane this is.
    pub generation: u32,
    /// The control plane's numbers.
    pub control: Control,
    /// Our counts.
    pub counters: Counters,
    /// Bytes of each request ring; bounds what a snapshot may ask for.
    pub ring_size: u64,
    config: Mutex<Arc<Config>>,
    pokes: Vec<EventFd>,
    /// The config version that each worker accepts under; 0: not accepting.
    accepting: Vec<AtomicU32>,
    draining: AtomicBool,
    /// When connections are cut, in ns of the boot clock; 0: not draining.
    cut_at_ns: AtomicU64,
    /// Requests that could use a slot, by class, all workers.
    waiting: [AtomicU64; Class::COUNT],
    /// Token buckets of sources by slot; they outlive snapshots.
    rates: Vec<AtomicU64>,
    per_ip: Mutex<HashMap<[u8; 16], u32>>,
    events: tokio::sync::broadcast::Sender<Notice>,
    failed: AtomicBool,
}

/// Something rare that an operator should read.
#[derive(Clone, Debug)]
pub struct Notice {
    /// "warning" or "error".
    pub level: &'static str,
    /// What happened.
    pub message: String,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plane {
    /// A plane without a config. `pokes` wake the workers, one each.
    pub fn new(
        generation: u32,
        control: Control,
        counters: Counters,
        ring_size: u64,
        pokes: Vec<EventFd>,
    ) -> Plane {
        Plane {
            generation,
            control,
            counters,
            ring_size,
            config: Mutex::default(),
            accepting: pokes.iter().map(|_| AtomicU32::new(0)).collect(),
            pokes,
            draining: AtomicBool::new(false),
            cut_at_ns: AtomicU64::new(0),
            waiting: Default::default(),
            rates: (0..shm_abi::SOURCES_MAX)
                .map(|_| AtomicU64::new(0))
                .collect(),
            per_ip: Mutex::default(),
            events: tokio::sync::broadcast::channel(64).0,
            failed: AtomicBool::new(false),
        }
    }

    /// The config in force.
    pub fn config(&self) -> Arc<Config> {
        unpoisoned(&self.config).clone()
    }

    /// Puts a config in force; workers take it up at their next turn.
    pub fn set_config(&self, config: Config) {
        *unpoisoned(&self.config) = Arc::new(config);
        self.poke_all(None);
    }

    /// Wakes all workers, `except` apart.
    pub fn poke_all(&self, except: Option<usize>) {
        for (worker, poke) in self.pokes.iter().enumerate() {
            if except != Some(worker)
                && let Err(error) = poke.ring()
            {
                self.report("error", format!("wake worker {worker}: {error}"));
            }
        }
    }

    /// The eventfd that wakes a worker.
    pub fn poke(&self, worker: usize) -> &EventFd {
        &self.pokes[worker]
    }

    /// A worker accepts under this version; 0: it no longer does.
    pub fn set_accepting(&self, worker: usize, version: u32) {
        self.accepting[worker].store(version, Ordering::Release);
    }

    /// Whether all workers accept under this version or a newer one.
    pub fn all_accept(&self, version: u32) -> bool {
        self.accepting
            .iter()
            .all(|v| v.load(Ordering::Acquire) >= version.max(1))
    }

    /// Begins to drain; a second call can only shorten the time left.
    pub fn drain(&self, cut_at_ns: u64) {
        let before = self.cut_at_ns.load(Ordering::Acquire);
        if before == 0 || cut_at_ns < before {
            self.cut_at_ns.store(cut_at_ns.max(1), Ordering::Release);
        }
        self.draining.store(true, Ordering::Release);
        self.poke_all(None);
    }

    /// Whether the plane drains, and when connections are cut.
    pub fn draining(&self) -> Option<u64> {
        self.draining
            .load(Ordering::Acquire)
            .then(|| self.cut_at_ns.load(Ordering::Acquire))
    }

    /// Gives the plane up: it drains at once and the process ends with an error, so that the
    /// supervisor starts another one with lanes of its own.
    pub fn fail(&self, why: String, now_ns: u64) {
        self.report("error", why);
        self.failed.store(true, Ordering::Release);
        self.drain(now_ns);
    }

    /// Whether the plane was given up.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Says something rare on stderr and to whoever watches.
    pub fn report(&self, level: &'static str, message: String) {
        eprintln!(
            "level={} component=dataplane generation={} msg={message:?}",
            level.to_uppercase(),
            self.generation
        );
        let _ = self.events.send(Notice { level, message }); // nobody watching is fine
    }

    /// What is reported from now on.
    pub fn watch(&self) -> tokio::sync::broadcast::Receiver<Notice> {
        self.events.subscribe()
    }

    /// The token bucket of a source slot.
    pub fn rate(&self, slot: u16) -> &AtomicU64 {
        &self.rates[usize::from(slot)]
    }

    /// Counts a connection in. `None`: a bound is reached and it must be refused.
    pub fn count_in(&self, config: &Config, ip: Option<[u8; 16]>) -> Option<Counted> {
        let header = self.counters.header();
        if header.add_connections(1) >= config.connections_max {
            header.sub_connections(1);
            return None;
        }
        let (Some(ip), bound @ 1..) = (ip, config.connections_per_ip_max) else {
            return Some(Counted { ip: None });
        };
        let mut per_ip = unpoisoned(&self.per_ip);
        let count = per_ip.entry(ip).or_insert(0);
        if *count >= bound {
            header.sub_connections(1);
            return None;
        }
        *count += 1;
        Some(Counted { ip: Some(ip) })
    }

    /// Counts a connection out again.
    pub fn count_out(&self, counted: Counted) {
        self.counters.header().sub_connections(1);
        let Some(ip) = counted.ip else { return };
        let mut per_ip = unpoisoned(&self.per_ip);
        if let Some(count) = per_ip.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                per_ip.remove(&ip);
            }
        }
    }
}

/// A connection that was counted in. It remembers under which address, because the bound on
/// addresses may come and go with configs.
#[derive(Debug)]
pub struct Counted {
    ip: Option<[u8; 16]>,
}

/// The slots and queues of all workers, as one worker's admission sees them.
pub struct Slots<'a>(pub &'a Plane);

impl Shared for Slots<'_> {
    fn take(&mut self, bound: u64) -> bool {
        let header = self.0.counters.header();
        if header.add_inflight(1) < bound {
            return true;
        }
        header.sub_inflight(1);
        false
    }

    fn give(&mut self) {
        self.0.counters.header().sub_inflight(1);
    }

    fn inflight(&self) -> u64 {
        self.0.counters.header().inflight()
    }

    fn wait(&mut self, class: Class, count: u64) {
        self.0.waiting[class as usize].fetch_add(count, Ordering::AcqRel);
    }

    fn leave(&mut self, class: Class, count: u64) {
        self.0.waiting[class as usize].fetch_sub(count, Ordering::AcqRel);
    }

    fn waiting(&self, class: Class) -> u64 {
        self.0.waiting[class as usize].load(Ordering::Acquire)
    }

    fn hold(&mut self) {
        self.0.counters.header().add_held(1);
    }

    fn unhold(&mut self) {
        self.0.counters.header().sub_held(1);
    }

    fn held(&self) -> u64 {
        self.0.counters.header().held()
    }
}
