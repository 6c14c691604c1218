//! Each layer of the sandbox by itself, in a process of its own: none can be taken off again.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Error, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use io_uring::{IoUring, opcode, types};
use sluice_kernel::sandbox::{self, Layer, User};
use sluice_kernel::sys::EventFd;

const CHILD: &str = "SLUICE_TEST_LAYER_CHILD";
const NOBODY: User = User {
    uid: 65534,
    gid: 65534,
};

/// Runs `body` in a process of its own, which is this test of this program once more, and gives
/// what it wrote to standard error. `prepare` may change how it is started.
fn alone_as(test: &str, prepare: impl FnOnce(&mut Command), body: impl FnOnce()) -> String {
    if std::env::var_os(CHILD).is_some() {
        body();
        // Not by way of the test harness, whose own calls may be refused by now.
        std::process::exit(0);
    }
    // Not by its path, which other users may be unable to reach.
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "1");
    prepare(&mut command);
    let child = command.output().unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{}\n{printed}{said}", child.status);
    print!("{printed}"); // what was skipped, and why
    said
}

fn alone(test: &str, body: impl FnOnce()) -> String {
    alone_as(test, |_| {}, body)
}

fn is_root() -> bool {
    sandbox::current_user() == 0
}

/// Makes a raw call and gives its errno; 0: it went well.
fn errno_of(number: i64, arguments: [usize; 4]) -> i32 {
    let [a, b, c, d] = arguments;
    // SAFETY: every caller passes arguments with which a call that is not refused does no harm.
    match unsafe { libc::syscall(number, a, b, c, d) } {
        -1 => Error::last_os_error().raw_os_error().unwrap(),
        _ => 0,
    }
}

fn own_status(key: &str) -> String {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}

/// Whether `call` is refused with this errno.
fn refused<T>(errno: i32, call: std::io::Result<T>) -> bool {
    call.err().and_then(|error| error.raw_os_error()) == Some(errno)
}

#[test]
fn root_becomes_a_user_that_owns_nothing_and_keeps_what_is_open() {
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    alone(
        "root_becomes_a_user_that_owns_nothing_and_keeps_what_is_open",
        || {
            let path = std::env::temp_dir().join(format!("sluice-layer-{}", std::process::id()));
            std::fs::write(&path, b"secret").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            let mut before = File::open(&path).unwrap();
            sandbox::become_user(NOBODY).unwrap();
            assert_eq!(own_status("Uid"), "65534\t65534\t65534\t65534");
            assert_eq!(own_status("Gid"), "65534\t65534\t65534\t65534");
            assert_eq!(own_status("Groups"), "");
            assert!(refused(libc::EACCES, File::open(&path)), "it is root's");
            let mut kept = String::new();
            before.read_to_string(&mut kept).unwrap();
            assert_eq!(kept, "secret");
            assert_eq!(errno_of(libc::SYS_setresuid, [0; 4]), libc::EPERM);
            // SAFETY: no pointers.
            let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
            assert_eq!(dumpable, 0, "others may trace it");
            std::fs::read("/proc/self/cmdline").unwrap(); // as the control plane must
            let _ = std::fs::remove_file(&path); // the directory may forbid it by now
        },
    );
}

#[test]
fn an_ordinary_user_stays_who_it_is_and_can_be_seen_by_its_own() {
    if !is_root() && std::env::var_os(CHILD).is_none() {
        println!("skipped: only root can start an ordinary user's process");
        return;
    }
    let name = "an_ordinary_user_stays_who_it_is_and_can_be_seen_by_its_own";
    let as_somebody = |command: &mut Command| {
        command.uid(12345).gid(12345);
    };
    alone_as(name, as_somebody, || {
        sandbox::become_user(NOBODY).unwrap();
        assert_eq!(own_status("Uid"), "12345\t12345\t12345\t12345");
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_DUMPABLE) }, 1);
    });
}

#[test]
fn to_become_root_is_no_layer() {
    if !is_root() {
        println!("skipped: only root could become root");
        return;
    }
    let lacking = sandbox::become_user(User { uid: 0, gid: 0 }).unwrap_err();
    assert_eq!(lacking.layer, Layer::User);
}

