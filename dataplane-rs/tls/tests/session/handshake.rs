//! Handshakes and traffic that go well, however the bytes are cut.

use std::sync::Arc;

use ::aws_lc_rs::aead;
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{NamedGroup, ProtocolVersion};
use sluice_tls::limits::{RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX};
use sluice_tls::{Error, Session};

use crate::pair::{
    CLIENTS, Client, Listener, Owned, Pair, TLS12, TLS13, client_certificate, client_config,
    client_config_as, client_config_with, ecdsa, localhost, rsa, ticket_key,
};

#[test]
fn both_versions_with_both_kinds_of_key() {
    for certificate in [ecdsa(&["localhost"]), rsa(&["localhost"])] {
        let acceptor = Listener::new(vec![certificate]).accept();
        for (versions, expected) in [
            (TLS12, ProtocolVersion::TLSv1_2),
            (TLS13, ProtocolVersion::TLSv1_3),
        ] {
            let config = Arc::new(client_config(versions));
            let mut pair = Pair::open(&config, "localhost", &acceptor);
            assert_eq!(pair.client.0.protocol_version(), Some(expected));
            assert!(!pair.session.resumed());
            assert!(pair.session.client_names().is_empty());
            pair.exchange();
        }
    }
}

#[test]
fn the_post_quantum_group_is_taken_when_it_is_offered_and_the_others_without_it() {
    let acceptor = localhost().accept();
    let group = |config| {
        let pair = Pair::open(&Arc::new(config), "localhost", &acceptor);
        pair.client
            .0
            .negotiated_key_exchange_group()
            .unwrap()
            .name()
    };
    assert_eq!(group(client_config(TLS13)), NamedGroup::X25519MLKEM768);
    for (offered, name) in [
        (kx_group::X25519, NamedGroup::X25519),
        (kx_group::SECP256R1, NamedGroup::secp256r1),
        (kx_group::SECP384R1, NamedGroup::secp384r1),
    ] {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![offered];
        assert_eq!(group(client_config_with(provider, TLS13, None)), name);
    }
    // Offered, but its share is for a group that the server does not have: it asks again.
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups.insert(0, &Unheard);
    assert_eq!(
        group(client_config_with(provider, TLS13, None)),
        NamedGroup::X25519MLKEM768
    );
}

/// A group that no server has.
#[derive(Debug)]
struct Unheard;

impl SupportedKxGroup for Unheard {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        struct Share(Box<dyn ActiveKeyExchange>);
        impl ActiveKeyExchange for Share {
            fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, rustls::Error> {
                unreachable!("nobody has this group")
            }
            fn pub_key(&self) -> &[u8] {
                self.0.pub_key()
            }
            fn group(&self) -> NamedGroup {
                Unheard.name()
            }
        }
        Ok(Box::new(Share(kx_group::SECP256R1.start()?)))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::from(0xfe42)
    }
}

/// Sessions of every shape: what the client sends in each flight, and what it must get across.
fn shapes() -> Vec<(&'static str, Listener, Option<Owned>)> {
    let client = client_certificate(&CLIENTS, "sender", |_| {});
    let with_clients = localhost().of_clients(&CLIENTS, true);
    vec![
        ("plain", localhost(), None),
        ("client", with_clients, Some(client)),
    ]
}

