//! Which certificate a listener shows to whom.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::Error;
use crate::limits::CERTIFICATES_MAX;
use crate::settings::CertificateKey;

/// The certificates of a listener by the names in them.
///
/// For a host, those that name it; else those whose wildcard stands for its first label; else, and
/// where the peer names no host, all. Among these, the first one whose key can sign in a way that
/// the peer accepts.
#[derive(Debug)]
pub(crate) struct Certificates {
    all: Vec<Arc<CertifiedKey>>,
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// By what follows the `*.`.
    wildcard: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl Certificates {
    /// Reads and checks all of them.
    pub(crate) fn read(
        given: &[CertificateKey<'_>],
        provider: &CryptoProvider,
    ) -> Result<Certificates, Error> {
        if given.is_empty() || given.len() > CERTIFICATES_MAX {
            let certificates = given.len();
            return Err(Error::Count { certificates });
        }
        let mut certificates = Certificates {
            all: Vec::with_capacity(given.len()),
            exact: HashMap::new(),
            wildcard: HashMap::new(),
        };
        for (index, given) in given.iter().enumerate() {
            let (key, names) = read_one(given, provider)
                .map_err(|problem| Error::Certificate { index, problem })?;
            let key = Arc::new(key);
            for name in names {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut certificates.wildcard, parent.to_owned()),
                    None => (&mut certificates.exact, name),
                };
                map.entry(name).or_default().push(Arc::clone(&key));
            }
            certificates.all.push(key);
        }
        Ok(certificates)
    }

    /// All names, sorted, those with a wildcard as they are written.
    pub(crate) fn names(&self) -> Vec<String> {
        let exact = self.exact.keys().cloned();
        let wildcard = self.wildcard.keys().map(|parent| format!("*.{parent}"));
        let mut names: Vec<String> = exact.chain(wildcard).collect();
        names.sort_unstable();
        names
    }

    /// rustls gives the host in lower case, and none for an address.
    fn of_host(&self, host: Option<&str>) -> &[Arc<CertifiedKey>] {
        let find = |host: &str| {
            self.exact.get(host).or_else(|| {
                let (_, parent) = host.split_once('.')?;
                self.wildcard.get(parent)
            })
        };
        host.and_then(find).unwrap_or(&self.all)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let keys = self.of_host(hello.server_name());
        let offered = hello.signature_schemes();
        // What TLS 1.3 forbids in a handshake is offered there for certificates alone (RFC 8446
        // §4.2.3), so a key that needs it comes last.
        let modern: Vec<SignatureScheme> = offered
            .iter()
            .copied()
            .filter(|scheme| !scheme_is_old(*scheme))
            .collect();
        let usable = |schemes: &[SignatureScheme]| {
            keys.iter()
                .find(|key| key.key.choose_scheme(schemes).is_some())
        };
        // With one that the peer cannot use, rustls finds the right alert.
        usable(&modern)
            .or_else(|| usable(offered))
            .or(keys.first())
            .cloned()
    }
}

fn scheme_is_old(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::ECDSA_SHA1_Legacy
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    )
}

/// The key with its chain and the names in the leaf. What is wrong is said without a byte of the
/// key's file.
fn read_one(
    given: &CertificateKey<'_>,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Vec<String>), String> {
    let chain = chain(given.chain)?;
    let names = leaf_names(&chain[0])?;
    let key = PrivateKeyDer::from_pem_slice(given.key)
        .map_err(|_| "the key file has no private key in PEM (PKCS #8, PKCS #1 or SEC 1)")?;
    let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            "the key is not that of the first certificate; the leaf must come first".to_owned()
        }
        _ => "the key is of a kind that is not supported, or damaged".to_owned(),
    })?;
    Ok((key, names))
}

/// The certificates in a PEM file, at least one.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err("the file has no certificate in PEM".to_owned()),
        Ok(chain) => Ok(chain),
        Err(_) => Err("the file is not whole: a PEM section in it cannot be read".to_owned()),
    }
}

/// In lower case: the DNS names, or the common name of a certificate without any.
fn leaf_names(leaf: &CertificateDer<'_>) -> Result<Vec<String>, String> {
    let (_, leaf) = X509Certificate::from_der(leaf)
        .map_err(|_| "the first certificate is not one that can be read".to_owned())?;
    let alternative = leaf
        .subject_alternative_name()
        .map_err(|_| "the first certificate has names that cannot be read".to_owned())?;
    let mut names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        let common = leaf.subject().iter_common_name();
        names.extend(common.filter_map(|name| Some(name.as_str().ok()?.to_ascii_lowercase())));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
