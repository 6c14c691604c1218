//! The loop: one thread, one epoll, requests leave when they are due.
//!
//! A due request takes the connection that has been idle longest. When none is idle it waits,
//! and the wait is part of its latency; connections are added while anybody waits.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::time::{ClockId, clock_gettime};

use crate::agenda::{Agenda, Due};
use crate::args::Args;
use crate::conn::{Conn, Fault, Flight, State};
use crate::ledger::Ledger;
use crate::limits::{CONNECT_TIMEOUT, PULSE_EVERY, RECONNECT_WAIT, SWEEP_EVERY, TRY_WAIT};
use crate::record::Record;
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
    /// Per stream and body.
    templates: Vec<Vec<Template>>,
    deliveries: Deliveries,
    agenda: Agenda,
    /// Due, and not yet written.
    waiting: VecDeque<Due>,
    ledger: Ledger,
    record: Record,
    report: Report,
    start: Instant,
    busy: usize,
    /// Connections whose handshake is done.
    ready: usize,
    /// Connections that are ready or may become so.
    alive: usize,
    sweep_at_ns: u64,
    pulse_at_ns: u64,
}

impl<'a> Engine<'a> {
    fn new(args: &'a Args) -> Result<Self, String> {
        // The kernel may round a wait up by its slack of 50 µs; at 20k/s that is a request.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(10_000))
            .map_err(|err| format!("timer slack: {err}"))?;
        let bodies = bodies(args)?;
        let templates = args.streams.iter().map(|stream| {
            let recipe = Recipe {
                target: &args.target,
                path: &stream.path,
                get: args.get,
                secret: args.secret.as_deref(),
                headers: &args.headers,
            };
            let of_each = bodies.iter().map(|body| Template::new(&recipe, body));
            of_each.collect()
        });
        let schedules = || args.streams.iter().map(|stream| &stream.schedule);
        let length = args.duration.as_secs_f64().max(1e-9);
        let ledger = Ledger::open(args.ledger.as_deref())
            .map_err(|err| format!("open the ledger: {err}"))?;
        let record = Record::open(args.record.as_deref())
            .map_err(|err| format!("open the record: {err}"))?;
        raise_file_limit();
        Ok(Self {
            args,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(|err| format!("epoll: {err}"))?,
            conns: (0..args.connections).map(|_| Conn::new()).collect(),
            idle: VecDeque::with_capacity(args.connections),
            templates: templates.collect(),
            deliveries: Deliveries::new(args.seed),
            agenda: Agenda::new(schedules(), args.count),
            waiting: VecDeque::new(),
            ledger,
            record,
            report: Report {
                mode: if args.closed { "closed" } else { "open" },
                url: format!("http://{}{}", args.target.host, args.target.path),
                asked: schedules().map(|s| s.count() as f64).sum::<f64>() / length,
                connections: args.connections,
                body_bytes: bodies.iter().map(Vec::len).max().unwrap_or(0),
                elapsed: Duration::ZERO,
                sent: 0,
                unsent: 0,
                after_end: 0,
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
            ready: 0,
            alive: args.connections,
            sweep_at_ns: 0,
            pulse_at_ns: 0,
        })
    }

    /// Brings the connections up before the clock of the schedule starts.
    fn connect_all(&mut self) -> Result<(), String> {
        let deadline = CONNECT_TIMEOUT.as_nanos() as u64;
        while self.idle.len() < self.alive && self.now_ns() < deadline {
            self.sweep()
                .and_then(|()| self.wait(SWEEP_EVERY.as_nanos() as u64))
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
        self.record
            .start()
            .map_err(|err| format!("write the record: {err}"))
    }

    fn serve(&mut self) -> io::Result<()> {
        let length = self.args.duration.as_nanos() as u64;
        let last = length.saturating_add(self.args.grace.as_nanos() as u64);
        loop {
            let now = self.now_ns();
            self.collect(now, length)?;
            self.issue(now, length)?;
            let done = if self.args.closed {
                now >= length || self.agenda.spent()
            } else {
                self.waiting.is_empty() && self.agenda.next_ns().is_none()
            };
            if (done && self.busy == 0) || now >= last || self.alive == 0 {
                return Ok(());
            }
            self.grow()?;
            if now >= self.sweep_at_ns {
                self.sweep()?;
                self.sweep_at_ns = now + SWEEP_EVERY.as_nanos() as u64;
            }
            if now >= self.pulse_at_ns {
                self.record.pulse(now, self.ready)?;
                self.pulse_at_ns = now + PULSE_EVERY.as_nanos() as u64;
            }
            let due = self.agenda.next_ns().unwrap_or(u64::MAX);
            let until = self.sweep_at_ns.min(last).min(due);
            self.wait(until.saturating_sub(self.now_ns()))?;
        }
    }

    /// Lines up what has become due, and gives up what has waited for too long.
    fn collect(&mut self, now: u64, length: u64) -> io::Result<()> {
        let timeout = self.args.timeout.as_nanos() as u64;
        while !self.args.closed
            && let Some(due) = self.agenda.take(now)
        {
            if due.attempt > 1 && due.at_ns > length {
                self.report.after_end += 1;
                self.note(due, 0, "after-end", None)?;
            } else {
                self.waiting.push_back(due);
            }
        }
        while let Some(&due) = self.waiting.front()
            && now.saturating_sub(due.at_ns) > timeout
        {
            self.waiting.pop_front();
            self.give_up(due, now)?;
        }
        Ok(())
    }

    /// Counts a request that was never written.
    fn give_up(&mut self, due: Due, now: u64) -> io::Result<()> {
        self.report.note_unsent(due.at_ns);
        self.note(due, now.saturating_sub(due.at_ns), "unsent", None)
    }

    fn note(&mut self, due: Due, took: u64, end: &str, wait: Option<u32>) -> io::Result<()> {
        let name = &self.args.streams[due.stream].name;
        self.record.note(name, due, took, end, wait)
    }

    /// Sends what is due while a connection is free.
    fn issue(&mut self, now: u64, length: u64) -> io::Result<()> {
        while let Some(&slot) = self.idle.front() {
            if self.conns[slot].state != State::Idle {
                self.idle.pop_front();
                continue;
            }
            let due = if !self.args.closed {
                match self.waiting.pop_front() {
                    Some(due) => due,
                    None => return Ok(()),
                }
            } else if now < length && !self.agenda.spent() {
                self.agenda.deliver(0, self.now_ns())
            } else {
                return Ok(());
            };
            self.idle.pop_front();
            let templates = &mut self.templates[due.stream];
            let count = templates.len() as u64;
            let id = self.deliveries.id(due.index);
            let request = templates[(due.index % count) as usize].with_delivery(&id);
            self.busy += 1;
            self.report.sent += 1;
            if let Err(fault) = self.conns[slot].send(request, Flight { due, sent_ns: now }) {
                self.lose(slot, fault)?;
            }
        }
        Ok(())
    }

    /// Opens a connection for each request that waits for one and has none on its way.
    fn grow(&mut self) -> io::Result<()> {
        let most = self.args.connections_max;
        while self.waiting.len() > self.alive - self.ready && self.conns.len() < most {
            self.conns.push(Conn::new());
            self.alive += 1;
            self.try_connect(self.conns.len() - 1)?;
        }
        Ok(())
    }

    /// Waits for events, at most so long, and handles them.
    fn wait(&mut self, most_ns: u64) -> io::Result<()> {
        let empty = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: blank(),
        };
        let mut events = [empty; 1024];
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
                        self.ready += 1;
                        self.conns[slot].failures = 0;
                        self.conns[slot].state = State::Idle;
                        self.idle.push_back(slot);
                    }
                    Ok(false) => {}
                    Err(fault) => self.lose(slot, fault)?,
                }
                return Ok(());
            }
            State::Idle => {
                // Nothing is owed here: an end of stream is the peer's right, bytes are not.
                match self.conns[slot].receive() {
                    Ok(None) => {}
                    Ok(Some(_)) => self.lose(slot, Fault::Protocol)?,
                    Err(_) => self.revive(slot)?,
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
            Err(fault) => return self.lose(slot, fault),
        };
        if (200..300).contains(&answer.status) {
            let bytes = self.conns[slot].answer_bytes();
            let event = answer.event_id.clone().map(|at| &bytes[at]);
            self.ledger
                .note(&self.deliveries.id(flight.due.index), event)?;
        }
        self.busy -= 1;
        self.ended(
            flight.due,
            &Outcome::Code(answer.status),
            answer.retry_after,
        )?;
        let consumed = self.conns[slot].consume(&answer);
        if answer.close || ended || consumed.is_err() {
            self.revive(slot)?;
        } else {
            self.idle.push_back(slot);
        }
        Ok(())
    }

    /// Counts how a request ended, and has it sent again if its sender would.
    fn ended(&mut self, due: Due, outcome: &Outcome, wait: Option<u32>) -> io::Result<()> {
        let now = self.now_ns();
        let took = now.saturating_sub(due.at_ns);
        self.report.note(due.at_ns, took, outcome);
        match outcome {
            Outcome::Code(code) => {
                let mut digits = [0; 3];
                self.note(due, took, decimal(*code, &mut digits), wait)?;
            }
            Outcome::Lost(fault) => self.note(due, took, fault.name(), None)?,
        }
        let failed = match outcome {
            Outcome::Code(code) => *code == 429 || *code >= 500,
            Outcome::Lost(_) => true,
        };
        if failed && due.attempt < self.args.tries {
            let wait = wait.map_or(TRY_WAIT, |seconds| Duration::from_secs(seconds.into()));
            self.agenda.repeat(due, now + wait.as_nanos() as u64);
        }
        Ok(())
    }

    /// Gives a connection up by fault; its request, if one was out, is lost.
    fn lose(&mut self, slot: usize, fault: Fault) -> io::Result<()> {
        self.report.connect_failures += u64::from(fault == Fault::Connect);
        let state = self.conns[slot].state;
        if self.args.reconnect {
            let (first, most) = RECONNECT_WAIT;
            let doublings = self.conns[slot].failures.min(16);
            let wait = most.min(first * 2u32.pow(doublings));
            self.conns[slot].failures += 1;
            let retry_ns = self.now_ns() + wait.as_nanos() as u64;
            self.close(slot, retry_ns);
        } else {
            self.close(slot, u64::MAX);
            self.alive -= 1;
        }
        if let State::Busy(flight) = state {
            self.busy -= 1;
            self.ended(flight.due, &Outcome::Lost(fault), None)?;
        }
        Ok(())
    }

    fn close(&mut self, slot: usize, retry_ns: u64) {
        if matches!(self.conns[slot].state, State::Idle | State::Busy(_)) {
            self.ready -= 1;
        }
        self.conns[slot].close(retry_ns);
    }

    /// Replaces a connection that the peer closed in good order.
    fn revive(&mut self, slot: usize) -> io::Result<()> {
        self.close(slot, 0);
        self.try_connect(slot)
    }

    fn try_connect(&mut self, slot: usize) -> io::Result<()> {
        if self.conns[slot].generation > 0 {
            self.report.reconnects += 1;
        }
        let now = self.now_ns();
        let opened = self.conns[slot]
            .connect(self.args.target.address, now)
            .is_ok()
            && self.register(slot).is_ok();
        if opened {
            Ok(())
        } else {
            self.lose(slot, Fault::Connect)
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
    fn sweep(&mut self) -> io::Result<()> {
        let now = self.now_ns();
        let timeout = self.args.timeout.as_nanos() as u64;
        for slot in 0..self.conns.len() {
            match self.conns[slot].state {
                State::Busy(flight) if now.saturating_sub(flight.sent_ns) > timeout => {
                    self.lose(slot, Fault::Timeout)?;
                }
                State::Connecting { since_ns } if now.saturating_sub(since_ns) > timeout => {
                    self.lose(slot, Fault::Connect)?;
                }
                State::Down { retry_ns } if retry_ns <= now => self.try_connect(slot)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Report, String> {
        let end = self.start.elapsed();
        self.drain()
            .map_err(|err| format!("write the record: {err}"))?;
        self.ledger
            .close()
            .map_err(|err| format!("write the ledger: {err}"))?;
        self.record
            .close()
            .map_err(|err| format!("write the record: {err}"))?;
        // An open loop that was done early still took its whole schedule.
        let whole = !self.args.closed && !self.agenda.spent();
        self.report.elapsed = if whole {
            end.max(self.args.duration)
        } else {
            end
        };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        self.report.cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        Ok(self.report)
    }

    /// Counts what is still owed when the run is over.
    fn drain(&mut self) -> io::Result<()> {
        let now = self.now_ns();
        for slot in 0..self.conns.len() {
            if let State::Busy(_) = self.conns[slot].state {
                self.lose(slot, Fault::Timeout)?;
            }
        }
        while let Some(due) = self.waiting.pop_front() {
            self.give_up(due, now)?;
        }
        while let Some(due) = self.agenda.take(u64::MAX) {
            if due.attempt > 1 {
                self.report.after_end += 1;
                self.note(due, 0, "after-end", None)?;
            } else {
                self.give_up(due, now)?;
            }
        }
        Ok(())
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

/// A status code as text, without an allocation.
fn decimal(code: u16, digits: &mut [u8; 3]) -> &str {
    *digits = [code / 100, code / 10 % 10, code % 10].map(|digit| b'0' + (digit % 10) as u8);
    std::str::from_utf8(digits).unwrap_or("000")
}

/// Lifts the soft bound on open files to the hard one: each connection is a file.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused, the run still has the connections that the soft bound allows.
    let _ = setrlimit(Resource::Nofile, limit);
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
