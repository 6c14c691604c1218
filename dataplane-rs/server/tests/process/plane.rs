//! A data plane in a process of its own: its directory, its descriptors, its control plane.

use crate::call::call;
use shm_abi::{
    CONTROL_MAGIC, DLine, LAYOUT_HASH, LINE_SIZE, PAGE_SIZE, REPLY_ACCEPTED, ReplyEntry,
};
use sluice_kernel::sys::EventFd;
use sluice_proto as proto;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(20);

const SECOND: u64 = 1_000_000_000;
const JOURNAL: [u8; 16] = *b"a journal's name";
const RING_SIZE: u64 = 1 << 20;
const WORKERS: usize = 2;

/// An ordinary user that is none of the machine's.
pub const SOMEBODY: u32 = 12345;

/// Waits until it holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "still not so: {what}");
        std::thread::yield_now();
    }
}

pub fn is_root() -> bool {
    sluice_kernel::sandbox::current_user() == 0
}

/// How a data plane is started.
#[derive(Default)]
pub struct Setup<'a> {
    /// More of the command line.
    pub args: &'a [&'a str],
    /// Who starts it; `None`: who runs the test.
    pub user: Option<u32>,
    /// A limit of the process, soft and hard.
    pub limit: Option<(libc::__rlimit_resource_t, u64)>,
    /// System calls that the container forbids, and the errno that they give.
    pub forbidden: &'a [(i64, i32)],
}

/// A running data plane. Dropped, it is killed.
pub struct Process {
    pub child: Child,
    pub address: SocketAddr,
    dir: PathBuf,
    reply_bells: Vec<EventFd>,
}

impl Process {
    pub fn start(setup: &Setup) -> Process {
        let dir = directory();
        control_page(&dir);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bell = || EventFd::new().unwrap();
        let (request_bells, reply_bells) = ([bell(), bell()], [bell(), bell()]);
        let listener = OwnedFd::from(listener);
        let mut fds = vec![listener.try_clone().unwrap(), listener];
        for bell in request_bells.iter().chain(&reply_bells) {
            fds.push(bell.duplicate().unwrap().into_fd());
        }
        if let Some(user) = setup.user {
            for path in [
                dir.clone(),
                dir.join("dp"),
                dir.join("lanes"),
                dir.join("control"),
            ] {
                chown(path, Some(user), Some(user)).unwrap();
            }
        }
        // By an open file, since other users may be unable to reach its path.
        let program = File::open(env!("CARGO_BIN_EXE_sluice-dataplane")).unwrap();
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        command
            .args([
                "--shm",
                dir.to_str().unwrap(),
                "--journal-id",
                &hex(&JOURNAL),
            ])
            .args(["--generation", "7", "--workers", "2", "--listeners", "1"])
            .args([
                "--ring-size",
                &RING_SIZE.to_string(),
                "--max-connections",
                "100",
            ])
            .args(setup.args)
            .stderr(File::create(dir.join("log")).unwrap());
        if let Some(user) = setup.user {
            command.uid(user).gid(user);
        }
        let limit = setup.limit;
        let numbers: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: only async-signal-safe calls, on numbers and memory made before the fork.
        unsafe { command.pre_exec(move || hand_down(&numbers, limit)) };
        let child = spawn(command, setup.forbidden);
        Process {
            child,
            address,
            dir,
            reply_bells: reply_bells.into(),
        }
    }

    /// Starts one and waits for its hello.
    pub fn hello(setup: &Setup) -> (Process, proto::HelloReply) {
        let mut process = Process::start(setup);
        let request = proto::HelloRequest {
            layout_hash: LAYOUT_HASH,
            journal_id: JOURNAL.into(),
        };
        let mut hello = Err("never asked".into());
        eventually("hello", || {
            assert_eq!(process.child.try_wait().unwrap(), None, "{}", process.log());
            hello = call(&process.path("sock"), "Hello", &request);
            hello.is_ok()
        });
        (process, hello.unwrap())
    }

    /// Puts a config in force with one source, `/a`.
    pub fn configure(&self, listeners: Vec<proto::Listener>) {
        let snapshot = proto::Snapshot {
            config_version: 1,
            http: Some(proto::HttpBounds {
                max_header: 32 * 1024,
                header_timeout_ns: 60 * SECOND,
                body_timeout_ns: 60 * SECOND,
                idle_timeout_ns: 60 * SECOND,
                max_connections: 100,
                max_body: 1 << 20,
                handshake_timeout_ns: 60 * SECOND,
                ..proto::HttpBounds::default()
            }),
            sources: vec![proto::Source {
                id: 100,
                name: "a".into(),
                path: "/a".into(),
                methods: vec!["POST".into()],
                priority: proto::Priority::Default.into(),
                acknowledge: proto::Acknowledge::Durable.into(),
                max_body: 1024,
                budget_ns: 60 * SECOND,
                shed_status: 503,
                ..proto::Source::default()
            }],
            listeners,
            ..proto::Snapshot::default()
        };
        let reply: proto::ApplyReply = self.call("Apply", &snapshot);
        assert!(reply.accepted, "{}", reply.reason);
    }

