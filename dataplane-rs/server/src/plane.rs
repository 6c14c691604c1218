//! What the threads of one data plane share: the config in force, the pages, and who must be told.

use crate::config::{Config, Host};
use crate::limits;
use sluice_core::admission::{Class, Numbers, RepeatFilter, Slots};
use sluice_kernel::sys::EventFd;
use sluice_lane::{Control, Counters};
use sluice_tls::Tickets;
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
    /// Rows of listening sockets, of each of which every worker has one.
    pub rows: usize,
    /// The slots of all workers, who waits for one, and how each source fares.
    pub slots: Slots,
    /// Ids that senders have sent.
    pub repeats: RepeatFilter,
    config: Mutex<Arc<Config>>,
    pokes: Vec<EventFd>,
    /// The config version that each worker accepts under; 0: not accepting.
    accepting: Vec<AtomicU32>,
    draining: AtomicBool,
    /// When connections are cut, in ns of the boot clock; 0: not draining.
    cut_at_ns: AtomicU64,
    meter: Mutex<Meter>,
    /// Token buckets of sources by slot; they outlive snapshots.
    rates: Vec<AtomicU64>,
    /// The token bucket of TLS handshakes.
    handshakes: AtomicU64,
    /// What TLS sessions are resumed with, whichever worker they began at.
    tickets: Arc<Tickets>,
    per_ip: Mutex<HashMap<[u8; 16], u32>>,
    events: tokio::sync::broadcast::Sender<Notice>,
    failed: AtomicBool,
}

/// What whoever reads the meter needs of the last reading.
#[derive(Default)]
struct Meter {
    /// The numbers that were in force since then.
    numbers: Option<Numbers>,
    /// When the standing of the sources was published last.
    standing_ns: u64,
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
    /// A plane without a config. `pokes` wake the workers, one each; `seed` is secret, so that no
    /// sender can make ids look like others.
    pub fn new(
        generation: u32,
        control: Control,
        counters: Counters,
        ring_size: u64,
        rows: usize,
        pokes: Vec<EventFd>,
        seed: u64,
    ) -> Plane {
        Plane {
            generation,
            control,
            counters,
            ring_size,
            rows,
            slots: Slots::new(pokes.len(), shm_abi::SOURCES_MAX as usize),
            repeats: RepeatFilter::new(limits::REPEATS_KEPT, seed),
            config: Mutex::default(),
            accepting: pokes.iter().map(|_| AtomicU32::new(0)).collect(),
            pokes,
            draining: AtomicBool::new(false),
            cut_at_ns: AtomicU64::new(0),
            meter: Mutex::default(),
            rates: (0..shm_abi::SOURCES_MAX)
                .map(|_| AtomicU64::new(0))
                .collect(),
            handshakes: AtomicU64::new(0),
            tickets: Arc::new(Tickets::new()),
            per_ip: Mutex::default(),
            events: tokio::sync::broadcast::channel(64).0,
            failed: AtomicBool::new(false),
        }
    }

    /// The config in force.
    pub fn config(&self) -> Arc<Config> {
        unpoisoned(&self.config).clone()
    }

