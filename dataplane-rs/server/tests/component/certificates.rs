//! Certificates made for the tests: an authority, a server's and a client's.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use sluice_proto as proto;
use std::sync::{Arc, OnceLock};

/// The name in the server's certificate.
pub const HOST: &str = "hooks.test";

/// One authority and what it signed.
pub struct Certificates {
    authority: String,
    authority_der: CertificateDer<'static>,
    server: (String, String),
    client: (CertificateDer<'static>, Vec<u8>),
}

/// Those of all tests.
pub fn certificates() -> &'static Certificates {
    static MADE: OnceLock<Certificates> = OnceLock::new();
    MADE.get_or_init(make)
}

fn make() -> Certificates {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec![HOST.into()])
        .unwrap()
        .signed_by(&server_key, &issuer)
        .unwrap();
    let client_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![]).unwrap();
    let name = |text: &str| text.try_into().unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, "sender one");
    params.subject_alt_names = vec![SanType::DnsName(name("sender.test"))];
    let client = params.signed_by(&client_key, &issuer).unwrap();
    Certificates {
        authority: issuer.pem(),
        authority_der: issuer.der().clone(),
        server: (server.pem(), server_key.serialize_pem()),
        client: (client.der().clone(), client_key.serialize_der()),
    }
}

impl Certificates {
    /// A listener that shows the server's certificate and asks for none.
    pub fn listener(&self) -> proto::Listener {
        proto::Listener {
            tls: Some(proto::Tls {
                certificates: vec![proto::CertificateKey {
                    chain: self.server.0.clone().into(),
                    key: self.server.1.clone().into(),
                }],
                ..proto::Tls::default()
            }),
            ..proto::Listener::default()
        }
    }

    /// The same, and it wants a client's certificate.
    pub fn mutual_listener(&self) -> proto::Listener {
        let mut listener = self.listener();
        if let Some(tls) = &mut listener.tls {
            tls.client_ca = self.authority.clone().into();
            tls.client_required = true;
        }
        listener
    }

    /// A client that shows no certificate.
    pub fn client(&self) -> Arc<ClientConfig> {
        let config = ClientConfig::builder().with_root_certificates(self.roots());
        Arc::new(config.with_no_client_auth())
    }

    /// A client that shows one.
    pub fn mutual_client(&self) -> Arc<ClientConfig> {
        let (chain, key) = &self.client;
        let key = PrivateKeyDer::try_from(key.clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(self.roots());
        let config = config.with_client_auth_cert(vec![chain.clone()], key);
        Arc::new(config.unwrap())
    }

    /// What a client trusts.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority_der.clone()).unwrap();
        roots
    }
}
