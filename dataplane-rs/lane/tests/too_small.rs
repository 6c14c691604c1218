//! A tmpfs that is too small for a lane is an error at its making, never SIGBUS at a later store.
//!
//! Needs a mount of its own: where user namespaces are forbidden it says so and passes.

use sluice_lane::{Counters, CountersOptions, Error, FrameParts, Lane, LaneOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the process that runs under the small tmpfs; holds its path.
const INSIDE: &str = "SLUICE_LANE_TEST_SMALL_TMPFS";

#[test]
fn a_lane_that_does_not_fit_its_tmpfs_is_an_error_and_leaves_nothing() {
    if let Some(dir) = std::env::var_os(INSIDE) {
        return fill(Path::new(&dir));
    }
    let dir = std::env::temp_dir().join(format!("sluice-small-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1m none '{0}' && exec '{1}' --exact --nocapture \
         a_lane_that_does_not_fit_its_tmpfs_is_an_error_and_leaves_nothing",
        dir.display(),
        program.display()
    );
    let probe = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "none"])
        .arg(&dir)
        .output();
    match probe {
        Ok(out) if out.status.success() => {}
        Ok(out) => {
            println!(
                "skipped: no mount of our own: {}",
                String::from_utf8_lossy(&out.stderr)
            );
            return;
        }
        Err(error) => {
            println!("skipped: no unshare: {error}");
            return;
        }
    }
    let run = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .env(INSIDE, &dir)
        .output()
        .unwrap();
    let _ = std::fs::remove_dir(&dir);
    assert!(
        run.status.success(),
        "signal {:?}\n{}{}",
        run.status.signal(),
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

/// Runs with `dir` on a tmpfs of 1 MiB.
fn fill(dir: &Path) {
    let lane = |id: u8, request: u64| {
        Lane::create(&LaneOptions {
            dir: dir.into(),
            journal_id: [1; 16],
            boot_id: [2; 16],
            lane_id: [id; 16],
            generation: 1,
            worker: 0,
            request_capacity: request,
            reply_capacity: 4096,
            lock_memory: false,
        })
    };
    assert!(
        full(lane(1, 1 << 20).err()),
        "a ring as large as the whole tmpfs"
    );
    assert_eq!(
        entries(dir),
        Vec::<PathBuf>::new(),
        "something is left of a lane that never was"
    );
    let mut fits = lane(2, 1 << 19).unwrap();
    assert!(full(lane(3, 1 << 19).err()), "a second one beside it");
    let counters = CountersOptions {
        path: dir.join("counters"),
        generation: 1,
        workers: 64,
        sources: 64,
    };
    assert!(
        full(Counters::create(&counters).err()),
        "counters beside it"
    );
    assert_eq!(entries(dir), vec![fits.path().to_owned()]);
    // Somebody else takes the rest; the lane has all its pages already.
    let _ = std::fs::write(dir.join("filler"), vec![1; 1 << 20]);
    let body = vec![9; 60_000];
    let parts = FrameParts {
        method: b"POST",
        target: b"/",
        client: b"",
        headers: b"",
        index: &[],
        body: &[&body],
        peer: None,
        flags: 0,
        source_id: 1,
        config_version: 1,
        seq: 1,
        received_ns: 1,
        admitted_ns: 1,
        token: 1,
        until_ns: 0,
    };
    let mut published = 0;
    while fits.publish(&parts).unwrap().is_some() {
        published += 1;
    }
    assert_eq!(published, (1 << 19) / parts.size());
}

fn full(error: Option<Error>) -> bool {
    let Some(Error::Kernel { source, .. }) = error else {
        return false;
    };
    source.raw_os_error() == Some(libc::ENOSPC)
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}
