//! The command line, read by hand: a dozen flags do not need a parser of their own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{
    BODIES_MAX, BODY_BYTES_MAX, CONNECTIONS_MAX, DURATION_MAX, REQUESTS_MAX, STREAMS_MAX, TRIES_MAX,
};
use crate::schedule::Schedule;

/// What `--help` prints.
pub const HELP: &str = "\
sluice-load: sends signed webhooks at a constant rate and measures what a sender feels

usage: sluice-load [flags] http://HOST:PORT/PATH

Load
  --rate N             requests per second, due at constant distance (default 1000)
  --rate N:LEN,N:LEN   a profile of steps, as 1000:5s,4000:20s,1000:15s
  --closed             closed loop instead: each connection sends when it was answered
  --connections N      keep-alive connections (default 64)
  --duration LEN       length of the run, as 10s or 500ms (default 10s; at most 1h)
  --count N            stop after N requests
  --timeout LEN        give an answer up after this long (default 5s)
  --grace LEN          after the last due time, wait so long for what is owed (default 5s)
  --reconnect          go on after a connection error; without it the connection is lost
  --max-connections N  open more, up to N, while due requests find no free connection
  --stream 'NAME PATH RATE'
                       several kinds of senders in one run, each with a path and a rate or profile
                       of its own over one set of connections; may be repeated, replaces --rate and
                       the address' path. A rate of 0 is a pause
  --tries N            send a delivery that was refused (429, 5xx) or lost up to N times in all:
                       after Retry-After where the answer has one, else after 5s (default 1)

Request (GitHub's form: X-Hub-Signature-256, X-GitHub-Delivery unique for each request)
  --secret S           signing secret (default: the one of GitHub's guide)
  --unsigned           send no signature
  --body-bytes N       size of the generated bodies (default 1024)
  --bodies N           how many different bodies, signed ahead (default 8)
  --body-file F        send this file instead; may be repeated
  --header 'N: V'      one more header; may be repeated
  --method M           POST or GET; a GET has no body and no signature (default POST)
  --seed N             seed of the delivery ids (default: the clock)

Output
  --json               one JSON object instead of text
  --timeline           also one line for each second of the schedule
  --good-within LEN    a 2xx within this time is `good` in the timeline (default 1s)
  --ledger FILE        every acknowledged delivery: `DELIVERY EVENT`, one a line
  --record FILE        how each request ended, one a line, times since the first due one:
                       `NAME INDEX TRY DUE_US TOOK_US CODE RETRY_AFTER_S`; CODE may be timeout,
                       closed, protocol, unsent or after-end. Two more kinds of line:
                       `start UNIX_NS` and `@ AT_US CONNECTIONS`, five times a second

Latency counts from the moment a request was due, so it includes the wait for a free
connection; it is of 2xx answers only. `unsent` are due requests that found no free
connection within --timeout, or until the grace was over: with any of them the server was
saturated. Repeats that are due after the end of the schedule are not sent.
Exit code: 0 done, 1 nothing was answered or nothing to connect to, 2 wrong usage.
";

/// What the arguments ask for.
pub enum Parsed {
    /// One run.
    Run(Box<Args>),
    /// The help text.
    Help,
}

/// One run.
#[derive(Debug)]
pub struct Args {
    /// Where the requests go.
    pub target: Target,
    /// Who sends, at least one.
    pub streams: Vec<Stream>,
    /// Whether the answers set the rate instead of the schedules.
    pub closed: bool,
    /// Length of the run.
    pub duration: Duration,
    /// Requests at most.
    pub count: u64,
    /// Keep-alive connections at the start.
    pub connections: usize,
    /// Keep-alive connections at most.
    pub connections_max: usize,
    /// How often one delivery is sent at most.
    pub tries: u32,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long the run waits for what is owed after its end.
    pub grace: Duration,
    /// Whether a connection error is survived.
    pub reconnect: bool,
    /// The signing secret, if anything is signed.
    pub secret: Option<Vec<u8>>,
    /// Bytes of a generated body.
    pub body_bytes: usize,
    /// How many generated bodies.
    pub bodies: usize,
    /// Bodies from files instead.
    pub body_files: Vec<PathBuf>,
    /// More header lines.
    pub headers: Vec<String>,
    /// Whether requests are GETs without a body.
    pub get: bool,
    /// Seed of the delivery ids.
    pub seed: u64,
    /// JSON or text.
    pub json: bool,
    /// Whether each second is reported.
    pub timeline: bool,
    /// What counts as good in the timeline.
    pub good_within: Duration,
    /// Where acknowledged deliveries are noted.
    pub ledger: Option<PathBuf>,
    /// Where each request's end is noted.
    pub record: Option<PathBuf>,
}

/// One kind of senders.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name in the record.
    pub name: String,
    /// The request target.
    pub path: String,
    /// When its deliveries are due first; empty in the closed loop.
    pub schedule: Schedule,
}

/// Where the requests go.
#[derive(Debug)]
pub struct Target {
    /// Resolved once, before the run.
    pub address: SocketAddr,
    /// The `Host` header.
    pub host: String,
    /// The request target.
    pub path: String,
}

impl Target {
    /// Reads `http://HOST:PORT/PATH`.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| format!("{url}: only http://HOST:PORT/PATH is spoken here"))?;
        let (host, path) = match rest.find('/') {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, "/"),
        };
        let with_port = if host
            .rsplit(']')
            .next()
            .is_some_and(|tail| tail.contains(':'))
        {
            host.to_string()
        } else {
            format!("{host}:80")
        };
        let address = with_port
            .to_socket_addrs()
            .map_err(|err| format!("{host}: {err}"))?
            .next()
            .ok_or_else(|| format!("{host}: the name has no address"))?;
        Ok(Self {
            address,
            host: host.to_string(),
            path: path_of(path)?,
        })
    }
}

