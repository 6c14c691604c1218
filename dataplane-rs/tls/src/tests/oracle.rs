//! The buffered rustls as an oracle: the same bytes of a client get the same plaintext, the same
//! answer and the same verdict, also when they are damaged.
//!
//! For that both servers draw the same randomness, sign the same way each time and have the same
//! secret in the key exchange. They give out no tickets, which have randomness of their own.

use std::io::Read;
use std::sync::Arc;

use ::aws_lc_rs::agreement;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret,
    SupportedKxGroup,
};
use rustls::time_provider::DefaultTimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{NamedGroup, ServerConnection};

use super::{World, connect, provider, read, sent, written};
use crate::{Acceptor, CertificateKey, Error, Session, Settings, Tickets};

#[derive(Debug)]
struct Constant;

impl SecureRandom for Constant {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        bytes.fill(0x42);
        Ok(())
    }
}

/// X25519 with a secret that all know.
#[derive(Debug)]
struct KnownSecret;

struct Exchange {
    secret: agreement::PrivateKey,
    public: Vec<u8>,
}

impl SupportedKxGroup for KnownSecret {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        let secret = agreement::PrivateKey::from_private_key(&agreement::X25519, &[0x42; 32]);
        let secret = secret.unwrap();
        let public = secret.compute_public_key().unwrap().as_ref().to_vec();
        Ok(Box::new(Exchange { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        let peer = agreement::UnparsedPublicKey::new(&agreement::X25519, peer);
        let refused = rustls::PeerMisbehaved::InvalidKeyShare.into();
        agreement::agree(&self.secret, peer, refused, |secret| Ok(secret.into()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

fn known_provider() -> CryptoProvider {
    CryptoProvider {
        secure_random: &Constant,
        kx_groups: vec![&KnownSecret],
        ..provider()
    }
}

fn acceptor(world: &World, client_ca: &str) -> Acceptor {
    let certificate = CertificateKey {
        chain: world.chain.as_bytes(),
        key: world.key.as_bytes(),
    };
    let settings = Settings {
        certificates: &[certificate],
        client_ca: client_ca.as_bytes(),
        client_required: true,
    };
    let (tickets, clock) = (Arc::new(Tickets::new()), Arc::new(DefaultTimeProvider));
    Acceptor::with(&settings, &tickets, known_provider(), clock).unwrap()
}

/// What a server makes of a client's bytes.
#[derive(Debug, Default, PartialEq)]
struct Made {
    plain: Vec<u8>,
    out: Vec<u8>,
    /// As it is printed: not all of them are equal to themselves.
    verdict: Option<String>,
    handshaking: bool,
    closed: bool,
}

fn by_session<'a>(acceptor: &Acceptor, parts: impl Iterator<Item = &'a [u8]>) -> Made {
    let mut session = Session::new(acceptor);
    let mut made = Made::default();
    for part in parts {
        let mut part = part.to_vec();
        match session.receive(&mut part, &mut made.plain, &mut made.out) {
            Ok(()) => {}
            Err(Error::Peer(error)) => {
                made.verdict = Some(format!("{error:?}"));
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    made.handshaking = session.is_handshaking();
    made.closed = session.closed_by_peer();
    made
}

fn by_oracle<'a>(acceptor: &Acceptor, parts: impl Iterator<Item = &'a [u8]>) -> Made {
    let mut server = ServerConnection::new(Arc::clone(&acceptor.config)).unwrap();
    let mut made = Made::default();
    'all: for mut part in parts {
        while !part.is_empty() && server.read_tls(&mut part).unwrap() > 0 {
            let verdict = server.process_new_packets();
            while server.wants_write() {
                server.write_tls(&mut made.out).unwrap();
            }
            // An end without close_notify is an error of this reader's.
            let _ = server.reader().read_to_end(&mut made.plain);
            match verdict {
                Ok(state) => made.closed |= state.peer_has_closed(),
                Err(error) => {
                    made.verdict = Some(format!("{error:?}"));
                    break 'all;
                }
            }
        }
    }
    made.handshaking = made.verdict.is_none() && server.is_handshaking();
    made.closed &= made.verdict.is_none();
    made
}

fn compare(acceptor: &Acceptor, bytes: &[u8], random: &mut Random) -> Made {
    let cuts = random.below(3);
    let mut at: Vec<usize> = (0..cuts).map(|_| random.below(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    let parts = at.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
    let parts = parts.filter(|part| !part.is_empty());
    let mut ours = by_session(acceptor, parts);
    let theirs = by_oracle(acceptor, std::iter::once(bytes));
    // Where rustls says nothing, the session adds an alert.
    if ours.out.len() > theirs.out.len() && theirs.verdict.is_some() {
        let alert = &ours.out[theirs.out.len()..];
        assert!(
            matches!(alert, [21, 3, 3, ..] | [23, 3, 3, 0, 19, ..]),
            "{alert:?}"
        );
        ours.out.truncate(theirs.out.len());
    }
    assert_eq!(ours, theirs, "in parts that end at {at:?}");
    ours
}

/// All that a client sends in a session that goes well.
fn recorded(
    world: &World,
    acceptor: &Acceptor,
    version: &'static rustls::SupportedProtocolVersion,
) -> Vec<u8> {
    let mut params = CertificateParams::new([]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &world.authority).unwrap();
    let shown = Some((leaf.der().clone(), &key));
    let mut config = world.client(provider(), &[version], shown);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut client = connect(&Arc::new(config));
    let mut session = Session::new(acceptor);
    let (mut plain, mut recorded) = (Vec::new(), Vec::new());
    while client.is_handshaking() {
        let bytes = written(&mut client);
        recorded.extend_from_slice(&bytes);
        let mut out = Vec::new();
        session
            .receive(&mut bytes.clone(), &mut plain, &mut out)
            .unwrap();
        read(&mut client, &out).unwrap();
    }
    recorded.extend(sent(&mut client, b"POST /in HTTP/1.1\r\n"));
    if version == &TLS13 {
        client.refresh_traffic_keys().unwrap();
    }
    recorded.extend(sent(&mut client, &[b'x'; 300]));
    client.send_close_notify();
    recorded.extend(written(&mut client));
    recorded
}

/// Where the records of a stream begin.
fn records(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    while let Some([_, _, _, high, low]) = bytes.get(starts[starts.len() - 1]..).and_then(|rest| {
        let header: Option<&[u8; 5]> = rest.first_chunk();
        header
    }) {
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        starts.push(starts[starts.len() - 1] + 5 + size);
    }
    starts.retain(|start| *start <= bytes.len());
    starts
}

fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(2) {
        let starts = records(&bytes);
        let record = random.below(starts.len() - 1);
        let (start, end) = match starts.get(record + 1) {
            Some(end) => (starts[record], *end),
            None => (0, bytes.len()),
        };
        let at = random.below(bytes.len());
        match random.below(9) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at.max(1)),
            3 => drop(bytes.remove(at)),
            4 => bytes.insert(at, random.below(256) as u8),
            // A record twice, or not at all, or in two: which of plain text is as good.
            5 => {
                let copy = bytes[start..end].to_vec();
                bytes.splice(end..end, copy);
            }
            6 if starts.len() > 2 => drop(bytes.drain(start..end)),
            7 if end - start > 6 => {
                let size = 1 + random.below(end - start - 6);
                let header = [bytes[start], bytes[start + 1], bytes[start + 2]];
                let second = end - start - 5 - size;
                bytes[start + 3..start + 5].copy_from_slice(&(size as u16).to_be_bytes());
                let split = start + 5 + size;
                let length = (second as u16).to_be_bytes();
                bytes.splice(split..split, header.into_iter().chain(length));
            }
            _ => {
                let at = start + random.below(5).min(bytes.len() - start - 1);
                bytes[at] ^= 1 << random.below(8);
            }
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

#[test]
fn a_session_does_as_the_buffered_rustls_with_good_and_with_damaged_bytes() {
    let world = World::new();
    let mut random = Random::printed("oracle");
    let rounds = match std::env::var("SLUICE_SOAK").as_deref() {
        Ok("1") => 100_000,
        _ => 750,
    };
    let mut refused = 0;
    for client_ca in [String::new(), world.authority.pem()] {
        let acceptor = acceptor(&world, &client_ca);
        for version in [&TLS12, &TLS13] {
            let bytes = recorded(&world, &acceptor, version);
            let made = compare(&acceptor, &bytes, &mut random);
            assert!(made.verdict.is_none() && made.closed && made.plain.len() == 319);
            for _ in 0..rounds {
                let damaged = damaged(&bytes, &mut random);
                let made = compare(&acceptor, &damaged, &mut random);
                refused += usize::from(made.verdict.is_some());
            }
        }
    }
    println!("{refused} of {} were refused", 4 * rounds);
    assert!(refused > rounds);
}

/// Splitmix64 of SLUICE_SEED or the time; printed, so that a failed test can be repeated.
struct Random(u64);

impl Random {
    fn printed(test: &str) -> Random {
        let given = std::env::var("SLUICE_SEED").ok();
        let seed = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            let now = std::time::UNIX_EPOCH.elapsed();
            now.map_or(1, |age| age.as_nanos() as u64)
        });
        println!("{test}: SLUICE_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}
