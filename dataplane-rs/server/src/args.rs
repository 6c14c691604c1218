//! The command line: what the supervisor hands down when it starts a data plane.

use sluice_kernel::sandbox::Mode;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
sluice-dataplane: receives webhooks for sluice. The sluice daemon starts and feeds it.

usage: sluice-dataplane --probe
       sluice-dataplane --shm DIR --journal-id HEX --generation N --workers N --listeners N
                        [--ring-size BYTES] [--reply-ring-size BYTES] [--max-connections N]
                        [--lock-memory] [--driver auto|io_uring|epoll]
                        [--sandbox off|auto|require] [--user NAME|UID[:GID]]

  --probe              print what --driver auto would take on this host, as one JSON object, and
                       why not io_uring, if that is so
  --shm DIR            the journal's directory on tmpfs; holds control, dp/ and lanes/
  --journal-id HEX     32 hexadecimal digits
  --generation N       counts data planes
  --workers N          threads, each with a lane of its own
  --listeners N        listening addresses; descriptors from 3 on are, in this order:
                       one listening socket per address and worker, then per worker the eventfd
                       that this process rings, then per worker the one that it waits on
  --ring-size BYTES    request ring of each lane, a power of two (default 64 MiB)
  --reply-ring-size BYTES
                       reply ring of each lane, a power of two (default 4 MiB)
  --max-connections N  of the whole process (default 20000)
  --lock-memory        keep the lanes in memory where RLIMIT_MEMLOCK allows it
  --driver NAME        auto (default): io_uring, and epoll where the host does not allow it;
                       io_uring, epoll: this one or none
  --sandbox HOW        what the process takes away from itself before it serves (user,
                       capabilities, new privileges, Landlock, ring restrictions, seccomp).
                       auto (default): what the host gives; require: all of it, or it does not
                       start; off: nothing
  --user NAME|UID[:GID]
                       whom the process becomes where it is started as root and has a sandbox
                       (default nobody)
  --help, --version
";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Print the help text.
    Help,
    /// Print the probe's report.
    Probe,
    /// Serve.
    Run(Args),
    /// Print the version.
    Version,
}

/// What connections and waits go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// io_uring where the host allows it, else epoll.
    #[default]
    Auto,
    /// epoll.
    Epoll,
    /// io_uring or nothing.
    IoUring,
}

/// What a run needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// The journal's directory on tmpfs.
    pub shm: PathBuf,
    /// The journal's id.
    pub journal_id: [u8; 16],
    /// Which data plane this is.
    pub generation: u32,
    /// Worker threads.
    pub workers: usize,
    /// Listening addresses.
    pub listeners: usize,
    /// Bytes of a request ring.
    pub ring_size: u64,
    /// Bytes of a reply ring.
    pub reply_ring_size: u64,
    /// Connections of the whole process.
    pub connections_max: u32,
    /// Whether to lock the lanes in memory.
    pub lock_memory: bool,
    /// What connections and waits go through.
    pub driver: Driver,
    /// How much the process takes away from itself.
    pub sandbox: Mode,
    /// Whom it becomes where it is root.
    pub user: String,
}

/// Reads the arguments without the program's name. The error is for the operator.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut args = Args {
        ring_size: 64 << 20,
        reply_ring_size: 4 << 20,
        connections_max: 20_000,
        user: "nobody".into(),
        ..Args::default()
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
        match word.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--version" => return Ok(Command::Version),
            "--probe" => return Ok(Command::Probe),
            "--shm" => args.shm = value()?.into(),
            "--journal-id" => args.journal_id = hex_id(&value()?)?,
            "--generation" => args.generation = number(&word, &value()?)?,
            "--workers" => args.workers = number(&word, &value()?)?,
            "--listeners" => args.listeners = number(&word, &value()?)?,
            "--ring-size" => args.ring_size = number(&word, &value()?)?,
            "--reply-ring-size" => args.reply_ring_size = number(&word, &value()?)?,
            "--max-connections" => args.connections_max = number(&word, &value()?)?,
            "--lock-memory" => args.lock_memory = true,
            "--driver" => args.driver = one_of(&word, &value()?, DRIVERS)?,
            "--sandbox" => args.sandbox = one_of(&word, &value()?, MODES)?,
            "--user" => args.user = value()?,
            _ => return Err(format!("{word}: no such option; --help lists them")),
        }
    }
    let workers = 1..=shm_abi::WORKERS_MAX as usize;
    if args.shm.as_os_str().is_empty() || args.journal_id == [0; 16] {
        return Err("--shm and --journal-id are needed; --help tells more".into());
    }
    if args.generation == 0 || !workers.contains(&args.workers) || args.connections_max == 0 {
        return Err(format!(
            "--generation {}, --workers {}, --max-connections {}: \
             each at least 1, workers at most {}",
            args.generation,
            args.workers,
            args.connections_max,
            workers.end()
        ));
    }
    Ok(Command::Run(args))
}

const DRIVERS: &[(&str, Driver)] = &[
    ("auto", Driver::Auto),
    ("epoll", Driver::Epoll),
    ("io_uring", Driver::IoUring),
];

const MODES: &[(&str, Mode)] = &[
    ("auto", Mode::Auto),
    ("off", Mode::Off),
    ("require", Mode::Require),
];

fn one_of<T: Copy>(option: &str, text: &str, choice: &[(&str, T)]) -> Result<T, String> {
    let found = choice.iter().find(|(name, _)| *name == text);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = choice.iter().map(|(name, _)| *name).collect();
        format!("{option} {text:?}: want one of {}", names.join(", "))
    })
}

fn number<N: std::str::FromStr>(option: &str, text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| format!("{option} {text:?}: not a number in range"))
}

fn hex_id(text: &str) -> Result<[u8; 16], String> {
    let wrong = || format!("--journal-id {text:?}: want 32 hexadecimal digits");
    if text.len() != 32 || !text.is_ascii() {
        return Err(wrong());
    }
    let mut id = [0; 16];
    for (i, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn a_whole_line_is_read() {
        let id = "000102030405060708090a0b0c0d0e0f";
        let line = format!(
            "--shm /dev/shm/x --journal-id {id} --generation 3 --workers 2 --listeners 1 \
             --ring-size 1048576 --lock-memory --driver epoll --sandbox require --user 7:8"
        );
        let Ok(Command::Run(args)) = run(&line) else {
            panic!("{:?}", run(&line))
        };
        assert_eq!(args.journal_id, std::array::from_fn(|i| i as u8));
        assert_eq!((args.generation, args.workers, args.listeners), (3, 2, 1));
        assert_eq!((args.ring_size, args.reply_ring_size), (1 << 20, 4 << 20));
        assert!(args.lock_memory);
        assert_eq!((args.driver, args.sandbox), (Driver::Epoll, Mode::Require));
        assert_eq!(args.user, "7:8");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, part) in [
            ("--nope", "--nope"),
            ("--workers", "value is missing"),
            ("--workers x", "--workers"),
            ("--driver uring", "auto, epoll, io_uring"),
            ("--sandbox on", "auto, off, require"),
            ("--journal-id 12", "32 hexadecimal"),
            (
                "--journal-id zz0102030405060708090a0b0c0d0e0f",
                "32 hexadecimal",
            ),
            ("--generation 1", "--shm"),
        ] {
            let error = run(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