fn path_of(text: &str) -> Result<String, String> {
    if !text.starts_with('/') || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(format!(
            "{text:?}: a path begins with / and has no blank or control character"
        ));
    }
    Ok(text.to_string())
}

impl Stream {
    /// Reads `NAME PATH RATE`.
    fn parse(text: &str, duration: Duration) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[name, path, rate] = words.as_slice() else {
            return Err(format!("--stream {text:?}: NAME PATH RATE is wanted"));
        };
        if matches!(name, "start" | "@") {
            return Err(format!("{text:?}: the record needs the word {name} itself"));
        }
        Ok(Self {
            name: name.to_string(),
            path: path_of(path)?,
            schedule: Schedule::parse(rate, duration)?,
        })
    }
}

/// Reads the arguments after the program's name.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Parsed, String> {
    let mut args = Args {
        target: Target {
            address: ([127, 0, 0, 1], 0).into(),
            host: "".into(),
            path: "".into(),
        },
        streams: Vec::new(),
        closed: false,
        duration: Duration::from_secs(10),
        count: REQUESTS_MAX,
        connections: 64,
        connections_max: 0,
        tries: 1,
        timeout: Duration::from_secs(5),
        grace: Duration::from_secs(5),
        reconnect: false,
        secret: Some(b"It's a Secret to Everybody".to_vec()),
        body_bytes: 1024,
        bodies: 8,
        body_files: Vec::new(),
        headers: Vec::new(),
        get: false,
        seed: clock_seed(),
        json: false,
        timeline: false,
        good_within: Duration::from_secs(1),
        ledger: None,
        record: None,
    };
    let mut url = None;
    let mut rate = None;
    let mut streams = Vec::new();
    while let Some(flag) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("{flag} needs a value after it"))
        };
        match flag.as_str() {
            "--help" | "-h" => return Ok(Parsed::Help),
            "--rate" => rate = Some(value()?),
            "--closed" => args.closed = true,
            "--stream" => streams.push(value()?),
            "--tries" => args.tries = number(&flag, &value()?, 1, TRIES_MAX)? as u32,
            "--max-connections" => {
                args.connections_max =
                    number(&flag, &value()?, 1, CONNECTIONS_MAX as u64)? as usize;
            }
            "--connections" => {
                args.connections = number(&flag, &value()?, 1, CONNECTIONS_MAX as u64)? as usize;
            }
            "--duration" => args.duration = duration(&value()?)?,
            "--count" => args.count = number(&flag, &value()?, 1, REQUESTS_MAX)?,
            "--timeout" => args.timeout = duration(&value()?)?,
            "--grace" => args.grace = duration(&value()?)?,
            "--reconnect" => args.reconnect = true,
            "--secret" => args.secret = Some(value()?.into_bytes()),
            "--unsigned" => args.secret = None,
            "--body-bytes" => {
                args.body_bytes = number(&flag, &value()?, 0, BODY_BYTES_MAX as u64)? as usize;
            }
            "--bodies" => args.bodies = number(&flag, &value()?, 1, BODIES_MAX as u64)? as usize,
            "--body-file" => args.body_files.push(value()?.into()),
            "--header" => args.headers.push(header(value()?)?),
            "--method" => args.get = method(&value()?)?,
            "--seed" => args.seed = number(&flag, &value()?, 0, u64::MAX)?,
            "--json" => args.json = true,
            "--timeline" => args.timeline = true,
            "--good-within" => args.good_within = duration(&value()?)?,
            "--ledger" => args.ledger = Some(value()?.into()),
            "--record" => args.record = Some(value()?.into()),
            _ if flag.starts_with('-') => return Err(format!("unknown flag {flag}")),
            _ if url.is_some() => return Err(format!("{flag}: one address only")),
            _ => url = Some(flag),
        }
    }
    args.target = Target::parse(&url.ok_or("no address given, as http://127.0.0.1:8080/hooks/x")?)?;
    if args.closed && (rate.is_some() || !streams.is_empty()) {
        return Err("--closed has no --rate and no --stream: the answers set it".into());
    }
    if rate.is_some() && !streams.is_empty() {
        return Err("--stream has its own rate: leave --rate out".into());
    }
    if streams.len() > STREAMS_MAX {
        return Err(format!("--stream: at most {STREAMS_MAX}"));
    }
    for text in &streams {
        args.streams.push(Stream::parse(text, args.duration)?);
    }
    if args.streams.is_empty() {
        let schedule = if args.closed {
            Schedule::default()
        } else {
            Schedule::parse(rate.as_deref().unwrap_or("1000"), args.duration)?
        };
        args.streams.push(Stream {
            name: "all".into(),
            path: args.target.path.clone(),
            schedule,
        });
    }
    if !args.closed {
        let lengths = args.streams.iter().map(|stream| stream.schedule.length());
        args.duration = lengths.max().unwrap_or_default();
        let count: u64 = args.streams.iter().map(|s| s.schedule.count()).sum();
        if !(1..=REQUESTS_MAX).contains(&count) {
            return Err(format!(
                "{count} requests in all: 1 to {REQUESTS_MAX} can be sent"
            ));
        }
    }
    args.connections_max = args.connections_max.max(args.connections);
    if args.duration > DURATION_MAX {
        return Err(format!(
            "the run is {:?} long, at most {DURATION_MAX:?}",
            args.duration
        ));
    }
    Ok(Parsed::Run(Box::new(args)))
}

