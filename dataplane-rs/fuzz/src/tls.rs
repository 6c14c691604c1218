//! TLS sessions: bytes of anybody, and those of an honest client that somebody on the way cuts,
//! loses and changes. What comes out is always the beginning of what that client put in.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};
use sluice_tls::{Acceptor, CertificateKey, Session, Settings, TicketKey, Tickets, limits};

use crate::cuts;

/// How the client of an input is made, from its second byte.
const ANYBODY: u8 = 1;
const TLS12: u8 = 2;
const RESUMES: u8 = 4;

pub fn run(input: &[u8]) {
    let (how, rest) = cuts::split(input);
    let (flags, rest) = cuts::split(rest);
    if flags & ANYBODY != 0 {
        of_anybody(how, rest);
    } else {
        of_a_client(how, flags, rest);
    }
}

fn acceptor() -> &'static Acceptor {
    static ACCEPTOR: OnceLock<Acceptor> = OnceLock::new();
    ACCEPTOR.get_or_init(|| {
        let made =
            rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
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
            client_ca: b"",
            client_required: false,
        };
        Acceptor::new(&settings, &tickets).expect("an acceptor")
    })
}

/// What a session made of bytes.
struct Received {
    session: Session,
    plain: Vec<u8>,
    out: Vec<u8>,
    error: Option<String>,
}

impl Received {
    fn new() -> Received {
        let session = Session::new(acceptor());
        Received {
            session,
            plain: Vec::new(),
            out: Vec::new(),
            error: None,
        }
    }

    fn receive(&mut self, piece: &[u8]) {
        let mut piece = piece.to_vec();
        let result = self
            .session
            .receive(&mut piece, &mut self.plain, &mut self.out);
        if let (Err(error), None) = (result, &self.error) {
            self.error = Some(error.to_string());
        }
        assert!(self.session.kept() <= 2 * limits::KEPT_BYTES_MAX);
        if self.error.is_some() {
            assert_eq!(self.session.kept(), 0, "a session that is over keeps bytes");
        }
    }
}

fn of_anybody(how: u8, bytes: &[u8]) {
    let mut whole = Received::new();
    whole.receive(bytes);
    let mut cut = Received::new();
    for piece in cuts::pieces(bytes, how) {
        cut.receive(piece);
    }
    assert_eq!(cut.error, whole.error, "the cuts make a difference");
    assert_eq!(cut.session.closed_by_peer(), whole.session.closed_by_peer());
    assert_eq!(cut.out.is_empty(), whole.out.is_empty());
    for received in [&mut whole, &mut cut] {
        assert!(received.plain.is_empty(), "nobody has the keys to say this");
        assert!(received.session.is_handshaking() || received.error.is_some());
        assert!(received.session.client_names().is_empty());
        let length = received.out.len();
        assert!(received.session.send(b"x", &mut received.out).is_err());
        received.session.close(&mut received.out);
        assert_eq!(
            received.out.len(),
            length,
            "sent before the handshake was over"
        );
        received.receive(bytes);
        assert_eq!(received.out.len(), length, "answered after the end");
    }
}

/// Takes the server for who it says it is: who may be believed is the client's to fuzz.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn client_config(flags: u8) -> Arc<ClientConfig> {
    let version: &[&SupportedProtocolVersion] = if flags & TLS12 != 0 {
        &[&rustls::version::TLS12]
    } else {
        &[&rustls::version::TLS13]
    };
    let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into());
    let builder = builder.with_protocol_versions(version).expect("a version");
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone));
    let mut config = builder.with_no_client_auth();
    if flags & RESUMES == 0 {
        config.resumption = Resumption::disabled();
    }
    config.into()
}

/// Both ends, and what is on its way to the server.
struct Pair {
    client: ClientConnection,
    server: Received,
    way: Vec<u8>,
    put_in: Vec<u8>,
    sent_back: Vec<u8>,
    came_back: Vec<u8>,
    client_closed: bool,
    server_closed: bool,
    is_touched: bool,
}

impl Pair {
    fn new(config: &Arc<ClientConfig>) -> Pair {
        let name = ServerName::try_from("a.test").expect("a name");
        Pair {
            client: ClientConnection::new(config.clone(), name).expect("a client"),
            server: Received::new(),
            way: Vec::new(),
            put_in: Vec::new(),
            sent_back: Vec::new(),
            came_back: Vec::new(),
            client_closed: false,
            server_closed: false,
            is_touched: false,
        }
    }

