//! Tests that need a clock or a randomness of their own; the others use the crate from outside.

mod clock;
mod oracle;

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

struct World {
    authority: CertifiedIssuer<'static, KeyPair>,
    chain: String,
    key: String,
}

impl World {
    /// An authority, and a server's certificate of it with an Ed25519 key, whose signatures are the
    /// same each time.
    fn new() -> World {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        World {
            chain: params.signed_by(&key, &authority).unwrap().pem(),
            key: key.serialize_pem(),
            authority,
        }
    }

    fn client(
        &self,
        provider: CryptoProvider,
        versions: &[&'static rustls::SupportedProtocolVersion],
        certificate: Option<(CertificateDer<'static>, &KeyPair)>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match certificate {
            None => builder.with_no_client_auth(),
            Some((leaf, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![leaf], key).unwrap()
            }
        }
    }
}

fn connect(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = "localhost".try_into().unwrap();
    ClientConnection::new(Arc::clone(config), name).unwrap()
}

/// The bytes that a client wants to send.
fn written(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn sent(client: &mut ClientConnection, plain: &[u8]) -> Vec<u8> {
    client.writer().write_all(plain).unwrap();
    written(client)
}

fn read(client: &mut ClientConnection, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
    let mut plain = Vec::new();
    while !bytes.is_empty() && client.read_tls(&mut bytes).unwrap() > 0 {
        let size = client.process_new_packets()?.plaintext_bytes_to_read();
        let mut part = vec![0; size];
        client.reader().read_exact(&mut part).unwrap();
        plain.extend(part);
    }
    Ok(plain)
}

fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}
