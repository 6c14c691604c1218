//! Runs the built generator against small servers of its own.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Serves every connection on its own thread; `answer` gets the index of the request and says
/// what is written back, or `None` to close without an answer.
fn serve(
    answer: impl Fn(u64, &str) -> Option<String> + Send + Sync + 'static,
) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hooks/github", listener.local_addr().unwrap());
    let count = Arc::new(AtomicU64::new(0));
    let (seen, answer) = (count.clone(), Arc::new(answer));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (seen, answer) = (seen.clone(), answer.clone());
            thread::spawn(move || converse(stream, &seen, &*answer));
        }
    });
    (url, count)
}

fn converse(mut stream: TcpStream, seen: &AtomicU64, answer: &dyn Fn(u64, &str) -> Option<String>) {
    let mut buf = Vec::new();
    let mut chunk = [0; 16384];
    loop {
        let head_len = loop {
            if let Some(at) = buf.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut chunk) {
                Ok(n) if n > 0 => buf.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        };
        let head = String::from_utf8(buf[..head_len].to_vec()).unwrap();
        let body_len: usize = field(&head, "Content-Length").parse().unwrap_or(0);
        while buf.len() < head_len + body_len {
            match stream.read(&mut chunk) {
                Ok(n) if n > 0 => buf.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        }
        buf.drain(..head_len + body_len);
        let Some(bytes) = answer(seen.fetch_add(1, Ordering::SeqCst), &head) else {
            return;
        };
        if stream.write_all(bytes.as_bytes()).is_err() {
            return;
        }
    }
}

fn field<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        .unwrap_or("")
}

fn accepted(id: &str) -> Option<String> {
    Some(format!(
        "HTTP/1.1 200 OK\r\nX-Event-Id: {id}\r\nContent-Length: 2\r\n\r\nok"
    ))
}

fn load(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice-load"))
        .args(args)
        .output()
        .unwrap()
}

/// A number out of the one-line JSON report.
fn number(output: &Output, key: &str) -> f64 {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let from = text
        .find(&format!("\"{key}\":"))
        .unwrap_or_else(|| panic!("{key} in {text}"));
    let rest = &text[from + key.len() + 3..];
    let end = rest.find([',', '}']).unwrap();
    rest[..end]
        .parse()
        .unwrap_or_else(|_| panic!("{key} in {text}"))
}

