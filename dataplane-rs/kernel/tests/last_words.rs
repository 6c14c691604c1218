//! A process that dies of a SIGBUS says where.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const CHILD: &str = "SLUICE_TEST_DIES_OF_SIGBUS";

/// In the child: touches a mapping behind the end of its file.
fn die() {
    sluice_kernel::sys::report_sigbus("worker 3").unwrap();
    let path = std::env::temp_dir().join(format!("sluice-sigbus-{}", std::process::id()));
    let file = std::fs::File::create_new(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(4096).unwrap();
    let (access, fd) = (libc::PROT_READ, file.as_raw_fd());
    // SAFETY: a fresh mapping, read within its length; that the read faults is the point.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_SHARED, fd, 0);
        assert_ne!(at, libc::MAP_FAILED);
        file.set_len(0).unwrap();
        println!("at {at:p}");
        at.cast::<u8>().read_volatile();
    }
    unreachable!("the read faults");
}

#[test]
fn a_sigbus_kills_and_names_its_address() {
    if std::env::var_os(CHILD).is_some() {
        die();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_sigbus_kills_and_names_its_address",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    let out = String::from_utf8_lossy(&child.stdout);
    assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{out}{said}");
    let address = out
        .split("at 0x")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .unwrap();
    assert!(
        said.contains(&format!("worker 3: SIGBUS at 0x{address}\n")),
        "{out}{said}"
    );
}