#[test]
fn capabilities_go_the_ambient_ones_too() {
    if !is_root() {
        println!("skipped: only root has capabilities to give");
        return;
    }
    alone("capabilities_go_the_ambient_ones_too", || {
        // As a service manager does with AmbientCapabilities=CAP_NET_ADMIN (12) and an ordinary
        // user: permitted and inheritable, then ambient.
        let header: [u32; 2] = [0x2008_0522, 0];
        let mask = 1u32 << 12;
        let sets: [[u32; 3]; 2] = [[mask, mask, mask], [0; 3]];
        // SAFETY: plain numbers, and a header and two sets as capset(2) wants them.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
            let id = NOBODY.uid;
            assert_eq!(libc::syscall(libc::SYS_setresuid, id, id, id), 0);
            let set = libc::syscall(libc::SYS_capset, &raw const header, &raw const sets);
            assert_eq!(set, 0);
            let raise = libc::PR_CAP_AMBIENT_RAISE;
            assert_eq!(libc::prctl(libc::PR_CAP_AMBIENT, raise, 12, 0, 0), 0);
        }
        assert_eq!(own_status("CapAmb"), "0000000000001000");
        sandbox::drop_capabilities().unwrap();
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(own_status(set), "0000000000000000", "{set}");
        }
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let (force, on) = (libc::SO_RCVBUFFORCE, 1i32);
        // SAFETY: an int as the option wants it.
        let set = unsafe {
            let on = (&raw const on).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, force, on, 4)
        };
        assert!(set != 0 && Error::last_os_error().raw_os_error() == Some(libc::EPERM));
    });
}

#[test]
fn a_program_that_is_set_to_root_gives_nothing() {
    if !is_root() {
        println!("skipped: only root can make such a program");
        return;
    }
    let name = "a_program_that_is_set_to_root_gives_nothing";
    alone(name, || {
        let path = std::env::temp_dir().join(format!("sluice-id-{}", std::process::id()));
        std::fs::copy("/usr/bin/id", &path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
        let who = || {
            let out = Command::new(&path).arg("-u").uid(12345).gid(12345).output();
            out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        };
        if !who().is_ok_and(|id| id == "0") {
            println!(
                "skipped: such programs have no effect below {}",
                path.display()
            );
        } else {
            sandbox::forbid_new_privileges().unwrap();
            assert_eq!(who().unwrap(), "12345");
            assert_eq!(own_status("NoNewPrivs"), "1");
        }
        let _ = std::fs::remove_file(&path);
    });
}

#[test]
fn no_core_is_written() {
    alone("no_core_is_written", || {
        sandbox::forbid_core_dumps();
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("Max core"))
            .unwrap();
        assert_eq!(line.split_whitespace().nth(4), Some("0"), "{line}");
    });
}

#[test]
fn under_landlock_no_path_opens_and_no_socket_leaves() {
    alone("under_landlock_no_path_opens_and_no_socket_leaves", || {
        let mut zero = File::open("/dev/zero").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ring = IoUring::new(8).map_err(|error| println!("no ring: {error}"));
        if let Err(lacking) = sandbox::close_files() {
            println!("skipped: {lacking}");
            return;
        }
        assert!(refused(libc::EACCES, File::open("/etc/passwd")));
        assert!(refused(libc::EACCES, std::fs::read_dir("/")));
        let create = std::env::temp_dir().join(format!("sluice-none-{}", std::process::id()));
        assert!(refused(libc::EACCES, File::create(&create)));
        assert!(refused(libc::EACCES, Command::new("/bin/true").status()));
        // What was open before is as it was.
        zero.read_exact(&mut [0; 8]).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);
        // Threads that are started later are bound, too.
        let inherited = thread::spawn(|| refused(libc::EACCES, File::open("/etc/passwd")));
        assert!(inherited.join().unwrap());

        let version = abi();
        if version >= 4 {
            assert!(refused(libc::EACCES, TcpStream::connect(address)));
            assert!(refused(libc::EACCES, TcpListener::bind("127.0.0.1:0")));
        }
        if version >= 6 {
            // SAFETY: signal 0 only asks.
            let sent = unsafe { libc::kill(libc::getppid(), 0) };
            assert!(sent != 0 && Error::last_os_error().raw_os_error() == Some(libc::EPERM));
        }
        if let Ok(mut ring) = ring {
            // What a ring does is bound as well, though no system call is seen: this ring is older
            // than the layer, but its orders are the thread's.
            assert_eq!(open_by(&mut ring, c"/etc/passwd"), -libc::EACCES);
        }
        println!("Landlock ABI {version}");
    });
}

fn abi() -> i64 {
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with flag 1 (LANDLOCK_CREATE_RULESET_VERSION) nothing is read or made.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, 1usize) }
}

/// Opens a path by a ring.
fn open_by(ring: &mut IoUring, path: &'static CStr) -> i32 {
    let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr()).build();
    // SAFETY: the path lives for ever.
    unsafe { ring.submission().push(&open).unwrap() };
    ring.submit_and_wait(1).unwrap();
    ring.completion().next().unwrap().result()
}

