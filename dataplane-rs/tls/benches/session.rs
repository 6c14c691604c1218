//! Time that a server spends on TLS, beside the buffered rustls in the same run.
//!
//! `cargo bench -p sluice-tls --bench session`. Only the server's calls are timed; its client runs
//! in between on the same core. Prints the best and the middle of many runs: on a shared machine
//! the others measure the neighbours.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use sluice_tls::{Acceptor, CertificateKey, Session, Settings, TicketKey, Tickets};

const RUNS: usize = 300;
const BULK: usize = 4 << 20;
/// What one receive brings at most.
const PART: usize = 64 << 10;

trait Server {
    fn receive(&mut self, data: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>);
    fn send(&mut self, plain: &[u8], out: &mut Vec<u8>);
}

impl Server for Session {
    fn receive(&mut self, data: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) {
        Session::receive(self, data, plain, out).unwrap();
    }

    fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        Session::send(self, plain, out).unwrap();
    }
}

struct Buffered(ServerConnection);

impl Server for Buffered {
    fn receive(&mut self, data: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) {
        let mut data = &*data;
        while !data.is_empty() {
            self.0.read_tls(&mut data).unwrap();
            let size = self
                .0
                .process_new_packets()
                .unwrap()
                .plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + size, 0);
            self.0.reader().read_exact(&mut plain[start..]).unwrap();
        }
        while self.0.wants_write() {
            self.0.write_tls(out).unwrap();
        }
    }

    fn send(&mut self, mut plain: &[u8], out: &mut Vec<u8>) {
        while !plain.is_empty() {
            let size = self.0.writer().write(plain).unwrap();
            plain = &plain[size..];
            while self.0.wants_write() {
                self.0.write_tls(out).unwrap();
            }
        }
    }
}

fn report(name: &str, mut times: Vec<Duration>, show: impl Fn(f64) -> String) {
    times.sort_unstable();
    let (best, middle) = (times[0].as_secs_f64(), times[times.len() / 2].as_secs_f64());
    println!("    {name}: best {}, middle {}", show(best), show(middle));
}

fn written(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn read(client: &mut ClientConnection, mut bytes: &[u8]) {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        let size = client
            .process_new_packets()
            .unwrap()
            .plaintext_bytes_to_read();
        plain.resize(size, 0);
        client.reader().read_exact(&mut plain).unwrap();
    }
}

/// A handshake, and what the server spent on it, with the making of its session.
fn handshake<S: Server>(
    config: &Arc<ClientConfig>,
    make: &dyn Fn() -> S,
) -> (ClientConnection, S, Duration) {
    let name = "localhost".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let start = Instant::now();
    let mut server = make();
    let mut spent = start.elapsed();
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    loop {
        let mut bytes = written(&mut client);
        if bytes.is_empty() {
            return (client, server, spent);
        }
        out.clear();
        let start = Instant::now();
        server.receive(&mut bytes, &mut plain, &mut out);
        spent += start.elapsed();
        read(&mut client, &out);
    }
}

fn handshakes<S: Server>(config: &Arc<ClientConfig>, name: &str, make: &dyn Fn() -> S) {
    handshake(config, make);
    let times = (0..RUNS).map(|_| handshake(config, make).2).collect();
    report(name, times, |seconds| {
        format!("{:.0} µs = {:.0}/s", seconds * 1e6, 1.0 / seconds)
    });
}

fn traffic<S: Server>(config: &Arc<ClientConfig>, name: &str, make: &dyn Fn() -> S) {
    let (mut client, mut server, _) = handshake(config, make);
    client.set_buffer_limit(None);
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let rate = |bytes: usize| move |seconds| format!("{:.2} GB/s", bytes as f64 / seconds / 1e9);

    let body = vec![7; BULK];
    let mut times = Vec::new();
    for _ in 0..20 {
        client.writer().write_all(&body).unwrap();
        let mut bytes = written(&mut client);
        let start = Instant::now();
        for part in bytes.chunks_mut(PART) {
            plain.clear();
            server.receive(part, &mut plain, &mut out);
        }
        times.push(start.elapsed());
    }
    report(&format!("{name}, received"), times, rate(BULK));

    let mut times = Vec::new();
    for _ in 0..20 {
        let mut spent = Duration::ZERO;
        for part in body.chunks(PART) {
            out.clear();
            let start = Instant::now();
            server.send(part, &mut out);
            spent += start.elapsed();
            read(&mut client, &out);
        }
        times.push(spent);
    }
    report(&format!("{name}, sent"), times, rate(BULK));

    let (request, answer) = (vec![7; 2048], vec![7; 128]);
    let times = (0..RUNS * 10).map(|_| {
        client.writer().write_all(&request).unwrap();
        let mut bytes = written(&mut client);
        plain.clear();
        out.clear();
        let start = Instant::now();
        server.receive(&mut bytes, &mut plain, &mut out);
        server.send(&answer, &mut out);
        let spent = start.elapsed();
        read(&mut client, &out);
        spent
    });
    let times = times.collect();
    report(&format!("{name}, 2 KiB and an answer"), times, |seconds| {
        format!("{:.2} µs", seconds * 1e6)
    });
}

fn main() {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let chain = params.self_signed(&key).unwrap().pem();
    let key = key.serialize_pem();
    let leaf = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();

    let tickets = Arc::new(Tickets::new());
    tickets.set(&[TicketKey {
        name: [1; 16],
        key: [2; 32],
    }]);
    let certificate = CertificateKey {
        chain: chain.as_bytes(),
        key: key.as_bytes(),
    };
    let settings = Settings {
        certificates: &[certificate],
        client_ca: &[],
        client_required: false,
    };
    let acceptor = Acceptor::new(&settings, &tickets).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut buffered = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.clone()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    buffered.session_storage = Arc::new(NoServerSessionStorage {});
    buffered.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    buffered.send_tls13_tickets = 1;
    let buffered = Arc::new(buffered);
    let session = || Session::new(&acceptor);
    let twin = || Buffered(ServerConnection::new(Arc::clone(&buffered)).unwrap());
    println!("{} bytes in a session itself", size_of::<Session>());

    let client = |version: &'static SupportedProtocolVersion, post_quantum: bool, resume: bool| {
        let mut roots = RootCertStore::empty();
        roots.add(leaf.clone()).unwrap();
        let mut provider = aws_lc_rs::default_provider();
        if !post_quantum {
            provider.kx_groups = vec![kx_group::X25519];
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        if !resume {
            config.resumption = rustls::client::Resumption::disabled();
        }
        Arc::new(config)
    };
    for (name, version, post_quantum, resume) in [
        ("TLS 1.3, X25519MLKEM768, P-256", &TLS13, true, false),
        ("TLS 1.3, X25519, P-256", &TLS13, false, false),
        ("TLS 1.3, X25519, resumed", &TLS13, false, true),
        ("TLS 1.2, X25519, P-256", &TLS12, false, false),
        ("TLS 1.2, resumed", &TLS12, false, true),
    ] {
        println!("handshakes, {name}");
        handshakes(&client(version, post_quantum, resume), "session", &session);
        handshakes(&client(version, post_quantum, resume), "buffered", &twin);
    }
    for (name, version) in [("TLS 1.3", &TLS13), ("TLS 1.2", &TLS12)] {
        println!("traffic, {name}");
        let config = client(version, false, false);
        traffic(&config, "session", &session);
        traffic(&config, "buffered", &twin);
    }
}
