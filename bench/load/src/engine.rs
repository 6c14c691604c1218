//! The loop: one thread, one epoll, requests leave when they are due.
//!
//! A due request takes the connection that has been idle longest. When none is idle it waits,
//! and the wait is part of its latency.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::iter::Peekable;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::time::{ClockId, clock_gettime};

use crate::args::Args;
use crate::conn::{Conn, Fault, Flight, State};
use crate::ledger::Ledger;
use crate::limits::{CONNECT_TIMEOUT, RECONNECT_WAIT, SWEEP_EVERY};
use crate::report::{Outcome, Report, latency_histogram};
use crate::request::{Deliveries, Recipe, Template, filler};

/// Runs the load and reports it. A fault names who is to blame for a run that did not happen.
pub fn run(args: &Args) -> Result<Report, String> {
    let mut engine = Engine::new(args)?;
    engine.connect_all()?;
    engine
        .serve()
        .map_err(|err| format!("the kernel refused: {err}"))?;
    engine.finish()
}

struct Engine<'a> {
    args: &'a Args,
    epoll: OwnedFd,
    conns: Vec<Conn>,
    idle: VecDeque<usize>,
    templates: Vec<Template>,
    deliveries: Deliveries,
    ticks: Peekable<Box<dyn Iterator<Item = u64>>>,
    ledger: Ledger,
    report: Report,
    start: Instant,
    busy: usize,
    alive: usize,
    next_index: u64,
    sweep_at_ns: u64,
}

impl<'a> Engine<'a> {
    fn new(args: &'a Args) -> Result<Self, String> {
        // The kernel may round a wait up by its slack of 50 µs; at 20k/s that is a request.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(10_000))
            .map_err(|err| format!("timer slack: {err}"))?;
        let bodies = bodies(args)?;
        let recipe = Recipe {
            target: &args.target,
            secret: args.secret.as_deref(),
            headers: &args.headers,
        };
        let ticks: Box<dyn Iterator<Item = u64>> = match &args.schedule {
            Some(schedule) => Box::new(schedule.ticks().take(args.count as usize)),
            None => Box::new(std::iter::empty()),
        };
        let length = args.duration.as_secs_f64().max(1e-9);
        let ledger = Ledger::open(args.ledger.as_deref())
            .map_err(|err| format!("open the ledger: {err}"))?;
        Ok(Self {
            args,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(|err| format!("epoll: {err}"))?,
            conns: (0..args.connections).map(|_| Conn::new()).collect(),
            idle: VecDeque::with_capacity(args.connections),
            templates: bodies
                .iter()
                .map(|body| Template::new(&recipe, body))
                .collect(),
            deliveries: Deliveries::new(args.seed),
            ticks: ticks.peekable(),
            ledger,
            report: Report {
                mode: if args.schedule.is_some() {
                    "open"
                } else {
                    "closed"
                },
                url: format!("http://{}{}", args.target.host, args.target.path),
                asked: args
                    .schedule
                    .as_ref()
                    .map_or(0.0, |s| s.count() as f64 / length),
                connections: args.connections,
                body_bytes: bodies.iter().map(Vec::len).max().unwrap_or(0),
                elapsed: Duration::ZERO,
                sent: 0,
                unsent: 0,
                codes: Default::default(),
                errors: no_errors(),
                connect_failures: 0,
                reconnects: 0,
                latency: latency_histogram(),
                cpu_s: 0.0,
                seconds: args.timeline.then(Vec::new),
                good_within: args.good_within,
            },
            start: Instant::now(),
            busy: 0,
            alive: args.connections,
            next_index: 0,
            sweep_at_ns: 0,
        })
    }

