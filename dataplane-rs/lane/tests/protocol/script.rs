//! Runs one script: a command a line, `----` and its output below.

use crate::consumer::{self, Consumer, Peer};
use sluice_lane::{Error, FrameParts, HeaderSpan, Lane, LaneOptions};
use std::collections::HashSet;
use std::path::PathBuf;

/// The script with the output that its commands have now.
pub fn run(name: &str, text: &str) -> String {
    let mut stage = Stage::new(name);
    let mut out = String::new();
    let mut lines = text.trim_end_matches('\n').lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let printed = stage.play(line);
        out.push_str(&format!(
            "{line}\n----\n{}\n",
            printed.trim_end_matches('\n')
        ));
        if lines.peek() == Some(&"----") {
            while lines.next_if(|line| !line.is_empty()).is_some() {}
        } else if lines.peek().is_some_and(|line| !line.is_empty()) {
            out.push('\n');
        }
    }
    out
}

/// Where a script plays: one lane, a producer and a consumer.
struct Stage {
    dir: PathBuf,
    lane: Option<Lane>,
    peer: Option<Peer>,
    consumer: Option<Consumer>,
    published: bool,
    seq: u32,
    /// Requests that wait for an answer.
    open: HashSet<u32>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Stage {
    fn new(name: &str) -> Self {
        let id = std::process::id();
        let dir = std::env::temp_dir().join(format!("sluice-protocol-{id}-{name}"));
        std::fs::create_dir_all(&dir).unwrap();
        Stage {
            dir,
            lane: None,
            peer: None,
            consumer: None,
            published: false,
            seq: 0,
            open: HashSet::new(),
        }
    }

    fn lane(&mut self) -> &mut Lane {
        self.lane
            .as_mut()
            .expect("the script has a living producer")
    }

    fn peer(&self) -> &Peer {
        self.peer.as_ref().expect("the script begins with a lane")
    }

    fn consumer(&mut self) -> &mut Consumer {
        self.consumer
            .as_mut()
            .expect("the script has a living consumer")
    }

    fn play(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
        let room = words.last() == Some(&"room");
        match (words[0], words.get(1).copied().unwrap_or_default()) {
            ("lane", _) => self.make(numbers[0], numbers[1]),
            ("publish", _) => numbers
                .iter()
                .map(|&size| self.publish(size as usize))
                .collect(),
            ("torn", _) => {
                let commit = self.lane().position();
                self.peer().put(commit, &vec![0xee; numbers[0] as usize]);
                "ok".into()
            }
            ("drain", _) => self.drain(),
            ("budget", _) => {
                self.open.remove(&(numbers[0] as u32));
                "nobody waits any more".into()
            }
            ("close", _) => {
                self.lane().close();
                "ok".into()
            }
            ("crash", "producer") => {
                self.lane = None;
                "its lock is free".into()
            }
            ("turn", "producer") => {
                let published = std::mem::take(&mut self.published);
                consumer::rings(self.lane().end_turn(published))
            }
            ("sleep", "producer") => {
                let slept = self.lane().sleep(room);
                consumer::asleep(slept, self.peer().word("dp_ticket"))
            }
            ("wake", "producer") => {
                self.lane().wake();
                format!("ticket {}", self.peer().word("dp_ticket"))
            }
            ("retired?", _) => consumer::yes(match &self.lane {
                Some(lane) => lane.retired(),
                None => self.peer().word("retired") != 0,
            }),
            ("attach", "consumer") => match Consumer::attach(self.peer().again()) {
                Ok((consumer, found)) => {
                    self.consumer = Some(consumer);
                    found
                }
                Err(wrong) => wrong,
            },
            ("crash", "consumer") => {
                self.consumer = None;
                "its words stay".into()
            }
            ("corrupt", word) => {
                self.peer().store(word, numbers[0]);
                "ok".into()
            }
            ("flip", _) => {
                let byte = self.peer().ring(numbers[0], 1)[0];
                self.peer().put(numbers[0], &[byte ^ 1]);
                "ok".into()
            }
            ("words", _) => self.peer().words(),
            _ => self.consumer().play(&words, &numbers, room),
        }
    }

    fn make(&mut self, request: u64, reply: u64) -> String {
        let lane = Lane::create(&LaneOptions {
            dir: self.dir.clone(),
            journal_id: consumer::id_of(consumer::JOURNAL),
            boot_id: consumer::id_of(consumer::BOOT),
            lane_id: [3; 16],
            generation: 1,
            worker: 0,
            request_capacity: request,
            reply_capacity: reply,
            lock_memory: false,
        })
        .unwrap();
        self.peer = Some(Peer::open(lane.path(), request, reply));
        self.lane = Some(lane);
        "ok".into()
    }

    fn publish(&mut self, size: usize) -> String {
        let seq = self.seq + 1;
        let body = consumer::body_of(seq, size);
        let pieces = [&body[..size / 3], &body[size / 3..]];
        let parts = FrameParts {
            method: b"POST",
            target: b"/a",
            client: b"",
            headers: b"Host: x\r\n",
            index: &[HeaderSpan {
                name: 0,
                name_length: 4,
                value: 6,
                value_length: 1,
            }],
            body: &pieces,
            peer: Some("192.0.2.1:9".parse().unwrap()),
            flags: 0,
            source_id: 7,
            config_version: 1,
            seq,
            received_ns: 1,
            admitted_ns: 2,
            token: u64::from(seq),
            until_ns: 0,
        };
        let length = parts.size();
        match self.lane().publish(&parts) {
            Ok(Some(position)) => {
                self.seq = seq;
                self.published = true;
                self.open.insert(seq);
                format!("frame {seq} at {position}: {length} bytes\n")
            }
            Ok(None) => {
                let (used, capacity) = (self.lane().used().unwrap(), self.lane().capacity());
                format!("no room for {length} bytes: {used} of {capacity} used\n")
            }
            Err(error) => wrong(&error),
        }
    }

    fn drain(&mut self) -> String {
        let mut out = String::new();
        loop {
            let (entry, body) = match self.lane().next_reply() {
                Ok(Some(reply)) => (reply.entry, reply.body.to_vec()),
                Ok(None) if out.is_empty() => return "nothing".into(),
                Ok(None) => return out,
                Err(error) => return out + &wrong(&error),
            };
            assert_eq!(
                body,
                consumer::body_of(entry.seq, body.len()),
                "another body"
            );
            self.lane().reply_done(entry.length);
            let waits = self.open.remove(&entry.seq) && entry.token == u64::from(entry.seq);
            let rest = match (waits, body.len()) {
                (false, _) => ", nobody waits".to_owned(),
                (true, 0) => String::new(),
                (true, length) => format!(", body of {length}"),
            };
            out += &format!("reply to {}: {}{rest}\n", entry.seq, entry.code);
        }
    }
}

/// How both languages say what an error is about.
fn wrong(error: &Error) -> String {
    match error {
        Error::Corrupt { word, value } => format!("wrong: {word} = {value:#x}\n"),
        other => panic!("{other}"),
    }
}
