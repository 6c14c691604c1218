//! A reply ring that the other process fills with anything: each reply lies inside what it
//! committed, or is a typed error.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice_lane::{Error, Lane, LaneOptions};

const PAGE: u64 = 4096;
const CAPACITY: u64 = 4096;
const LINE: u64 = 64;
/// Where `reply_commit` lies in the header page (`shm-abi/layout.abi`).
const REPLY_COMMIT: u64 = 512;

/// Where files need no disk.
fn base() -> &'static Path {
    let mut known = ["/dev/shm", "/tmp"].into_iter().map(Path::new);
    known
        .find(|base| base.is_dir())
        .expect("a folder for files that need no disk")
}

/// A lane whose file has no name any more, so that nothing of it is left behind.
fn lane() -> (Lane, File) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = base().join(format!("sluice-fuzz-{}-{count}", std::process::id()));
    std::fs::create_dir(&dir).expect("a folder of our own");
    let mut lane_id = [0; 16];
    lane_id[..8].copy_from_slice(&count.to_le_bytes());
    let lane = Lane::create(&LaneOptions {
        dir: dir.clone(),
        journal_id: [1; 16],
        boot_id: [2; 16],
        lane_id,
        generation: 1,
        worker: 0,
        request_capacity: PAGE,
        reply_capacity: CAPACITY,
        lock_memory: false,
    });
    let lane = lane.expect("a lane");
    let peer = File::options()
        .write(true)
        .open(lane.path())
        .expect("the lane's file");
    std::fs::remove_dir_all(&dir).expect("the lane's file");
    (lane, peer)
}

/// Turns of the other process: what `reply_commit` becomes (a byte: so many lines further, or a
/// wild word follows), where it writes (a line), how much, and the bytes.
pub fn run(input: &[u8]) {
    let (mut lane, peer) = lane();
    let mut ring = vec![0; CAPACITY as usize];
    let mut read = 0u64;
    let mut rest = input;
    while let [lines, at, length, behind @ ..] = rest {
        let commit;
        let mut behind = behind;
        if *lines >= 0xf0 {
            let Some((word, more)) = behind.split_first_chunk::<8>() else {
                return;
            };
            (commit, behind) = (u64::from_le_bytes(*word), more);
        } else {
            commit = read.wrapping_add(u64::from(*lines) * LINE);
        }
        let at = usize::from(at % 64) * LINE as usize;
        let length = usize::from(*length).min(behind.len()).min(ring.len() - at);
        let (bytes, more) = behind.split_at(length);
        rest = more;
        ring[at..at + length].copy_from_slice(bytes);
        let ring_at = PAGE + PAGE + at as u64;
        peer.write_all_at(bytes, ring_at).expect("the ring");
        peer.write_all_at(&commit.to_le_bytes(), REPLY_COMMIT)
            .expect("the header page");
        if !drain(&mut lane, &ring, &mut read, commit) {
            return; // The server retires such a lane.
        }
    }
}

/// Takes all replies; `false`: the ring is broken.
fn drain(lane: &mut Lane, ring: &[u8], read: &mut u64, commit: u64) -> bool {
    loop {
        let there = commit.wrapping_sub(*read);
        let length = match lane.next_reply() {
            Ok(Some(reply)) => {
                let length = u64::from(reply.entry.length);
                assert!(
                    (LINE..=there).contains(&length),
                    "a reply of {length} in {there} bytes"
                );
                let carried = [reply.head, reply.body].concat();
                assert!(carried.len() as u64 <= length - LINE);
                for (i, byte) in carried.iter().enumerate() {
                    let at = (*read + LINE) as usize + i;
                    assert_eq!(*byte, ring[at % ring.len()], "byte {i} is another one's");
                }
                reply.entry.length
            }
            Ok(None) => {
                assert_eq!(there, 0, "replies were left lying");
                lane.end_turn(false);
                return true;
            }
            Err(Error::Corrupt { .. }) => return false,
            Err(other) => panic!("an error of no kind: {other}"),
        };
        lane.reply_done(length);
        *read += u64::from(length);
    }
}