    /// What of this plane bounds a snapshot.
    pub fn host(&self) -> Host<'_> {
        Host {
            ring_size: self.ring_size,
            workers: self.pokes.len(),
            rows: self.rows,
            tickets: &self.tickets,
        }
    }

    /// Puts a config in force; workers take it up at their next turn.
    pub fn set_config(&self, config: Config) {
        self.tickets.set(&config.ticket_keys);
        for route in config.routes.routes() {
            if route.refused_in_row > 0 {
                let refused = u64::from(route.refused_in_row);
                self.slots.seed_standing(route.source_slot, refused);
            }
        }
        *unpoisoned(&self.config) = Arc::new(config);
        self.poke_all();
    }

    /// Wakes all workers.
    pub fn poke_all(&self) {
        (0..self.pokes.len()).for_each(|worker| self.poke_one(worker));
    }

    /// Wakes one worker.
    pub fn poke_one(&self, worker: usize) {
        if let Err(error) = self.pokes[worker].ring() {
            self.report("error", format!("wake worker {worker}: {error}"));
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
        self.poke_all();
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

    /// Whether another TLS handshake may begin; if not, how many nanoseconds later one may.
    pub fn begin_handshake(&self, config: &Config, now_ns: u64) -> Result<(), u64> {
        match config.handshake_rate {
            Some(rate) => rate.take(&self.handshakes, now_ns),
            None => Ok(()),
        }
    }

    /// Reads the meter of the slots and publishes it, at the beginning of each worker's turn,
    /// before that changes anything. `numbers` are those from now on; what is metered is judged by
    /// those until now. One worker at a time: another that comes meanwhile goes on.
    pub fn pulse(&self, now_ns: u64, numbers: &Numbers, config: &Config) {
        let Ok(mut meter) = self.meter.try_lock() else {
            return;
        };
        let in_force = meter.numbers.replace(*numbers).unwrap_or(*numbers);
        let pulse = self.slots.pulse(now_ns, &in_force, || self.counts());
        let Some(pulse) = pulse else { return };
        let header = self.counters.header();
        header.add_area_ns(pulse.area_ns);
        header.add_saturated_ns(pulse.saturated_ns);
        header.store_metered_ns(pulse.metered_ns);
        header.store_peak(pulse.peak);
        header.store_inflight(pulse.inflight);
        header.store_held(pulse.held);
        header.store_overloaded(pulse.overloaded);
        header.store_overload_since_ns(pulse.overload_since_ns);
        if now_ns >= meter.standing_ns.saturating_add(limits::STANDING_NS) {
            meter.standing_ns = now_ns;
            self.publish_standing(config);
        }
    }

    /// Publishes how many slots are taken and how many wait at the end of a turn, lest that of a
    /// busy one stay in sight while nobody turns.
    pub fn publish_taken(&self) {
        let (inflight, held) = (self.slots.inflight(), self.slots.held());
        let header = self.counters.header();
        if (inflight, held) != (header.inflight(), header.held())
            && let Ok(_one_writer) = self.meter.try_lock()
        {
            header.store_inflight(self.slots.inflight());
            header.store_held(self.slots.held());
        }
    }

    /// Requests that asked for a slot and those that were turned away, by class, of all workers.
    fn counts(&self) -> ([u64; Class::COUNT], [u64; Class::COUNT]) {
        let (mut offered, mut shed) = ([0u64; Class::COUNT], [0u64; Class::COUNT]);
        for worker in 0..self.pokes.len() {
            let worker = self.counters.worker(worker);
            for class in 0..Class::COUNT {
                offered[class] = offered[class].wrapping_add(worker.class_offered(class));
                shed[class] = shed[class].wrapping_add(worker.class_shed(class));
            }
        }
        (offered, shed)
    }

    fn publish_standing(&self, config: &Config) {
        for route in config.routes.routes() {
            let standing = self.slots.standing(route.source_slot);
            let state = self.counters.state(usize::from(route.source_slot));
            let guard_after = u64::from(route.guard_after);
            let guarded = guard_after > 0 && standing.refused_in_row >= guard_after;
            state.store_refused_in_row(standing.refused_in_row);
            state.store_last_success_ns(standing.last_success_ns);
            state.store_guarded(u64::from(guarded));
        }
    }

    /// Counts a connection in, under its address if it has one of its own. `None`: a bound is
    /// reached, and it must be turned away.
    pub fn count_in(&self, config: &Config, ip: Option<[u8; 16]>) -> Option<Counted> {
        let header = self.counters.header();
        if header.add_connections(1) >= config.connections_max {
            header.sub_connections(1);
            return None;
        }
        let counted = Counted { ip: None };
        match ip {
            Some(ip) => self.count_address(config, counted, ip),
            None => Some(counted),
        }
    }

    /// Counts one that was counted in under its address, too. `None`: a bound is reached, and it is
    /// counted out again.
    pub fn count_address(
        &self,
        config: &Config,
        counted: Counted,
        ip: [u8; 16],
    ) -> Option<Counted> {
        if config.connections_per_ip_max == 0 {
            return Some(counted);
        }
        let mut per_ip = unpoisoned(&self.per_ip);
        let count = per_ip.entry(ip).or_insert(0);
        if *count >= config.connections_per_ip_max {
            self.counters.header().sub_connections(1);
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
