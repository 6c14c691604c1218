//! Hosts that do not give what is wanted: what it does instead, and that it says why.

use crate::plane::{Process, SOMEBODY, Setup, is_root};

/// As a container's default profile does.
const NO_RINGS: &[(i64, i32)] = &[(libc::SYS_io_uring_setup, libc::EPERM)];
const NO_LANDLOCK: &[(i64, i32)] = &[(libc::SYS_landlock_create_ruleset, libc::ENOSYS)];

/// One that does not start: what it said, which the control plane finds as well.
fn words(setup: &Setup) -> String {
    let mut process = Process::start(setup);
    assert_eq!(process.end().code(), Some(1), "{}", process.log());
    let words = std::fs::read_to_string(process.path("words")).unwrap();
    let log = process.log();
    assert!(
        log.contains("level=ERROR component=dataplane generation=7"),
        "{log}"
    );
    let line = format!("{:?}", words.trim_end());
    assert!(log.contains(&line), "{words}{log}");
    words
}

#[test]
fn where_rings_are_forbidden_epoll_takes_their_place_and_says_why() {
    let setup = Setup {
        forbidden: NO_RINGS,
        ..Setup::default()
    };
    let (process, hello) = Process::hello(&setup);
    assert_eq!(hello.driver, "epoll");
    assert!(
        hello.driver_reason.contains("seccomp"),
        "{}",
        hello.driver_reason
    );
    let log = process.log();
    assert!(
        log.contains("level=WARNING") && log.contains(&hello.driver_reason),
        "{log}"
    );
    process.configure(vec![]);
}

#[test]
fn where_rings_are_forbidden_and_insisted_on_it_does_not_start() {
    let said = words(&Setup {
        args: &["--driver", "io_uring"],
        forbidden: NO_RINGS,
        ..Setup::default()
    });
    assert!(said.contains("io_uring cannot be used here"), "{said}");
}

#[test]
fn too_little_locked_memory_for_a_ring_means_epoll() {
    if !is_root() || sluice_kernel::probe().is_err() {
        println!("skipped: needs root, to start a user that has locked nothing yet, and io_uring");
        return;
    }
    let setup = Setup {
        user: Some(SOMEBODY + 1), // the limit counts over all processes of a user
        limit: Some((libc::RLIMIT_MEMLOCK, 8 << 10)),
        ..Setup::default()
    };
    let (_process, hello) = Process::hello(&setup);
    assert_eq!(hello.driver, "epoll");
    assert!(
        hello.driver_reason.contains("RLIMIT_MEMLOCK"),
        "{}",
        hello.driver_reason
    );
}

#[test]
fn auto_goes_on_without_a_layer_and_says_which() {
    let setup = Setup {
        forbidden: NO_LANDLOCK,
        ..Setup::default()
    };
    let (process, hello) = Process::hello(&setup);
    assert!(!hello.sandbox.contains(&"landlock".to_owned()));
    assert!(
        hello.sandbox.contains(&"seccomp".to_owned()),
        "{:?}",
        hello.sandbox
    );
    assert!(
        hello.sandbox_reason.contains("landlock: ENOSYS"),
        "{}",
        hello.sandbox_reason
    );
    let log = process.log();
    assert!(
        log.contains("level=WARNING") && log.contains("landlock: ENOSYS"),
        "{log}"
    );
    process.configure(vec![]);
}

#[test]
fn require_does_not_start_without_a_layer() {
    let said = words(&Setup {
        args: &["--sandbox", "require"],
        forbidden: NO_LANDLOCK,
        ..Setup::default()
    });
    assert!(said.contains("landlock: ENOSYS"), "{said}");
    let said = words(&Setup {
        args: &["--sandbox", "require"],
        forbidden: &[(libc::SYS_seccomp, libc::EPERM)],
        ..Setup::default()
    });
    assert!(said.contains("seccomp: "), "{said}");
}

#[test]
fn a_user_that_is_not_there_is_named() {
    let said = words(&Setup {
        args: &["--user", "nosuchuser"],
        ..Setup::default()
    });
    assert!(said.contains("\"nosuchuser\""), "{said}");
    if is_root() {
        let said = words(&Setup {
            args: &["--user", "root", "--sandbox", "require"],
            ..Setup::default()
        });
        assert!(said.contains("user: "), "{said}");
    }
}

#[test]
fn too_few_descriptors_are_said_with_the_number_to_set_and_it_serves() {
    if !is_root() {
        println!("skipped: needs root, to start a user that may not raise its limits");
        return;
    }
    let setup = Setup {
        user: Some(SOMEBODY),
        limit: Some((libc::RLIMIT_NOFILE, 300)),
        ..Setup::default()
    };
    let (process, _) = Process::hello(&setup);
    let log = process.log();
    assert!(
        log.contains("level=ERROR") && log.contains("LimitNOFILE="),
        "{log}"
    );
    process.configure(vec![]);
}