    /// Answers the first frame of any lane with 200.
    pub fn answer(&self) {
        let mut lanes = Vec::new();
        for entry in std::fs::read_dir(self.dir.join("lanes")).unwrap() {
            let path = entry.unwrap().path();
            lanes.push(File::options().read(true).write(true).open(path).unwrap());
        }
        assert_eq!(lanes.len(), WORKERS);
        let word = |lane: &File, at| {
            let mut bytes = [0; 8];
            lane.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        };
        let mut found = None;
        eventually("a frame in a lane", || {
            found = lanes.iter().find(|lane| word(lane, COMMIT) > 0);
            found.is_some()
        });
        let lane = found.unwrap();
        let mut line = [0; 64];
        lane.read_exact_at(&mut line, PAGE_SIZE).unwrap();
        let line = DLine::from_bytes(&line);
        let entry = ReplyEntry {
            length: LINE_SIZE as u32,
            kind: REPLY_ACCEPTED,
            token: line.token,
            seq: line.seq,
            position: line.position,
            event_id: [7; 16],
            ..ReplyEntry::default()
        };
        let ring = PAGE_SIZE + RING_SIZE;
        lane.write_all_at(&entry.to_bytes(), ring).unwrap();
        lane.write_all_at(&LINE_SIZE.to_le_bytes(), REPLY_COMMIT)
            .unwrap();
        for bell in &self.reply_bells {
            bell.ring().unwrap(); // at an attachment a side rings unconditionally
        }
    }

    pub fn call<Reply: prost::Message + Default>(
        &self,
        method: &str,
        request: &impl prost::Message,
    ) -> Reply {
        call(&self.path("sock"), method, request).unwrap()
    }

    /// A file of the data plane's.
    pub fn path(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("dp/7.{kind}"))
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    /// A line of /proc/PID/status.
    pub fn status(&self, key: &str) -> String {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap().trim_start_matches(':').trim().to_owned()
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Words of a lane's page, as `layout.abi` has them.
const COMMIT: u64 = 128;
const REPLY_COMMIT: u64 = 512;

/// In the child, before the program: descriptors from 3 on, and a limit.
fn hand_down(fds: &[i32], limit: Option<(libc::__rlimit_resource_t, u64)>) -> std::io::Result<()> {
    let kept = |result: i32| match result {
        -1 => Err(std::io::Error::last_os_error()),
        fd => Ok(fd),
    };
    // First out of the way of each other.
    let mut high = [0; 16];
    for (place, &fd) in high.iter_mut().zip(fds) {
        // SAFETY: plain numbers.
        *place = kept(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100) })?;
    }
    for (position, &fd) in high[..fds.len()].iter().enumerate() {
        // SAFETY: plain numbers; what had this number is not needed in the child.
        kept(unsafe { libc::dup2(fd, 3 + position as i32) })?;
    }
    if let Some((resource, most)) = limit {
        let limit = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        // SAFETY: a valid rlimit.
        kept(unsafe { libc::setrlimit(resource, &limit) })?;
    }
    Ok(())
}

/// Starts it on a thread that has the container's filter, which the process inherits.
fn spawn(mut command: Command, forbidden: &[(i64, i32)]) -> Child {
    let programs: Vec<_> = forbidden
        .iter()
        .map(|&(call, errno)| refuse(call, errno))
        .collect();
    let start = move || {
        for program in programs {
            seccompiler::apply_filter(&program).unwrap();
        }
        command.spawn().unwrap()
    };
    std::thread::spawn(start).join().unwrap()
}

fn refuse(call: i64, errno: i32) -> seccompiler::BpfProgram {
    use seccompiler::{SeccompAction, SeccompFilter};
    let filter = SeccompFilter::new(
        [(call, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    filter.unwrap().try_into().unwrap()
}

fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = match std::path::Path::new("/dev/shm").is_dir() {
        true => PathBuf::from("/dev/shm"),
        false => std::env::temp_dir(),
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = base.join(format!(
        "sluice-process-test-{}-{number}",
        std::process::id()
    ));
    for part in [dir.clone(), dir.join("dp"), dir.join("lanes")] {
        std::fs::create_dir(&part).unwrap();
        std::fs::set_permissions(&part, PermissionsExt::from_mode(0o700)).unwrap();
    }
    dir
}

/// The control plane's page: room for a thousand, and a store that takes writes.
fn control_page(dir: &std::path::Path) {
    let page = File::create_new(dir.join("control")).unwrap();
    page.set_permissions(PermissionsExt::from_mode(0o600))
        .unwrap();
    page.set_len(PAGE_SIZE).unwrap();
    page.write_all_at(&JOURNAL, 16).unwrap();
    let (limit, max_held, hold_budget, writable) = (128, 136, 144, 256);
    for (word, value) in [
        (limit, 1000),
        (max_held, 1000),
        (hold_budget, 60 * SECOND),
        (writable, 1),
        (8, LAYOUT_HASH),
        (0, CONTROL_MAGIC),
    ] {
        page.write_all_at(&value.to_le_bytes(), word).unwrap();
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