/// Reads `10s`, `500ms`, `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let fault = || format!("{text}: no length of time, as 500ms, 10s or 2m");
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .ok_or_else(fault)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(fault()),
    };
    let number: f64 = number.parse().map_err(|_| fault())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| fault())
}

fn number(flag: &str, text: &str, min: u64, max: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!(
            "{flag} {text}: a number from {min} to {max} is wanted"
        )),
    }
}

/// Whether it is GET.
fn method(name: &str) -> Result<bool, String> {
    match name {
        "GET" => Ok(true),
        "POST" => Ok(false),
        _ => Err(format!("--method {name}: POST or GET")),
    }
}

fn header(line: String) -> Result<String, String> {
    let named = line
        .split_once(':')
        .is_some_and(|(name, _)| !name.trim().is_empty());
    if !named || line.contains(['\r', '\n']) {
        return Err(format!("--header {line:?}: must be one line, Name: value"));
    }
    Ok(line)
}

/// Two runs a nanosecond apart get different ids; nothing else depends on it.
fn clock_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |age| age.as_nanos() as u64).rotate_left(24) ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Args, String> {
        match parse(line.split_whitespace().map(String::from))? {
            Parsed::Run(args) => Ok(*args),
            Parsed::Help => Err("help".into()),
        }
    }

    #[test]
    fn the_defaults_are_an_open_loop_of_ten_seconds() {
        let args = read("http://127.0.0.1:8080/hooks/github").unwrap();
        assert_eq!(args.streams[0].schedule.count(), 10_000);
        assert_eq!(args.streams[0].path, "/hooks/github");
        assert_eq!((args.connections_max, args.tries), (64, 1));
        assert_eq!(args.target.path, "/hooks/github");
        assert_eq!(args.target.host, "127.0.0.1:8080");
        assert_eq!(args.target.address, "127.0.0.1:8080".parse().unwrap());
    }

    #[test]
    fn a_profile_sets_the_length_of_the_run() {
        let args = read("--rate 10:1s,20:2s http://127.0.0.1:1").unwrap();
        assert_eq!(args.duration, Duration::from_secs(3));
        assert_eq!(args.target.path, "/");
    }

    #[test]
    fn streams_have_paths_and_rates_of_their_own() {
        let read_words = |words: &[&str]| match parse(words.iter().map(|w| w.to_string())) {
            Ok(Parsed::Run(args)) => Ok(*args),
            Ok(Parsed::Help) => Err("help".into()),
            Err(fault) => Err(fault),
        };
        let args = read_words(&[
            "--stream",
            "high /hooks/high 10:1s,0:1s,20:2s",
            "--stream",
            "low /hooks/low 5",
            "--duration",
            "2s",
            "http://127.0.0.1:1",
        ])
        .unwrap();
        let paths: Vec<&str> = args.streams.iter().map(|s| s.path.as_str()).collect();
        assert_eq!(paths, ["/hooks/high", "/hooks/low"]);
        let counts: Vec<u64> = args.streams.iter().map(|s| s.schedule.count()).collect();
        assert_eq!(counts, [50, 10]);
        assert_eq!(args.duration, Duration::from_secs(4));
        for stream in [
            "high /x",
            "high x 5",
            "start /x 5",
            "@ /x 5",
            "a /x 5 6",
            "a /x 0",
        ] {
            assert!(
                read_words(&["--stream", stream, "http://127.0.0.1:1"]).is_err(),
                "{stream}"
            );
        }
    }

    #[test]
    fn wrong_usage_is_named() {
        for (line, word) in [
            ("", "no address"),
            ("https://127.0.0.1:1/", "only http"),
            ("--closed --rate 5 http://127.0.0.1:1/", "--closed"),
            ("--duration 2h http://127.0.0.1:1/", "at most"),
            ("--connections 0 http://127.0.0.1:1/", "--connections"),
            ("--fast http://127.0.0.1:1/", "--fast"),
            ("http://127.0.0.1:1/ --rate", "needs a value"),
            ("--header X http://127.0.0.1:1/", "Name: value"),
            ("--method PUT http://127.0.0.1:1/", "POST or GET"),
            ("--tries 0 http://127.0.0.1:1/", "--tries"),
        ] {
            let fault = read(line).unwrap_err();
            assert!(fault.contains(word), "{line}: {fault}");
        }
    }

    #[test]
    fn every_flag_is_in_the_help() {
        let source = include_str!("args.rs");
        let flags = source.lines().filter_map(|line| {
            let line = line.trim_start();
            line.starts_with("\"--")
                .then(|| line[1..].split('"').next().unwrap())
        });
        let mut seen = 0;
        for flag in flags.filter(|flag| *flag != "--help") {
            assert!(HELP.contains(flag), "{flag}");
            seen += 1;
        }
        assert!(seen >= 23, "only {seen} flags found");
    }
}
