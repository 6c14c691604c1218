//! What a listener says about itself and demands of its peers.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, UnbufferedServerConnection};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{CertificateError, RootCertStore, ServerConfig};

use crate::certificates::{Certificates, chain};
use crate::tickets::Ticketer;
use crate::{Error, Tickets};

/// A chain of certificates and its key.
pub struct CertificateKey<'a> {
    /// PEM, the leaf first.
    pub chain: &'a [u8],
    /// PEM: PKCS #8, PKCS #1 or SEC 1. Secret.
    pub key: &'a [u8],
}

/// The settings of one listener.
pub struct Settings<'a> {
    /// The first one is for peers that name no host, or one that no certificate is for; 1 to
    /// [`CERTIFICATES_MAX`](crate::limits::CERTIFICATES_MAX).
    pub certificates: &'a [CertificateKey<'a>],
    /// PEM; empty: no client certificate is asked for.
    pub client_ca: &'a [u8],
    /// With a `client_ca`: a peer without a certificate of it is turned away.
    pub client_required: bool,
}

/// What the sessions of one listener start from. A clone is cheap; a session keeps its own, so that
/// new settings are for new connections.
///
/// Its tickets are bound to its identity: the client authorities, whether a certificate of them is
/// required, and the host names. So a session of a listener that asks for less, or for other
/// clients, or that stands for other hosts, cannot go on here. A certificate that is renewed keeps
/// its names, and so its tickets.
#[derive(Clone)]
pub struct Acceptor {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
}

impl Acceptor {
    /// Reads the settings.
    ///
    /// # Errors
    /// The operator's: [`Error::Certificate`], [`Error::ClientAuthority`] and [`Error::Count`] name
    /// the setting and what is wrong with it, and show nothing of a key.
    pub fn new(settings: &Settings<'_>, tickets: &Arc<Tickets>) -> Result<Acceptor, Error> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let clock = Arc::new(DefaultTimeProvider);
        Acceptor::with(settings, tickets, provider, clock)
    }

    /// With the sources of time and of randomness that a test needs.
    pub(crate) fn with(
        settings: &Settings<'_>,
        tickets: &Arc<Tickets>,
        provider: CryptoProvider,
        clock: Arc<dyn TimeProvider>,
    ) -> Result<Acceptor, Error> {
        let provider = Arc::new(provider);
        let certificates = Certificates::read(settings.certificates, &provider)?;
        let authorities = match settings.client_ca {
            [] => Vec::new(),
            pem => chain(pem).map_err(|problem| Error::ClientAuthority { problem })?,
        };
        let clients: Arc<dyn ClientCertVerifier> = if authorities.is_empty() {
            Arc::new(NoClientAuth)
        } else {
            let roots = Arc::new(roots(&authorities)?);
            let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
            let builder = match settings.client_required {
                true => builder,
                false => builder.allow_unauthenticated(),
            };
            builder.build().map_err(|error| Error::ClientAuthority {
                problem: error.to_string(),
            })?
        };
        let ticketer = Ticketer {
            tickets: Arc::clone(tickets),
            identity: identity(&certificates, &authorities, settings.client_required),
            clock: Arc::clone(&clock),
        };

        let mut config = ServerConfig::builder_with_details(provider, clock)
            .with_safe_default_protocol_versions()
            .expect("the default provider has suites for the default versions")
            .with_client_cert_verifier(Arc::clone(&clients))
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(ticketer);
        // A second one would serve a client that opens two connections at a time with tickets of
        // one use; the others pay for it.
        config.send_tls13_tickets = 1;
        config.max_early_data_size = 0;
        config.send_half_rtt_data = false;
        let acceptor = Acceptor {
            config: Arc::new(config),
            clients,
        };
        acceptor.connection();
        Ok(acceptor)
    }

    pub(crate) fn connection(&self) -> UnbufferedServerConnection {
        UnbufferedServerConnection::new(Arc::clone(&self.config))
            .expect("rustls refuses a record size alone, and that is the default one")
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("clients", &self.clients.offer_client_auth())
            .field("required", &self.clients.client_auth_mandatory())
            .finish_non_exhaustive()
    }
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for (index, authority) in authorities.iter().enumerate() {
        roots.add(authority.clone()).map_err(|error| {
            let why = match error {
                rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => {
                    "it cannot be read".to_owned()
                }
                error => error.to_string(),
            };
            Error::ClientAuthority {
                problem: format!("certificate {index} of the file, from 0, is no authority: {why}"),
            }
        })?;
    }
    Ok(roots)
}

/// A digest of everything that lets a session in. Each part has its length in front.
fn identity(
    certificates: &Certificates,
    authorities: &[CertificateDer<'_>],
    required: bool,
) -> [u8; 32] {
    let mut digest = digest::Context::new(&digest::SHA256);
    let mut add = |part: &[u8]| {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part);
    };
    add(&[u8::from(required && !authorities.is_empty())]);
    add(&(authorities.len() as u64).to_be_bytes());
    for authority in authorities {
        add(authority);
    }
    for name in certificates.names() {
        add(name.as_bytes());
    }
    let mut identity = [0; 32];
    identity.copy_from_slice(digest.finish().as_ref());
    identity
}