/// Calls that are not on the list, with arguments that do no harm if they were.
const FORBIDDEN: &[(&str, i64, [usize; 4])] = &[
    (
        "socket",
        libc::SYS_socket,
        [libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0, 0],
    ),
    ("connect", libc::SYS_connect, [usize::MAX, 0, 0, 0]),
    ("bind", libc::SYS_bind, [usize::MAX, 0, 0, 0]),
    ("execve", libc::SYS_execve, [0; 4]),
    (
        "ptrace",
        libc::SYS_ptrace,
        [libc::PTRACE_PEEKTEXT as usize, usize::MAX, 0, 0],
    ),
    ("setresuid", libc::SYS_setresuid, [65534, 65534, 65534, 0]),
    ("io_uring_setup", libc::SYS_io_uring_setup, [8, 0, 0, 0]),
    ("kill", libc::SYS_kill, [0, 0, 0, 0]),
    ("unlinkat", libc::SYS_unlinkat, [usize::MAX, 0, 0, 0]),
    ("memfd_create", libc::SYS_memfd_create, [0; 4]),
    ("seccomp", libc::SYS_seccomp, [usize::MAX, 0, 0, 0]),
    // Not ourselves.
    ("tgkill", libc::SYS_tgkill, [1, 1, 0, 0]),
    // Memory that can be executed.
    (
        "mmap",
        libc::SYS_mmap,
        [
            0,
            4096,
            libc::PROT_EXEC as usize,
            libc::MAP_PRIVATE as usize,
        ],
    ),
    // Credentials through a path and without one.
    ("openat", libc::SYS_openat, [usize::MAX, 0, 0, 0]),
    // F_SETOWN: who gets signals.
    ("fcntl", libc::SYS_fcntl, [0, libc::F_SETOWN as usize, 0, 0]),
];

#[test]
fn calls_that_are_not_listed_fail_in_every_thread_and_are_reported_once() {
    let name = "calls_that_are_not_listed_fail_in_every_thread_and_are_reported_once";
    let said = alone(name, || {
        let (go, wait) = mpsc::channel::<()>();
        let (up, is_up) = mpsc::channel::<()>();
        let try_all = || {
            for (name, number, arguments) in FORBIDDEN {
                assert_eq!(errno_of(*number, *arguments), libc::EPERM, "{name}");
            }
        };
        // It waits in a call while the filter comes.
        let other = thread::spawn(move || {
            up.send(()).unwrap();
            wait.recv().unwrap();
            try_all();
        });
        is_up.recv().unwrap(); // what a thread's start calls is not on the list
        sandbox::filter_calls(false).unwrap();
        try_all();
        go.send(()).unwrap();
        other.join().unwrap();
        let enter = errno_of(libc::SYS_io_uring_enter, [usize::MAX, 0, 0, 0]);
        assert_eq!(
            enter,
            libc::EPERM,
            "without a ring there is nothing to enter"
        );
        let late = thread::Builder::new().spawn(|| ());
        assert!(refused(libc::EPERM, late), "all threads are there already");
        println!("still here");
    });
    for (name, number, _) in FORBIDDEN {
        let line = format!("the sandbox refused system call {number}: ");
        let expected = usize::from(*name != "openat"); // see REFUSED_QUIETLY
        assert_eq!(said.matches(&line).count(), expected, "{name}\n{said}");
    }
}

#[test]
fn what_serving_needs_goes_on_under_the_filter() {
    let name = "what_serving_needs_goes_on_under_the_filter";
    let said = alone(name, || {
        let (go, wait) = mpsc::channel::<()>();
        let (up, is_up) = mpsc::channel::<()>();
        let bell = EventFd::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let panics = thread::spawn(move || {
            up.send(()).unwrap();
            wait.recv().unwrap();
            // Memory of an arena of its own, given back in pieces.
            let pieces: Vec<Vec<u8>> = (0..2000).map(|size| vec![1; 64 * size]).collect();
            assert!(pieces.iter().map(Vec::len).sum::<usize>() > 1 << 20);
            drop(pieces);
            panic!("with a backtrace that finds no symbols");
        });
        is_up.recv().unwrap();
        sandbox::filter_calls(false).unwrap();
        go.send(()).unwrap();
        assert!(panics.join().is_err(), "it did not get as far as that");
        bell.ring().unwrap();
        assert_eq!(bell.take().unwrap(), 1);
        let (mut far, _) = listener.accept().unwrap();
        let twin = far.try_clone().unwrap();
        twin.set_nodelay(true).unwrap();
        twin.set_nonblocking(true).unwrap();
        std::io::Write::write_all(&mut near, b"x").unwrap();
        drop(near);
        twin.set_nonblocking(false).unwrap();
        assert_eq!(far.read_to_end(&mut Vec::new()).unwrap(), 1);
        sluice_kernel::sys::random(&mut [0; 8]).unwrap();
        thread::sleep(std::time::Duration::from_millis(1));
        let big = vec![7u8; 32 << 20];
        assert_eq!(
            big.iter().map(|&byte| u64::from(byte)).sum::<u64>(),
            7 * (32 << 20)
        );
    });
    assert!(
        said.contains("with a backtrace that finds no symbols"),
        "{said}"
    );
    assert!(!said.contains("refused system call"), "{said}");
}

