//! A data plane reduced to its lane, for the stress test of the control plane's side: it publishes
//! numbered frames of random sizes, drains the replies and sleeps by the protocol.
//!
//! `producer <dir> <lane> <seed> <frames> <request ring> <reply ring>`, with the eventfd that it
//! rings as descriptor 3 and the one that wakes it as descriptor 4. It prints `ready` when the lane
//! is made and `done` with its counts when every frame is answered.

use sluice_lane::{Error, FrameParts, HeaderSpan, Lane, LaneOptions};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

/// Far beyond any pause of a loaded machine: whoever sleeps so long over work was not woken.
const BELT_MS: i32 = 60_000;
/// The journal and boot id that the test's consumer asks for.
const JOURNAL: [u8; 16] = first(1);
const BOOT: [u8; 16] = first(2);

const fn first(byte: u8) -> [u8; 16] {
    let mut id = [0; 16];
    id[0] = byte;
    id
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize| -> u64 { arguments[n].parse().expect("a number") };
    let lane_id = first(number(1) as u8);
    let lane = Lane::create(&LaneOptions {
        dir: arguments[0].clone().into(),
        journal_id: JOURNAL,
        boot_id: BOOT,
        lane_id,
        generation: number(1) as u32,
        worker: 0,
        request_capacity: number(4),
        reply_capacity: number(5),
        lock_memory: false,
    })?;
    println!("ready");
    // SAFETY: the test hands these two down and nothing else here knows them.
    let bells = unsafe { (File::from_raw_fd(3), File::from_raw_fd(4)) };
    let mut producer = Producer {
        lane,
        request_bell: bells.0,
        reply_bell: bells.1,
        random: number(2) | 1,
        frames: number(3) as u32,
        seq: 0,
        next: None,
        open: VecDeque::new(),
        late: 0,
        belt: 0,
    };
    producer.run()
}

struct Producer {
    lane: Lane,
    request_bell: File,
    reply_bell: File,
    random: u64,
    frames: u32,
    seq: u32,
    /// The size of a body that is still to be published.
    next: Option<usize>,
    /// Requests that wait for an answer.
    open: VecDeque<u32>,
    late: u64,
    belt: u64,
}

impl Producer {
    fn run(&mut self) -> Result<(), Error> {
        let mut woken_late = false;
        loop {
            let drained = self.drain()?;
            let (published, full) = self.publish()?;
            if woken_late && (drained || published) {
                self.belt += 1;
            }
            woken_late = false;
            self.dawdle();
            if self.lane.end_turn(published) {
                self.dawdle();
                self.request_bell
                    .write_all(&1u64.to_ne_bytes())
                    .expect("an eventfd");
            }
            if self.is_done() {
                break;
            }
            // An answer is due, so a sleep ends only by the bell, or never.
            let due = !self.open.is_empty();
            let idle = self.seq == self.frames || full || (due && self.roll(3) == 0);
            self.dawdle();
            if idle && self.lane.sleep(full) {
                woken_late = !self.wait();
                self.lane.wake();
            }
        }
        self.lane.close();
        println!("done {} {} {}", self.seq, self.late, self.belt);
        Ok(())
    }

    /// Stretches the moment between two steps, so that a kill or the other process falls into it.
    fn dawdle(&mut self) {
        let most = match self.roll(32) {
            0 => 100_000,
            1..=8 => 5_000,
            _ => return,
        };
        for _ in 0..self.roll(most) {
            std::hint::spin_loop();
        }
    }

    fn is_done(&self) -> bool {
        self.seq == self.frames && self.open.is_empty()
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % sides
    }

    /// Publishes a few frames; tells whether there were any, and whether the next one has no room.
    fn publish(&mut self) -> Result<(bool, bool), Error> {
        let mut published = false;
        for _ in 0..self.roll(12) {
            if self.seq == self.frames {
                break;
            }
            let size = match self.next.take() {
                Some(size) => size,
                None if self.roll(8) == 0 => self.roll(self.lane.capacity() / 4) as usize,
                None => self.roll(600) as usize,
            };
            let seq = self.seq + 1;
            let body: Vec<u8> = (0..size)
                .map(|n| ((seq as usize + n) % 251) as u8)
                .collect();
            let (one, two) = body.split_at(size / 3);
            let parts = FrameParts {
                method: b"POST",
                target: b"/stress",
                client: b"",
                headers: b"Host: x\r\n",
                index: &[HeaderSpan {
                    name: 0,
                    name_length: 4,
                    value: 6,
                    value_length: 1,
                }],
                body: &[one, two],
                peer: None,
                flags: 0,
                source_id: 1,
                config_version: 1,
                seq,
                received_ns: 0,
                admitted_ns: 0,
                token: u64::from(seq),
                until_ns: 0,
            };
            if self.lane.publish(&parts)?.is_none() {
                self.next = Some(size);
                return Ok((published, true));
            }
            self.seq = seq;
            self.open.push_back(seq);
            published = true;
        }
        Ok((published, false))
    }

    /// Takes every reply; each is for the oldest open request, or one that was answered before.
    fn drain(&mut self) -> Result<bool, Error> {
        let mut drained = false;
        while let Some(reply) = self.lane.next_reply()? {
            let entry = reply.entry;
            let mut expected = (0..).map(|n| ((entry.seq as usize + n) % 251) as u8);
            let whole = reply.body.iter().all(|&byte| expected.next() == Some(byte));
            assert!(whole, "the reply to {} has another body", entry.seq);
            if self.open.front() == Some(&entry.seq) {
                self.open.pop_front();
            } else {
                let open = self.open.contains(&entry.seq);
                assert!(!open, "the reply to {} came before an older one", entry.seq);
                self.late += 1;
            }
            self.lane.reply_done(entry.length);
            drained = true;
        }
        Ok(drained)
    }

    /// Blocks until the bell is rung; false: it was not within the longest time.
    fn wait(&mut self) -> bool {
        let fd = self.reply_bell.as_raw_fd();
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd on the stack.
        let ready = unsafe { libc::poll(&mut poll, 1, BELT_MS) };
        let mut count = [0; 8];
        ready > 0 && self.reply_bell.read(&mut count).is_ok()
    }
}
