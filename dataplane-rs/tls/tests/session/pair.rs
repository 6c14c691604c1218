//! A client and a session that talk through two byte strings, and the certificates for it.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use sluice_tls::{Acceptor, CertificateKey, Error, Session, Settings, TicketKey, Tickets};

pub type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Who the servers' certificates are from.
pub static SERVERS: LazyLock<Issuer> = LazyLock::new(|| authority("servers"));
/// Who the clients' certificates are from.
pub static CLIENTS: LazyLock<Issuer> = LazyLock::new(|| authority("clients"));

pub fn authority(name: &str) -> Issuer {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A chain and its key, both PEM.
#[derive(Clone)]
pub struct Owned {
    pub chain: String,
    pub key: String,
}

impl Owned {
    pub fn signed(params: &CertificateParams, key: &KeyPair, issuer: &Issuer) -> Owned {
        Owned {
            chain: params.signed_by(key, issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    pub fn borrowed(&self) -> CertificateKey<'_> {
        CertificateKey {
            chain: self.chain.as_bytes(),
            key: self.key.as_bytes(),
        }
    }

    pub fn leaf(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.chain.as_bytes()).unwrap()
    }
}

/// A server's certificate with an ECDSA key.
pub fn ecdsa(names: &[&str]) -> Owned {
    server(names, &KeyPair::generate().unwrap())
}

/// A server's certificate with an RSA key: one for all, as they take long to make.
pub fn rsa(names: &[&str]) -> Owned {
    static KEY: LazyLock<KeyPair> =
        LazyLock::new(|| KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap());
    server(names, &KEY)
}

pub fn server(names: &[&str], key: &KeyPair) -> Owned {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    Owned::signed(&CertificateParams::new(names).unwrap(), key, &SERVERS)
}

/// What a client of that name shows; `change` makes it special.
pub fn client_certificate(
    issuer: &Issuer,
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> Owned {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    Owned::signed(&params, &KeyPair::generate().unwrap(), issuer)
}

/// Everything about a listener that these tests change.
#[derive(Clone)]
pub struct Listener {
    pub certificates: Vec<Owned>,
    pub client_ca: String,
    pub client_required: bool,
    pub tickets: Arc<Tickets>,
}

impl Listener {
    pub fn new(certificates: Vec<Owned>) -> Listener {
        Listener {
            certificates,
            client_ca: String::new(),
            client_required: false,
            tickets: Arc::new(Tickets::new()),
        }
    }

    pub fn of_clients(mut self, authority: &Issuer, required: bool) -> Listener {
        self.client_ca = authority.pem();
        self.client_required = required;
        self
    }

    pub fn with_tickets(self, keys: &[TicketKey]) -> Listener {
        self.tickets.set(keys);
        self
    }

    pub fn try_accept(&self) -> Result<Acceptor, Error> {
        let certificates: Vec<_> = self.certificates.iter().map(Owned::borrowed).collect();
        let settings = Settings {
            certificates: &certificates,
            client_ca: self.client_ca.as_bytes(),
            client_required: self.client_required,
        };
        Acceptor::new(&settings, &self.tickets)
    }

    pub fn accept(&self) -> Acceptor {
        self.try_accept().unwrap()
    }
}

/// A listener for `localhost`.
pub fn localhost() -> Listener {
    static CERTIFICATE: LazyLock<Owned> = LazyLock::new(|| ecdsa(&["localhost"]));
    Listener::new(vec![CERTIFICATE.clone()])
}

pub fn ticket_key(number: u8) -> TicketKey {
    TicketKey {
        name: [number; 16],
        key: [number ^ 0x5a; 32],
    }
}

pub const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
pub const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// A client that trusts the servers of these tests.
pub fn client_config(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    client_config_with(aws_lc_rs::default_provider(), versions, None)
}

pub fn client_config_as(
    versions: &[&'static SupportedProtocolVersion],
    certificate: &Owned,
) -> ClientConfig {
    client_config_with(aws_lc_rs::default_provider(), versions, Some(certificate))
}

pub fn client_config_with(
    provider: CryptoProvider,
    versions: &[&'static SupportedProtocolVersion],
    certificate: Option<&Owned>,
) -> ClientConfig {
    let provider = Arc::new(provider);
    let mut roots = RootCertStore::empty();
    roots.add(SERVERS.der().clone()).unwrap();
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_webpki_verifier(verifier.unwrap());
    match certificate {
        None => builder.with_no_client_auth(),
        Some(owned) => {
            let chain = CertificateDer::pem_slice_iter(owned.chain.as_bytes());
            let chain = chain.collect::<Result<_, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(owned.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

/// rustls's buffered client.
pub struct Client(pub ClientConnection);

impl Client {
    pub fn new(config: &Arc<ClientConfig>, host: &str) -> Client {
        let name = ServerName::try_from(host.to_owned()).unwrap();
        Client(ClientConnection::new(Arc::clone(config), name).unwrap())
    }

    /// The bytes that wait to be sent.
    pub fn write(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Bytes from the server; the plaintext in them is returned.
    pub fn read(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            if self.0.read_tls(&mut bytes).unwrap() == 0 {
                break;
            }
            let read = self.0.process_new_packets()?.plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + read, 0);
            self.0.reader().read_exact(&mut plain[start..]).unwrap();
        }
        Ok(plain)
    }

    pub fn send(&mut self, plain: &[u8]) -> Vec<u8> {
        self.0.writer().write_all(plain).unwrap();
        self.write()
    }
}

/// A client and a session, and what each got from the other.
pub struct Pair {
    pub client: Client,
    pub session: Session,
    /// All ciphertext that the client has sent.
    pub sent: Vec<u8>,
    pub received: Vec<u8>,
}

impl Pair {
    pub fn new(config: &Arc<ClientConfig>, host: &str, acceptor: &Acceptor) -> Pair {
        Pair {
            client: Client::new(config, host),
            session: Session::new(acceptor),
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Moves bytes until nobody has any. The first fault that either side finds.
    #[expect(clippy::result_large_err, reason = "a test has one of them")]
    pub fn settle(&mut self) -> Result<(), Fault> {
        loop {
            let mut bytes = self.client.write();
            if bytes.is_empty() {
                return Ok(());
            }
            self.sent.extend_from_slice(&bytes);
            let mut out = Vec::new();
            let verdict = self
                .session
                .receive(&mut bytes, &mut self.received, &mut out);
            let read = self.client.read(&out);
            verdict.map_err(|error| Fault::Session(error, read.as_ref().err().cloned()))?;
            read.map_err(Fault::Client)?;
        }
    }

    /// The handshake, which must succeed.
    pub fn open(config: &Arc<ClientConfig>, host: &str, acceptor: &Acceptor) -> Pair {
        let mut pair = Pair::new(config, host, acceptor);
        pair.settle().unwrap();
        assert!(!pair.session.is_handshaking() && !pair.client.0.is_handshaking());
        assert_eq!(pair.session.kept(), 0);
        pair
    }

    /// What the client shows as the leaf of the server.
    pub fn leaf(&self) -> CertificateDer<'static> {
        self.client.0.peer_certificates().unwrap()[0].clone()
    }

    /// Something there and back.
    pub fn exchange(&mut self) {
        let mut bytes = self.client.send(b"question");
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        self.session
            .receive(&mut bytes, &mut plain, &mut out)
            .unwrap();
        assert_eq!(plain, b"question");
        self.session.send(b"answer", &mut out).unwrap();
        assert_eq!(self.client.read(&out).unwrap(), b"answer");
        assert_eq!(self.session.kept(), 0);
    }
}

/// Who gave up.
#[derive(Debug)]
#[expect(dead_code, reason = "what is not taken apart is printed")]
pub enum Fault {
    Client(rustls::Error),
    /// With what the client then said about the session's last bytes.
    Session(Error, Option<rustls::Error>),
}