    /// Brings the connections up before the clock of the schedule starts.
    fn connect_all(&mut self) -> Result<(), String> {
        let deadline = CONNECT_TIMEOUT.as_nanos() as u64;
        while self.idle.len() < self.alive && self.now_ns() < deadline {
            self.sweep();
            self.wait(SWEEP_EVERY.as_nanos() as u64)
                .map_err(|err| format!("epoll: {err}"))?;
        }
        if self.idle.len() < self.args.connections && !self.args.reconnect {
            return Err(format!(
                "{} took {} of {} connections",
                self.args.target.address,
                self.idle.len(),
                self.args.connections
            ));
        }
        self.report.connect_failures = 0;
        self.report.reconnects = 0;
        self.start = Instant::now();
        self.sweep_at_ns = 0;
        // Times below are of the new clock.
        for conn in &mut self.conns {
            match &mut conn.state {
                State::Connecting { since_ns } => *since_ns = 0,
                State::Down { retry_ns } if *retry_ns != u64::MAX => *retry_ns = 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn serve(&mut self) -> io::Result<()> {
        let length = self.args.duration.as_nanos() as u64;
        let last = length.saturating_add(self.args.grace.as_nanos() as u64);
        loop {
            let now = self.now_ns();
            self.issue(now, length);
            let done = match &self.args.schedule {
                Some(_) => self.ticks.peek().is_none(),
                None => now >= length || self.report.sent >= self.args.count,
            };
            if (done && self.busy == 0) || now >= last || self.alive == 0 {
                return Ok(());
            }
            if now >= self.sweep_at_ns {
                self.sweep();
                self.sweep_at_ns = now + SWEEP_EVERY.as_nanos() as u64;
            }
            let mut until = self.sweep_at_ns.min(last);
            if let (Some(&due), false) = (self.ticks.peek(), self.idle.is_empty()) {
                until = until.min(due);
            }
            self.wait(until.saturating_sub(self.now_ns()))?;
        }
    }

    /// Sends what is due while a connection is free.
    fn issue(&mut self, now: u64, length: u64) {
        while let Some(&slot) = self.idle.front() {
            if self.conns[slot].state != State::Idle {
                self.idle.pop_front();
                continue;
            }
            let due_ns = if self.args.schedule.is_some() {
                match self.ticks.next_if(|&due| due <= now) {
                    Some(due) => due,
                    None => return,
                }
            } else if now < length && self.report.sent < self.args.count {
                self.now_ns()
            } else {
                return;
            };
            self.idle.pop_front();
            let index = self.next_index;
            self.next_index += 1;
            let count = self.templates.len() as u64;
            let id = self.deliveries.id(index);
            let request = self.templates[(index % count) as usize].with_delivery(&id);
            let flight = Flight {
                index,
                due_ns,
                sent_ns: now,
            };
            self.busy += 1;
            self.report.sent += 1;
            if let Err(fault) = self.conns[slot].send(request, flight) {
                self.lose(slot, fault);
            }
        }
    }

    /// Waits for events, at most so long, and handles them.
    fn wait(&mut self, most_ns: u64) -> io::Result<()> {
        let empty = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: blank(),
        };
        let mut events = [empty; 128];
        let most = Timespec {
            tv_sec: (most_ns / 1_000_000_000) as i64,
            tv_nsec: (most_ns % 1_000_000_000) as i64,
        };
        let count = match epoll::wait(&self.epoll, &mut events, Some(&most)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        for event in &events[..count] {
            let word = event.data.u64();
            let (slot, generation) = ((word & 0xffff_ffff) as usize, (word >> 32) as u32);
            if self.conns[slot].generation == generation {
                let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP;
                // The event is packed, so its flags are copied before they are looked at.
                let flags = event.flags;
                self.handle(slot, flags.intersects(ended))?;
            }
        }
        Ok(())
    }

    /// `ended`: the peer will send no more, which an edge says only once.
    fn handle(&mut self, slot: usize, ended: bool) -> io::Result<()> {
        let flight = match self.conns[slot].state {
            State::Down { .. } => return Ok(()),
            State::Connecting { .. } => {
                match self.conns[slot].connected() {
                    Ok(true) => {
                        self.conns[slot].failures = 0;
                        self.conns[slot].state = State::Idle;
                        self.idle.push_back(slot);
                    }
                    Ok(false) => {}
                    Err(fault) => self.lose(slot, fault),
                }
                return Ok(());
            }
            State::Idle => {
                // Nothing is owed here: an end of stream is the peer's right, bytes are not.
                match self.conns[slot].receive() {
                    Ok(None) => {}
                    Ok(Some(_)) => self.lose(slot, Fault::Protocol),
                    Err(_) => self.revive(slot),
                }
                return Ok(());
            }
            State::Busy(flight) => flight,
        };
        let received = self.conns[slot]
            .flush()
            .and_then(|()| self.conns[slot].receive());
        let answer = match received {
            Ok(None) => return Ok(()),
            Ok(Some(answer)) => answer,
            Err(fault) => {
                self.lose(slot, fault);
                return Ok(());
            }
        };
        if (200..300).contains(&answer.status) {
            let bytes = self.conns[slot].answer_bytes();
            let event = answer.event_id.clone().map(|at| &bytes[at]);
            self.ledger.note(&self.deliveries.id(flight.index), event)?;
        }
        let took = self.now_ns().saturating_sub(flight.due_ns);
        self.report
            .note(flight.due_ns, took, &Outcome::Code(answer.status));
        self.busy -= 1;
        let consumed = self.conns[slot].consume(&answer);
        if answer.close || ended || consumed.is_err() {
            self.revive(slot);
        } else {
            self.idle.push_back(slot);
        }
        Ok(())
    }

    /// Gives a connection up by fault; its request, if one was out, is lost.
    fn lose(&mut self, slot: usize, fault: Fault) {
        if let State::Busy(flight) = self.conns[slot].state {
            let took = self.now_ns().saturating_sub(flight.due_ns);
            self.report.note(flight.due_ns, took, &Outcome::Lost(fault));
            self.busy -= 1;
        }
        self.report.connect_failures += u64::from(fault == Fault::Connect);
        if !self.args.reconnect {
            self.conns[slot].close(u64::MAX);
            self.alive -= 1;
            return;
        }
        let (first, most) = RECONNECT_WAIT;
        let doublings = self.conns[slot].failures.min(16);
        let wait = most.min(first * 2u32.pow(doublings));
        self.conns[slot].failures += 1;
        let retry_ns = self.now_ns() + wait.as_nanos() as u64;
        self.conns[slot].close(retry_ns);
    }

    /// Replaces a connection that the peer closed in good order.
    fn revive(&mut self, slot: usize) {
        self.conns[slot].close(0);
        self.try_connect(slot);
    }

    fn try_connect(&mut self, slot: usize) {
        if self.conns[slot].generation > 0 {
            self.report.reconnects += 1;
        }
        let now = self.now_ns();
        let opened = self.conns[slot]
            .connect(self.args.target.address, now)
            .is_ok()
            && self.register(slot).is_ok();
        if !opened {
            self.lose(slot, Fault::Connect);
        }
    }

    fn register(&self, slot: usize) -> io::Result<()> {
        let conn = &self.conns[slot];
        let word = slot as u64 | u64::from(conn.generation) << 32;
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        epoll::add(
            &self.epoll,
            conn.socket()?,
            epoll::EventData::new_u64(word),
            flags,
        )?;
        Ok(())
    }

    /// Looks for answers that take too long and for connections that are due again.
    fn sweep(&mut self) {
        let now = self.now_ns();
        let timeout = self.args.timeout.as_nanos() as u64;
        for slot in 0..self.conns.len() {
            match self.conns[slot].state {
                State::Busy(flight) if now.saturating_sub(flight.sent_ns) > timeout => {
                    self.lose(slot, Fault::Timeout);
                }
                State::Connecting { since_ns } if now.saturating_sub(since_ns) > timeout => {
                    self.lose(slot, Fault::Connect);
                }
                State::Down { retry_ns } if retry_ns <= now => self.try_connect(slot),
                _ => {}
            }
        }
    }

    fn finish(mut self) -> Result<Report, String> {
        let end = self.start.elapsed();
        for slot in 0..self.conns.len() {
            if let State::Busy(_) = self.conns[slot].state {
                self.lose(slot, Fault::Timeout);
            }
        }
        for due in self.ticks.by_ref() {
            self.report.note_unsent(due);
        }
        self.ledger
            .close()
            .map_err(|err| format!("write the ledger: {err}"))?;
        // An open loop that was done early still took its whole schedule.
        let whole = self.args.schedule.is_some() && self.report.sent < self.args.count;
        self.report.elapsed = if whole {
            end.max(self.args.duration)
        } else {
            end
        };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        self.report.cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        Ok(self.report)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

fn no_errors() -> BTreeMap<&'static str, u64> {
    Fault::OF_REQUESTS
        .iter()
        .map(|fault| (fault.name(), 0))
        .collect()
}

fn blank() -> epoll::EventData {
    epoll::EventData::new_u64(0)
}

fn bodies(args: &Args) -> Result<Vec<Vec<u8>>, String> {
    if args.body_files.is_empty() {
        return Ok((0..args.bodies as u64)
            .map(|salt| filler(args.body_bytes, salt))
            .collect());
    }
    args.body_files
        .iter()
        .map(|path| std::fs::read(path).map_err(|err| format!("read {}: {err}", path.display())))
        .collect()
}
