//! The command line, read by hand: a dozen flags do not need a parser of their own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{BODIES_MAX, BODY_BYTES_MAX, CONNECTIONS_MAX, DURATION_MAX, REQUESTS_MAX};
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

Request (GitHub's form: X-Hub-Signature-256, X-GitHub-Delivery unique for each request)
  --secret S           signing secret (default: the one of GitHub's guide)
  --unsigned           send no signature
  --body-bytes N       size of the generated bodies (default 1024)
  --bodies N           how many different bodies, signed ahead (default 8)
  --body-file F        send this file instead; may be repeated
  --header 'N: V'      one more header; may be repeated
  --seed N             seed of the delivery ids (default: the clock)

Output
  --json               one JSON object instead of text
  --timeline           also one line for each second of the schedule
  --good-within LEN    a 2xx within this time is `good` in the timeline (default 1s)
  --ledger FILE        every acknowledged delivery: `DELIVERY EVENT`, one a line

Latency counts from the moment a request was due, so it includes the wait for a free
connection; it is of 2xx answers only. `unsent` are due requests that found no free
connection until the grace was over: with any of them the server was saturated.
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
    /// When they are due; `None` is the closed loop.
    pub schedule: Option<Schedule>,
    /// Length of the run.
    pub duration: Duration,
    /// Requests at most.
    pub count: u64,
    /// Keep-alive connections.
    pub connections: usize,
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
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!("{url}: a blank or control character in the path"));
        }
        Ok(Self {
            address,
            host: host.to_string(),
            path: path.to_string(),
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
        schedule: None,
        duration: Duration::from_secs(10),
        count: REQUESTS_MAX,
        connections: 64,
        timeout: Duration::from_secs(5),
        grace: Duration::from_secs(5),
        reconnect: false,
        secret: Some(b"It's a Secret to Everybody".to_vec()),
        body_bytes: 1024,
        bodies: 8,
        body_files: Vec::new(),
        headers: Vec::new(),
        seed: clock_seed(),
        json: false,
        timeline: false,
        good_within: Duration::from_secs(1),
        ledger: None,
    };
    let mut url = None;
    let mut rate = None;
    let mut closed = false;
    while let Some(flag) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("{flag} needs a value after it"))
        };
        match flag.as_str() {
            "--help" | "-h" => return Ok(Parsed::Help),
            "--rate" => rate = Some(value()?),
            "--closed" => closed = true,
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
            "--seed" => args.seed = number(&flag, &value()?, 0, u64::MAX)?,
            "--json" => args.json = true,
            "--timeline" => args.timeline = true,
            "--good-within" => args.good_within = duration(&value()?)?,
            "--ledger" => args.ledger = Some(value()?.into()),
            _ if flag.starts_with('-') => return Err(format!("unknown flag {flag}")),
            _ if url.is_some() => return Err(format!("{flag}: one address only")),
            _ => url = Some(flag),
        }
    }
    args.target = Target::parse(&url.ok_or("no address given, as http://127.0.0.1:8080/hooks/x")?)?;
    if closed && rate.is_some() {
        return Err("--closed has no --rate: the answers set it".into());
    }
    if !closed {
        let schedule = Schedule::parse(rate.as_deref().unwrap_or("1000"), args.duration)?;
        args.duration = schedule.length();
        args.schedule = Some(schedule);
    }
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
        assert_eq!(args.schedule.unwrap().count(), 10_000);
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
        assert!(seen >= 18, "only {seen} flags found");
    }
}