#[test]
fn a_stall_is_charged_to_every_request_that_it_delayed() {
    let stall = Duration::from_millis(1000);
    // The server holds every connection for a second: 1000 of the 2000 requests are due while
    // it does, and an answer before its end is impossible. So at least half of the run's
    // requests waited, evenly from 0 to 1 s; a generator that omits the stall would report
    // four slow ones, one for each connection.
    let gate = Arc::new(std::sync::RwLock::new(()));
    let (url, _) = serve(move |index, _| {
        if index == 500 {
            let _held = gate.write().unwrap();
            thread::sleep(stall);
        }
        let _open = gate.read().unwrap();
        accepted("e")
    });
    let output = load(&[
        "--rate",
        "1000",
        "--duration",
        "2s",
        "--connections",
        "4",
        "--json",
        &url,
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(number(&output, "sent"), 2000.0);
    assert_eq!(number(&output, "ok"), 2000.0);
    assert!(number(&output, "p90") > 600_000.0, "{output:?}");
    assert!(number(&output, "p99") > 900_000.0, "{output:?}");
    assert!(number(&output, "max") > 950_000.0, "{output:?}");
}

#[test]
fn every_delivery_is_unique_signed_and_in_the_ledger() {
    let seen = Arc::new(std::sync::Mutex::new(HashSet::new()));
    let server_seen = seen.clone();
    let (url, count) = serve(move |index, head| {
        assert!(
            field(head, "X-Hub-Signature-256").starts_with("sha256="),
            "{head}"
        );
        let delivery = field(head, "X-GitHub-Delivery").to_string();
        assert!(
            server_seen.lock().unwrap().insert(delivery.clone()),
            "{delivery} came twice"
        );
        if index % 4 == 3 {
            return Some("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".into());
        }
        accepted(&format!("event-of-{delivery}"))
    });
    let ledger = std::env::temp_dir().join(format!("sluice-load-ledger-{}", std::process::id()));
    let output = load(&[
        "--closed",
        "--count",
        "400",
        "--connections",
        "3",
        "--body-bytes",
        "20000",
        "--json",
        "--ledger",
        ledger.to_str().unwrap(),
        &url,
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count.load(Ordering::SeqCst), 400);
    assert_eq!(number(&output, "ok"), 300.0);
    assert_eq!(number(&output, "503"), 100.0);
    let lines = std::fs::read_to_string(&ledger).unwrap();
    std::fs::remove_file(&ledger).unwrap();
    assert_eq!(lines.lines().count(), 300);
    let sent = seen.lock().unwrap();
    for line in lines.lines() {
        let (delivery, event) = line.split_once(' ').unwrap();
        assert!(sent.contains(delivery), "{delivery} was never received");
        assert_eq!(event, format!("event-of-{delivery}"));
    }
}

#[test]
fn a_lost_connection_is_counted_and_made_again_only_if_asked() {
    let flaky = |index, _: &str| if index % 10 == 9 { None } else { accepted("e") };
    let (url, _) = serve(flaky);
    let output = load(&[
        "--closed",
        "--count",
        "100",
        "--connections",
        "2",
        "--reconnect",
        "--json",
        &url,
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        (number(&output, "ok"), number(&output, "closed")),
        (90.0, 10.0)
    );
    assert!(number(&output, "reconnects") >= 8.0, "{output:?}");

    let (url, _) = serve(flaky);
    let output = load(&[
        "--closed",
        "--count",
        "100",
        "--connections",
        "2",
        "--json",
        &url,
    ]);
    assert_eq!(
        (number(&output, "ok"), number(&output, "closed")),
        (18.0, 2.0),
        "{output:?}"
    );
}

#[test]
fn an_announced_close_is_no_error() {
    let (url, _) = serve(|index, _| {
        let close = if index % 2 == 1 {
            "Connection: close\r\n"
        } else {
            ""
        };
        Some(format!(
            "HTTP/1.1 200 OK\r\n{close}Content-Length: 0\r\n\r\n"
        ))
    });
    let output = load(&[
        "--closed",
        "--count",
        "50",
        "--connections",
        "1",
        "--json",
        &url,
    ]);
    assert_eq!(
        (number(&output, "ok"), number(&output, "closed")),
        (50.0, 0.0),
        "{output:?}"
    );
}

#[test]
fn requests_that_a_dead_server_never_took_are_counted() {
    let (url, _) = serve(|_, _| {
        thread::park_timeout(Duration::from_millis(60_000));
        None
    });
    let output = load(&[
        "--rate",
        "100",
        "--duration",
        "300ms",
        "--grace",
        "200ms",
        "--connections",
        "2",
        "--json",
        &url,
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(
        (number(&output, "sent"), number(&output, "unsent")),
        (2.0, 28.0)
    );
    assert_eq!(number(&output, "timeout"), 2.0);
}

#[test]
fn the_timeline_has_a_row_for_each_second_and_loses_none() {
    let (url, _) = serve(|_, _| accepted("e"));
    let output = load(&["--rate", "50:1s,200:1s", "--timeline", "--json", &url]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("\"seconds\":[{\"due\":50,"), "{text}");
    assert!(text.contains("{\"due\":200,"), "{text}");
    assert_eq!(number(&output, "ok"), 250.0);
}

#[test]
fn nothing_to_connect_to_is_exit_1_and_wrong_usage_is_exit_2() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let output = load(&[&format!("http://127.0.0.1:{port}/")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("0 of 64 connections"));
    assert_eq!(
        load(&["--rate", "0", "http://127.0.0.1:1/"]).status.code(),
        Some(2)
    );
    let help = load(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("--ledger FILE"));
}

/// Runs with a record and gives its lines of requests as words, and its number of pulses.
fn recorded(name: &str, args: &[&str]) -> (Output, Vec<Vec<String>>, usize) {
    let file = std::env::temp_dir().join(format!("sluice-load-{name}-{}", std::process::id()));
    let mut words = vec!["--json", "--record", file.to_str().unwrap()];
    words.extend(args);
    let output = load(&words);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("start "), "{text}");
    let (pulses, requests): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with('@'));
    let words = |line: &&str| line.split(' ').map(String::from).collect();
    (output, requests.iter().map(words).collect(), pulses.len())
}

#[test]
fn each_stream_goes_to_its_path_at_its_rate_and_is_in_the_record() {
    let (url, _) = serve(|_, head| {
        if head.starts_with("POST /low ") {
            return Some("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n".into());
        }
        assert!(head.starts_with("POST /high "), "{head}");
        accepted("e")
    });
    let (output, requests, pulses) = recorded(
        "streams",
        &[
            "--stream",
            "up /high 50:1s",
            "--stream",
            "down /low 0:500ms,40:500ms",
            &url,
        ],
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(requests.len(), 70);
    assert!(pulses >= 4, "{pulses}");
    for words in &requests {
        let due_us: u64 = words[3].parse().unwrap();
        match words[0].as_str() {
            "up" => assert_eq!((&*words[2], &*words[5], &*words[6]), ("1", "200", "0")),
            _ => {
                assert_eq!((&*words[0], &*words[5], &*words[6]), ("down", "503", "7"));
                assert!(due_us >= 500_000, "{words:?}");
            }
        }
    }
    assert_eq!(requests.iter().filter(|words| words[0] == "up").count(), 50);
}

#[test]
fn a_refused_delivery_comes_again_after_retry_after_with_its_id() {
    let ids = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = ids.clone();
    let (url, _) = serve(move |index, head| {
        seen.lock()
            .unwrap()
            .push(field(head, "X-GitHub-Delivery").to_string());
        if index < 3 {
            let wait = if index < 2 { 1 } else { 60 };
            return Some(format!(
                "HTTP/1.1 503 Busy\r\nRetry-After: {wait}\r\nContent-Length: 0\r\n\r\n"
            ));
        }
        accepted("e")
    });
    // Two deliveries: both are refused and come again after a second; of those repeats one is
    // told to come later than the run is long.
    let profile = "x /x 2:1s,0:2s";
    let (output, requests, _) = recorded("repeats", &["--tries", "3", "--stream", profile, &url]);
    assert!(output.status.success(), "{output:?}");
    let ids = ids.lock().unwrap();
    assert_eq!(ids.len(), 4);
    assert_eq!((&ids[0], &ids[1]), (&ids[2], &ids[3]));
    assert_ne!(ids[0], ids[1]);
    let of = |attempt: &str| -> Vec<&str> {
        let tries = requests.iter().filter(|words| words[2] == attempt);
        tries.map(|words| words[5].as_str()).collect()
    };
    assert_eq!((of("1"), of("2")), (vec!["503", "503"], vec!["503", "200"]));
    assert_eq!(of("3"), ["after-end"]);
    for words in requests.iter().filter(|words| words[2] == "2") {
        let due_us: u64 = words[3].parse().unwrap();
        assert!(due_us >= 1_000_000, "{words:?}");
    }
    assert_eq!(number(&output, "after_end"), 1.0);
}

#[test]
fn a_refusal_for_good_is_not_tried_again() {
    let (url, count) = serve(|_, _| Some("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".into()));
    let args = [
        "--tries",
        "5",
        "--rate",
        "10",
        "--duration",
        "500ms",
        "--json",
        &url,
    ];
    assert!(load(&args).status.success());
    assert_eq!(count.load(Ordering::SeqCst), 5);
}

#[test]
fn connections_are_added_while_requests_wait_for_one() {
    // Every request is held until 20 are there, which needs 20 connections at once.
    let together = Arc::new(std::sync::Barrier::new(20));
    let (url, _) = serve(move |_, _| {
        together.wait();
        accepted("e")
    });
    let args = [
        "--rate",
        "100:200ms",
        "--connections",
        "1",
        "--max-connections",
    ];
    let output = load(&[&args[..], &["64", "--reconnect", "--json", &url]].concat());
    assert_eq!(
        (number(&output, "ok"), number(&output, "unsent")),
        (20.0, 0.0),
        "{output:?}"
    );
}

#[test]
fn a_get_is_sent_without_a_body() {
    let (url, _) = serve(|_, head| {
        assert!(head.starts_with("GET /hooks/github HTTP/1.1\r\n"), "{head}");
        accepted("e")
    });
    let output = load(&[
        "--method", "GET", "--count", "3", "--rate", "100", "--json", &url,
    ]);
    assert_eq!(number(&output, "ok"), 3.0, "{output:?}");
}