#[test]
fn rings_that_are_there_go_on_and_no_more_are_made() {
    alone("rings_that_are_there_go_on_and_no_more_are_made", || {
        let mut ring = match IoUring::new(8) {
            Ok(ring) => ring,
            Err(error) => return println!("skipped: no ring here: {error}"),
        };
        sandbox::filter_calls(true).unwrap();
        // SAFETY: a no-op has no arguments.
        unsafe { ring.submission().push(&opcode::Nop::new().build()).unwrap() };
        ring.submit_and_wait(1).unwrap();
        assert_eq!(ring.completion().next().unwrap().result(), 0);
        assert!(refused(libc::EPERM, IoUring::new(8)));
    });
}

#[test]
fn a_process_under_the_filter_can_still_abort() {
    let name = "a_process_under_the_filter_can_still_abort";
    if std::env::var_os(CHILD).is_some() {
        sandbox::forbid_core_dumps();
        sandbox::filter_calls(false).unwrap();
        std::process::abort();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&child.status);
    assert_eq!(signal, Some(libc::SIGABRT), "{child:?}");
}

#[test]
fn a_signal_of_the_same_number_from_outside_changes_nothing() {
    let name = "a_signal_of_the_same_number_from_outside_changes_nothing";
    alone(name, || {
        sandbox::filter_calls(false).unwrap();
        // tgkill of ourselves is on the list.
        // SAFETY: plain numbers.
        unsafe {
            let id = libc::syscall(libc::SYS_gettid);
            let sent = libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGSYS);
            assert_eq!(sent, 0, "the handler answered a call that nobody refused");
        }
    });
}

/// A filter of a container that refuses one call.
fn refuse(number: i64, errno: i32) {
    use seccompiler::{SeccompAction, SeccompFilter};
    let filter = SeccompFilter::new(
        [(number, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn a_host_that_gives_no_landlock_is_named_with_the_mend() {
    alone(
        "a_host_that_gives_no_landlock_is_named_with_the_mend",
        || {
            refuse(libc::SYS_landlock_create_ruleset, libc::EOPNOTSUPP);
            let lacking = sandbox::close_files().unwrap_err();
            assert_eq!(lacking.layer, Layer::Landlock);
            assert!(lacking.mend.contains("lsm="), "{lacking}");
            File::open("/etc/passwd").unwrap(); // nothing was taken away
        },
    );
}

#[test]
fn a_host_that_gives_no_filter_is_named_and_the_process_goes_on() {
    alone(
        "a_host_that_gives_no_filter_is_named_and_the_process_goes_on",
        || {
            refuse(libc::SYS_seccomp, libc::EPERM);
            let lacking = sandbox::filter_calls(false).unwrap_err();
            assert_eq!(lacking.layer, Layer::Seccomp);
            assert!(lacking.to_string().contains("not permitted"), "{lacking}");
            File::open("/etc/passwd").unwrap();
        },
    );
}

#[test]
fn descriptors_are_raised_and_never_lowered() {
    alone("descriptors_are_raised_and_never_lowered", || {
        let hard = 1024;
        let limit = libc::rlimit {
            rlim_cur: 512,
            rlim_max: hard,
        };
        // SAFETY: a valid rlimit, lower than the one in force.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        assert_eq!(sandbox::raise_descriptors(10), hard);
        let (soft, _) = sluice_kernel::sys::descriptor_limit().unwrap();
        assert_eq!(soft, hard);
        let capabilities = u64::from_str_radix(&own_status("CapEff"), 16).unwrap();
        let may = capabilities >> 24 & 1 == 1; // CAP_SYS_RESOURCE
        let more = sandbox::raise_descriptors(hard + 1);
        assert_eq!(more > hard, may, "who may goes beyond its hard limit");
    });
}
