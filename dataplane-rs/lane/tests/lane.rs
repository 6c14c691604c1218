//! A lane against a control plane that is played by hand, over a second mapping of the same file.

use sluice_lane::{Error, FrameParts, HeaderSpan, Lane, LaneOptions};
use std::fs::File;
use std::os::unix::fs::FileExt;

const CONSUME: u64 = 256;
const REPLY_COMMIT: u64 = 512;
const CP_TICKET: u64 = 896;
const DP_TICKET: u64 = 768;
const COMMIT: u64 = 128;
const PAGE: u64 = 4096;

struct Dir(std::path::PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lane(name: &str, request: u64, reply: u64) -> (Lane, File, Dir) {
    let dir = std::env::temp_dir().join(format!("sluice-lane-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let dir = Dir(dir);
    let lane = Lane::create(&LaneOptions {
        dir: dir.0.clone(),
        journal_id: [1; 16],
        boot_id: [2; 16],
        lane_id: [3; 16],
        generation: 1,
        worker: 0,
        request_capacity: request,
        reply_capacity: reply,
        lock_memory: false,
    })
    .unwrap();
    let peer = File::options()
        .read(true)
        .write(true)
        .open(lane.path())
        .unwrap();
    (lane, peer, dir)
}

fn word(peer: &File, at: u64) -> u64 {
    let mut b = [0; 8];
    peer.read_exact_at(&mut b, at).unwrap();
    u64::from_le_bytes(b)
}

fn store(peer: &File, at: u64, value: u64) {
    peer.write_all_at(&value.to_le_bytes(), at).unwrap();
}

fn parts<'a>(body: &'a [&'a [u8]]) -> FrameParts<'a> {
    FrameParts {
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
        body,
        peer: Some("192.0.2.1:9".parse().unwrap()),
        flags: 0,
        source_id: 7,
        config_version: 1,
        seq: 1,
        received_ns: 1,
        admitted_ns: 2,
        token: 3,
        until_ns: 4,
    }
}

#[test]
fn frames_wrap_without_a_gap_and_full_is_not_an_error() {
    let (mut lane, peer, _dir) = lane("wrap", 4096, 4096);
    let body = vec![7u8; 700];
    let mut consumed = 0;
    for lap in 0..40u64 {
        let mut fill = 0;
        while lane
            .publish(&parts(&[&body[..300], &body[300..]]))
            .unwrap()
            .is_some()
        {
            fill += 1;
        }
        assert!(fill >= 1, "lap {lap}: nothing fits an empty ring");
        assert_eq!(word(&peer, COMMIT), lane.position());
        let size = parts(&[&body]).size() as u64;
        assert_eq!((lane.position() - consumed) % size, 0);
        let mut length = [0; 4];
        peer.read_exact_at(&mut length, PAGE + (consumed & 4095))
            .unwrap();
        assert_eq!(u64::from(u32::from_le_bytes(length)), size);
        consumed += size;
        store(&peer, CONSUME, consumed);
    }
}

#[test]
fn a_wrong_foreign_word_is_a_typed_error() {
    let (mut lane, peer, _dir) = lane("wrong", 4096, 4096);
    store(&peer, CONSUME, 64);
    assert!(matches!(
        lane.publish(&parts(&[b"x"])),
        Err(Error::Corrupt {
            word: "consume",
            value: 64
        })
    ));
    for bad in [4096 + 64, 7, u64::MAX] {
        store(&peer, REPLY_COMMIT, bad);
        assert!(matches!(
            lane.next_reply(),
            Err(Error::Corrupt { word: "reply_commit", value }) if value == bad
        ));
    }
    store(&peer, REPLY_COMMIT, 64);
    for length in [0u32, 63, 128, u32::MAX] {
        peer.write_all_at(&length.to_le_bytes(), PAGE + 4096)
            .unwrap();
        assert!(matches!(
            lane.next_reply(),
            Err(Error::Corrupt {
                word: "reply length",
                ..
            })
        ));
    }
    peer.write_all_at(&64u32.to_le_bytes(), PAGE + 4096)
        .unwrap();
    peer.write_all_at(&u32::MAX.to_le_bytes(), PAGE + 4096 + 28)
        .unwrap();
    assert!(lane.next_reply().is_err(), "a body longer than its entry");
}

#[test]
fn the_peer_is_rung_once_a_sleep_and_never_when_it_is_awake() {
    let (mut lane, peer, _dir) = lane("ring", 4096, 4096);
    lane.publish(&parts(&[b"x"])).unwrap().unwrap();
    assert!(!lane.end_turn(true), "awake");
    store(&peer, CP_TICKET, 4 | 1);
    assert!(lane.end_turn(true));
    assert!(!lane.end_turn(true), "already rung");
    assert!(!lane.end_turn(false));
    store(&peer, CP_TICKET, 8 | 1);
    assert!(lane.end_turn(true), "a new sleep has a new ticket");
}

#[test]
fn freed_reply_room_rings_only_who_wants_it() {
    let (mut lane, peer, _dir) = lane("room", 4096, 4096);
    let reply = |lane: &mut Lane, n: u64| {
        peer.write_all_at(&64u32.to_le_bytes(), PAGE + 4096 + 64 * (n - 1))
            .unwrap();
        store(&peer, REPLY_COMMIT, 64 * n);
        let length = lane.next_reply().unwrap().unwrap().entry.length;
        lane.reply_done(length);
    };
    store(&peer, CP_TICKET, 4 | 1);
    reply(&mut lane, 1);
    assert!(!lane.end_turn(false), "asleep without wanting room");
    store(&peer, CP_TICKET, 8 | 3);
    reply(&mut lane, 2);
    assert!(lane.end_turn(false));
}

#[test]
fn no_sleep_with_work_or_room_there() {
    let (mut lane, peer, _dir) = lane("sleep", 4096, 4096);
    assert!(lane.sleep(false));
    assert_eq!(word(&peer, DP_TICKET) & 3, 1);
    lane.wake();
    assert_eq!(word(&peer, DP_TICKET) & 1, 0);
    assert!(lane.sleep(true));
    assert_eq!(word(&peer, DP_TICKET) & 3, 3);
    lane.wake();
    store(&peer, REPLY_COMMIT, 64);
    assert!(!lane.sleep(false), "a reply lies there");
    assert_eq!(word(&peer, DP_TICKET) & 1, 0);
}

#[test]
fn room_that_came_after_a_refusal_forbids_sleep_even_when_it_was_seen_since() {
    let (mut lane, peer, _dir) = lane("overtaken", 4096, 4096);
    let large = [9u8; 3000];
    lane.publish(&parts(&[&large])).unwrap().unwrap();
    assert_eq!(lane.publish(&parts(&[&large])).unwrap(), None);
    store(&peer, CONSUME, lane.position());
    assert_eq!(
        lane.used().unwrap(),
        0,
        "seen, but not by the one that waits"
    );
    assert!(!lane.sleep(true), "it fits now and nobody will ring again");
    assert_eq!(
        lane.publish(&parts(&[&large])).unwrap(),
        Some(word(&peer, CONSUME))
    );
    assert_eq!(lane.publish(&parts(&[&large])).unwrap(), None);
    assert!(lane.sleep(true), "nothing moved since the refusal");
}

#[test]
fn one_producer_per_lane() {
    let (lane, _peer, dir) = lane("once", 4096, 4096);
    let again = Lane::create(&LaneOptions {
        dir: dir.0.clone(),
        journal_id: [1; 16],
        boot_id: [2; 16],
        lane_id: [3; 16],
        generation: 2,
        worker: 0,
        request_capacity: 4096,
        reply_capacity: 4096,
        lock_memory: false,
    });
    assert!(matches!(
        again,
        Err(Error::Kernel {
            doing: "create a lane file",
            ..
        })
    ));
    drop(lane);
}