/// A whole session; `feed` gives the client's bytes to the session in its own way.
fn whole_session(
    versions: &[&'static rustls::SupportedProtocolVersion],
    listener: &Listener,
    certificate: Option<&Owned>,
    mut feed: impl FnMut(&mut Session, &[u8], &mut Vec<u8>, &mut Vec<u8>),
) {
    let config = match certificate {
        None => client_config(versions),
        Some(certificate) => client_config_as(versions, certificate),
    };
    let mut client = Client::new(&Arc::new(config), "localhost");
    let mut session = Session::new(&listener.accept());
    let (mut plain, mut asked) = (Vec::new(), false);
    loop {
        let mut bytes = client.write();
        if !client.0.is_handshaking() && !asked {
            asked = true;
            bytes.extend(client.send(b"POST /in HTTP/1.1\r\n"));
            bytes.extend(client.send(b"Content-Length: 0\r\n\r\n"));
            client.0.send_close_notify();
            bytes.extend(client.write());
        }
        if bytes.is_empty() {
            break;
        }
        let mut out = Vec::new();
        feed(&mut session, &bytes, &mut plain, &mut out);
        assert!(client.read(&out).unwrap().is_empty());
    }
    assert_eq!(plain, b"POST /in HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    assert!(session.closed_by_peer());
    assert_eq!(session.kept(), 0);
    assert_eq!(session.client_names().is_empty(), certificate.is_none());
    let mut out = Vec::new();
    session.send(b"HTTP/1.1 200 OK\r\n\r\n", &mut out).unwrap();
    session.close(&mut out);
    assert_eq!(client.read(&out).unwrap(), b"HTTP/1.1 200 OK\r\n\r\n");
}

#[test]
fn a_session_that_comes_byte_by_byte() {
    for (_, listener, certificate) in shapes() {
        for versions in [TLS12, TLS13] {
            let feed = |session: &mut Session, bytes: &[u8], plain: &mut _, out: &mut _| {
                for byte in bytes {
                    session.receive(&mut [*byte], plain, out).unwrap();
                    assert!(session.kept() <= 2 * RECORD_BYTES_MAX);
                }
            };
            whole_session(versions, &listener, certificate.as_ref(), feed);
        }
    }
}

#[test]
fn a_session_of_which_every_flight_is_cut_at_every_byte() {
    // Otherwise, after the first of them, at every seventh.
    let soak = std::env::var("SLUICE_SOAK").is_ok_and(|soak| soak == "1");
    for (name, listener, certificate) in shapes() {
        for versions in [TLS12, TLS13] {
            // The sizes of the flights differ by a few bytes from session to session: a cut beyond
            // the end is none, and the last one proves that all were made.
            let mut longest = 0;
            let mut cut = 0;
            while cut <= longest {
                let feed = |session: &mut Session, bytes: &[u8], plain: &mut _, out: &mut _| {
                    longest = longest.max(bytes.len());
                    let (first, second) = bytes.split_at(cut.min(bytes.len()));
                    for part in [first, second] {
                        session.receive(&mut part.to_vec(), plain, out).unwrap();
                    }
                };
                whole_session(versions, &listener, certificate.as_ref(), feed);
                cut += if cut < 64 || soak { 1 } else { 7 };
            }
            println!("{name}: cuts up to {longest}");
        }
    }
}

#[test]
fn records_of_all_sizes_arrive_in_buffers_of_all_sizes() {
    for versions in [TLS12, TLS13] {
        let config = Arc::new(client_config(versions));
        let mut pair = Pair::open(&config, "localhost", &localhost().accept());
        pair.client.0.set_buffer_limit(None);
        let body: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        for size in [1, 5, 4096, 16_384, 65_536, usize::MAX] {
            // Short records, and then some of full size.
            let mut bytes = Vec::new();
            for part in body.chunks(1000) {
                bytes.extend(pair.client.send(part));
            }
            bytes.extend(pair.client.send(&body));
            let (mut plain, mut out) = (Vec::new(), Vec::new());
            for part in bytes.chunks_mut(size) {
                let before = plain.len();
                pair.session.receive(part, &mut plain, &mut out).unwrap();
                assert!(plain.len() - before < part.len() + RECORD_BYTES_MAX);
                assert!(pair.session.kept() <= 2 * RECORD_BYTES_MAX);
            }
            assert!(
                plain == [body.as_slice(), &body].concat(),
                "in parts of {size}"
            );
            assert!(out.is_empty());
            assert_eq!(pair.session.kept(), 0);
        }
    }
}

#[test]
fn an_answer_of_any_size_arrives_within_its_bound_of_records() {
    for versions in [TLS12, TLS13] {
        let config = Arc::new(client_config(versions));
        let mut pair = Pair::open(&config, "localhost", &localhost().accept());
        for size in [0, 1, 16_383, 16_384, 16_385, 100_000] {
            let body = vec![7; size];
            let mut out = b"before".to_vec();
            pair.session.send(&body, &mut out).unwrap();
            assert!(out.starts_with(b"before"));
            let records = size.div_ceil(16_384);
            assert!(out.len() <= 6 + size + records * RECORD_OVERHEAD_MAX);
            assert!(pair.client.read(&out[6..]).unwrap() == body);
        }
    }
}

#[test]
fn nothing_is_sent_before_the_handshake_or_after_close() {
    let config = Arc::new(client_config(TLS13));
    let acceptor = localhost().accept();
    let mut session = Session::new(&acceptor);
    let mut out = Vec::new();
    assert!(matches!(
        session.send(b"early", &mut out),
        Err(Error::Unready)
    ));
    session.close(&mut out);
    assert!(out.is_empty());

    let mut pair = Pair::open(&config, "localhost", &acceptor);
    pair.session.close(&mut out);
    let once = out.len();
    pair.session.close(&mut out);
    assert_eq!(out.len(), once);
    assert!(matches!(
        pair.session.send(b"late", &mut out),
        Err(Error::Unready)
    ));
    assert_eq!(out.len(), once);
    assert!(pair.client.read(&out).unwrap().is_empty());
    let ended = std::io::Read::read(&mut pair.client.0.reader(), &mut [0]);
    assert_eq!(ended.unwrap(), 0, "the client saw close_notify");
    // What still comes, good or bad, is read away.
    let mut late = pair.client.send(b"late");
    late.extend([0; 100]);
    let mut plain = Vec::new();
    pair.session
        .receive(&mut late, &mut plain, &mut out)
        .unwrap();
    assert!(plain.is_empty() && out.len() == once && pair.session.kept() == 0);
}

#[test]
fn what_follows_the_peers_close_is_ignored_and_sending_goes_on() {
    for versions in [TLS12, TLS13] {
        let config = Arc::new(client_config(versions));
        let mut pair = Pair::open(&config, "localhost", &localhost().accept());
        let mut bytes = pair.client.send(b"all");
        pair.client.0.send_close_notify();
        bytes.extend(pair.client.write());
        bytes.extend([0xee; 1000]);
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        pair.session
            .receive(&mut bytes, &mut plain, &mut out)
            .unwrap();
        assert_eq!(plain, b"all");
        assert!(pair.session.closed_by_peer());
        pair.session
            .receive(&mut [0xee; 9], &mut plain, &mut out)
            .unwrap();
        pair.session.send(b"answer", &mut out).unwrap();
        pair.session.close(&mut out);
        assert!(pair.session.closed_by_peer());
        assert_eq!(pair.client.read(&out).unwrap(), b"answer");
    }
}

#[test]
fn an_answer_goes_out_while_a_record_or_a_key_update_is_half_there() {
    let config = Arc::new(client_config(TLS13));
    let mut pair = Pair::open(&config, "localhost", &localhost().accept());
    for round in 0..3 {
        pair.client.0.refresh_traffic_keys().unwrap();
        let mut bytes = pair.client.send(b"more");
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        for byte in &mut bytes {
            let byte = std::slice::from_mut(byte);
            pair.session.receive(byte, &mut plain, &mut out).unwrap();
            pair.session.send(b".", &mut out).unwrap();
        }
        assert_eq!(plain, b"more");
        let answer = pair.client.read(&out).unwrap();
        assert_eq!(answer, vec![b'.'; bytes.len()], "round {round}");
        pair.exchange();
    }
}

#[test]
fn the_close_notify_may_come_with_the_end_of_the_handshake() {
    let client = client_certificate(&CLIENTS, "hasty", |_| {});
    let listener = localhost()
        .of_clients(&CLIENTS, true)
        .with_tickets(&[ticket_key(1)]);
    let config = Arc::new(client_config_as(TLS13, &client));
    let mut pair = Pair::new(&config, "localhost", &listener.accept());
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let mut hello = pair.client.write();
    pair.session
        .receive(&mut hello, &mut plain, &mut out)
        .unwrap();
    pair.client.read(&out).unwrap();
    let mut rest = pair.client.send(b"bye");
    pair.client.0.send_close_notify();
    rest.extend(pair.client.write());
    pair.session
        .receive(&mut rest, &mut plain, &mut out)
        .unwrap();
    assert_eq!(plain, b"bye");
    assert!(pair.session.closed_by_peer());
    assert!(!pair.session.client_names().is_empty());
}

#[test]
fn an_answer_goes_out_while_a_handshake_message_is_half_there() {
    let (mut session, mut records) = by_hand();
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    // A key update (RFC 8446 §4.6.3) in two records.
    let mut half = records.seal(22, &[24, 0, 0]);
    session.receive(&mut half, &mut plain, &mut out).unwrap();
    assert!(session.kept() > 0);
    session.send(b"answer", &mut out).unwrap();
    assert_eq!(records.open(&out), b"answer");
    let mut rest = records.seal(22, &[1, 0]);
    session
        .receive(&mut rest[..1], &mut plain, &mut out)
        .unwrap();
    session
        .receive(&mut rest[1..9], &mut plain, &mut out)
        .unwrap();
    session
        .receive(&mut rest[9..], &mut plain, &mut out)
        .unwrap();
    assert_eq!(session.kept(), 0);

    // Where data comes between them, that is a fault (§5.1), and it is told.
    let (mut session, mut records) = by_hand();
    let mut bytes = records.seal(22, &[24, 0, 0]);
    bytes.extend(records.seal(23, b"data"));
    out.clear();
    session
        .receive(&mut bytes, &mut plain, &mut out)
        .unwrap_err();
    let alert = records.open(&out);
    assert_eq!(alert, [2, u8::from(rustls::AlertDescription::DecodeError)]);
    assert!(plain.is_empty());
}

#[test]
fn a_close_goes_out_while_a_handshake_message_is_half_there() {
    let (mut session, mut records) = by_hand();
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let mut half = records.seal(22, &[24, 0, 0, 1]);
    session.receive(&mut half, &mut plain, &mut out).unwrap();
    session.close(&mut out);
    assert_eq!(records.open(&out), [1, 0]);
    assert_eq!(session.kept(), 0);
}

/// Records of TLS 1.3 that no library would send (RFC 8446 §5.2, with AES-128-GCM).
struct Records {
    /// Of the client's side: what it writes with, and what it reads with.
    keys: [(aead::LessSafeKey, [u8; 12]); 2],
    counts: [u64; 2],
}

/// A session in traffic, and its client's keys.
fn by_hand() -> (Session, Records) {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
    let mut config = client_config_with(provider, TLS13, None);
    config.enable_secret_extraction = true;
    let pair = Pair::open(&Arc::new(config), "localhost", &localhost().accept());
    let secrets = pair.client.0.dangerous_extract_secrets().unwrap();
    let counts = [secrets.tx.0, secrets.rx.0];
    let keys = [secrets.tx.1, secrets.rx.1].map(|secret| {
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secret else {
            panic!("the only suite is AES-128-GCM");
        };
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, key.as_ref()).unwrap();
        (aead::LessSafeKey::new(key), iv.as_ref().try_into().unwrap())
    });
    (pair.session, Records { keys, counts })
}

impl Records {
    fn nonce(&mut self, side: usize) -> aead::Nonce {
        let mut nonce = self.keys[side].1;
        let count = self.counts[side].to_be_bytes();
        nonce[4..]
            .iter_mut()
            .zip(count)
            .for_each(|(byte, count)| *byte ^= count);
        self.counts[side] += 1;
        aead::Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let nonce = self.nonce(0);
        let mut sealed = [content, &[kind]].concat();
        let size = (sealed.len() + 16) as u16;
        let header = [&[23, 3, 3][..], &size.to_be_bytes()].concat();
        let aad = aead::Aad::from(&header);
        let (key, _) = &self.keys[0];
        key.seal_in_place_append_tag(nonce, aad, &mut sealed)
            .unwrap();
        [header, sealed].concat()
    }

    /// The content of the only record in `bytes`.
    fn open(&mut self, bytes: &[u8]) -> Vec<u8> {
        let nonce = self.nonce(1);
        let (header, sealed) = bytes.split_at(5);
        let mut opened = sealed.to_vec();
        let (key, _) = &self.keys[1];
        let aad = aead::Aad::from(header);
        let content = key.open_in_place(nonce, aad, &mut opened).unwrap();
        content[..content.len() - 1].to_vec()
    }
}
