//! With everything taken away it still does all that it is for.

use crate::plane::{PATIENCE, Process, SOMEBODY, Setup, is_root};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use sluice_kernel::sys;
use sluice_proto as proto;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const ALL: [&str; 6] = [
    "user",
    "capabilities",
    "no_new_privs",
    "landlock",
    "ring_restrictions",
    "seccomp",
];

/// Started by this user, with this driver: takes everything away and does everything.
fn serves_confined(user: Option<u32>, driver: &str) {
    if let (Err(refusal), "io_uring") = (sluice_kernel::probe(), driver) {
        println!("skipped: {refusal}");
        return;
    }
    let mode = if all_layers_are_here() {
        "require"
    } else {
        "auto"
    };
    let setup = Setup {
        args: &["--sandbox", mode, "--driver", driver],
        user,
        ..Setup::default()
    };
    let (mut process, hello) = Process::hello(&setup);
    assert_eq!(hello.driver, driver);
    assert_eq!(hello.driver_reason.is_empty(), driver == "io_uring");
    if mode == "require" {
        let mut all = ALL.to_vec();
        all.retain(|&layer| driver == "io_uring" || layer != "ring_restrictions");
        assert_eq!(
            (hello.sandbox, hello.sandbox_reason),
            (strings(&all), String::new())
        );
        assert_eq!(process.status("Seccomp"), "2");
    }
    let id = user.unwrap_or(if is_root() { 65534 } else { own_user() });
    assert!(process.status("Uid").starts_with(&format!("{id}\t{id}")));
    assert_eq!(process.status("CapPrm"), "0000000000000000");
    assert_eq!(process.status("CapAmb"), "0000000000000000");
    assert_eq!(process.status("NoNewPrivs"), "1");

    process.configure(vec![]);
    let mut sender = connect(&process);
    let ask = b"POST /a HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello";
    sender.write_all(ask).unwrap();
    process.answer();
    assert!(head(&mut sender).starts_with("HTTP/1.1 200 "));

    let socket = UnixStream::connect(process.path("fds")).unwrap();
    let mut message = [0; 16];
    let (length, fds) = sys::recv_fds(socket.as_fd(), &mut message, 16).unwrap();
    assert_eq!((&message[..length], fds.len()), (&b"2 1"[..], 6));

    let grace_ns = PATIENCE.as_nanos() as u64;
    let _: proto::DrainReply = process.call("Drain", &proto::DrainRequest { grace_ns });
    drop(sender);
    assert!(process.end().success(), "{}", process.log());
    assert!(
        !process.log().contains("refused system call"),
        "{}",
        process.log()
    );
    assert_eq!(
        std::fs::read(process.path("words")).unwrap(),
        b"",
        "it had none to say"
    );
}

/// Whether this host gives all layers; where it does not, that is said.
fn all_layers_are_here() -> bool {
    let (_process, hello) = Process::hello(&Setup::default());
    if !hello.sandbox_reason.is_empty() {
        println!("without some layers: {}", hello.sandbox_reason);
    }
    hello.sandbox_reason.is_empty()
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn own_user() -> u32 {
    sluice_kernel::sandbox::current_user()
}

fn connect(process: &Process) -> TcpStream {
    let stream = TcpStream::connect(process.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An answer's head.
fn head(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn whoever_starts_it_serves_confined_on_io_uring() {
    serves_confined(None, "io_uring");
}

#[test]
fn whoever_starts_it_serves_confined_on_epoll() {
    serves_confined(None, "epoll");
}

#[test]
fn an_ordinary_user_serves_confined_on_io_uring() {
    if is_root() {
        serves_confined(Some(SOMEBODY), "io_uring");
    } // else the other test was that
}

#[test]
fn an_ordinary_user_serves_confined_on_epoll() {
    if is_root() {
        serves_confined(Some(SOMEBODY), "epoll");
    } // else the other test was that
}

#[test]
fn tls_needs_no_call_that_the_filter_refuses() {
    let (process, _) = Process::hello(&Setup::default());
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["hooks.test".into()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    process.configure(vec![proto::Listener {
        tls: Some(proto::Tls {
            certificates: vec![proto::CertificateKey {
                chain: certificate.pem().into(),
                key: key.serialize_pem().into(),
            }],
            ..proto::Tls::default()
        }),
        ..proto::Listener::default()
    }]);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::clone(certificate.der())).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    for _ in 0..3 {
        let name = "hooks.test".try_into().unwrap();
        let mut session = ClientConnection::new(config.clone(), name).unwrap();
        let mut stream = connect(&process);
        let mut tls = Stream::new(&mut session, &mut stream);
        tls.write_all(b"GET /nothing HTTP/1.1\r\nHost: test\r\n\r\n")
            .unwrap();
        assert!(head(&mut tls).starts_with("HTTP/1.1 404 "));
    }
    assert!(
        !process.log().contains("refused system call"),
        "{}",
        process.log()
    );
}

#[test]
fn without_a_sandbox_nothing_is_taken_away() {
    let setup = Setup {
        args: &["--sandbox", "off"],
        ..Setup::default()
    };
    let (process, hello) = Process::hello(&setup);
    assert_eq!(
        (hello.sandbox, hello.sandbox_reason),
        (vec![], String::new())
    );
    let id = own_user();
    assert!(process.status("Uid").starts_with(&format!("{id}\t")));
    assert_eq!(process.status("NoNewPrivs"), "0");
}