    /// What the client has to send is on its way.
    fn collect(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.way).expect("a buffer");
        }
    }

    /// So many bytes arrive, and the answer does.
    fn deliver(&mut self, length: usize) {
        self.collect();
        let piece: Vec<u8> = self.way.drain(..length.min(self.way.len())).collect();
        self.server.receive(&piece);
        self.answer();
    }

    fn answer(&mut self) {
        let out = std::mem::take(&mut self.server.out);
        let mut rest = &out[..];
        while !rest.is_empty() {
            let read = self.client.read_tls(&mut rest);
            let failed = self.client.process_new_packets().is_err();
            let _ = self.client.reader().read_to_end(&mut self.came_back);
            if failed || !matches!(read, Ok(1..)) {
                assert!(self.is_touched || self.server_closed || self.client_closed);
                break;
            }
        }
        self.collect();
    }

    fn write(&mut self, length: usize) {
        // Numbered, so that a piece out of its place is seen.
        let start = self.put_in.len();
        let bytes: Vec<u8> = (start..start + length).map(|i| (i % 251) as u8).collect();
        if !self.client_closed {
            // The client's own bound on what it buffers may cut it.
            let taken = self.client.writer().write(&bytes).unwrap_or(0);
            self.put_in.extend_from_slice(&bytes[..taken]);
        }
    }

    fn send(&mut self, length: usize) {
        let start = self.sent_back.len();
        let bytes: Vec<u8> = (start..start + length).map(|i| (i % 241) as u8).collect();
        if self
            .server
            .session
            .send(&bytes, &mut self.server.out)
            .is_ok()
        {
            self.sent_back.extend_from_slice(&bytes);
        }
        self.answer();
    }
}

/// Steps of two bytes: what happens, and how much of it.
fn of_a_client(how: u8, flags: u8, steps: &[u8]) {
    let config = client_config(flags);
    if flags & RESUMES != 0 {
        let mut first = Pair::new(&config);
        settle(&mut first, 64);
        first.send(1);
        assert!(
            !first.server.session.is_handshaking(),
            "an untouched handshake is not over"
        );
    }
    let mut pair = Pair::new(&config);
    let mut updates = 0;
    for step in steps.chunks_exact(2).take(200) {
        let (what, much) = (step[0] % 10, usize::from(step[1]));
        match what {
            0 => pair.write(much),
            1 => pair.write(much * 257),
            2 => pair.send(much * 67),
            3 => pair.deliver(much),
            4 => pair.deliver(much * 64),
            5 => {
                pair.collect();
                let place = much * pair.way.len() / 256;
                if let Some(byte) = pair.way.get_mut(place) {
                    *byte ^= 1 << (step[0] / 10 % 8);
                    pair.is_touched = true;
                }
            }
            6 => {
                pair.collect();
                let lost = much.min(pair.way.len());
                pair.is_touched |= lost > 0;
                pair.way.drain(..lost);
            }
            // Before that it would be an end of the handshake.
            7 if !pair.client_closed && !pair.client.is_handshaking() => {
                pair.client.send_close_notify();
                pair.client_closed = true;
            }
            // rustls bounds the updates between two pieces of data.
            8 if updates < 16 => {
                updates += 1;
                let _ = pair.client.refresh_traffic_keys();
            }
            9 if much == 0 => {
                pair.server.session.close(&mut pair.server.out);
                pair.server_closed = true;
                pair.answer();
            }
            _ => {}
        }
        assert!(
            pair.put_in.starts_with(&pair.server.plain),
            "not what the client put in"
        );
        assert!(
            pair.sent_back.starts_with(&pair.came_back),
            "not what the server sent"
        );
    }
    settle(&mut pair, how);
    assert!(
        pair.put_in.starts_with(&pair.server.plain),
        "not what the client put in"
    );
    if pair.is_touched || pair.server_closed {
        return;
    }
    assert_eq!(pair.server.error, None, "an honest client is refused");
    assert_eq!(pair.server.session.closed_by_peer(), pair.client_closed);
    assert_eq!(
        pair.server.plain.len(),
        pair.put_in.len(),
        "bytes are missing"
    );
    assert_eq!(
        pair.came_back.len(),
        pair.sent_back.len(),
        "bytes did not come back"
    );
    assert_eq!(
        pair.server.session.kept(),
        0,
        "bytes are kept between records"
    );
    if !pair.client_closed {
        assert_eq!(pair.server.session.resumed(), flags & RESUMES != 0);
    }
}

/// All that is on its way arrives, in pieces.
fn settle(pair: &mut Pair, how: u8) {
    pair.collect();
    while !pair.way.is_empty() {
        let way = pair.way.clone();
        for piece in cuts::pieces(&way, how) {
            pair.deliver(piece.len());
        }
    }
}
