//! What each listener agrees on with a connection before HTTP begins: its row of a snapshot,
//! checked.

use crate::config::{Host, networks};
use sluice_core::routes::Networks;
use sluice_proto as proto;
use sluice_tls::{Acceptor, CertificateKey, Settings, TicketKey};

/// One row of listening sockets. The default is plain, and believes nobody.
#[derive(Debug, Default)]
pub struct Listener {
    /// `None`: no TLS.
    pub tls: Option<Acceptor>,
    /// Peers that must send a PROXY header.
    pub proxy_from: Networks,
    /// Peers whose `X-Forwarded-For` is believed.
    pub forwarded_from: Networks,
}

impl Listener {
    /// Whether this peer must send a PROXY header. `None`: a peer on a Unix socket, where the
    /// socket's file says who may connect, so that a list means all of them.
    pub fn is_proxied(&self, ip: Option<[u8; 16]>) -> bool {
        is_listed(&self.proxy_from, ip)
    }

    /// Whether what this peer says about its own peer is believed; `None` as above.
    pub fn is_believed(&self, ip: Option<[u8; 16]>) -> bool {
        is_listed(&self.forwarded_from, ip)
    }
}

fn is_listed(networks: &Networks, ip: Option<[u8; 16]>) -> bool {
    !networks.is_empty() && ip.is_none_or(|ip| networks.contains(&ip))
}

/// The rows of a snapshot: as many as this data plane has listeners, or none, which is as many
/// plain ones. A row too few would serve in the clear what is to be encrypted.
pub fn rows(given: Vec<proto::Listener>, host: &Host<'_>) -> Result<Vec<Listener>, String> {
    if given.is_empty() {
        return Ok((0..host.rows).map(|_| Listener::default()).collect());
    }
    if given.len() != host.rows {
        return Err(format!(
            "listeners: {} of them, this data plane has {}",
            given.len(),
            host.rows
        ));
    }
    let rows = given.iter().enumerate().map(|(index, listener)| {
        row(listener, host).map_err(|fault| format!("listener {index}: {fault}"))
    });
    rows.collect()
}

fn row(given: &proto::Listener, host: &Host<'_>) -> Result<Listener, String> {
    let tls = given.tls.as_ref().map(|tls| acceptor(tls, host));
    Ok(Listener {
        tls: tls.transpose().map_err(|fault| format!("tls: {fault}"))?,
        proxy_from: networks("proxy_from", &given.proxy_from)?,
        forwarded_from: networks("forwarded_from", &given.forwarded_from)?,
    })
}

fn acceptor(given: &proto::Tls, host: &Host<'_>) -> Result<Acceptor, String> {
    if given.client_required && given.client_ca.is_empty() {
        return Err("client_required: without client_ca".into());
    }
    let certificates = given.certificates.iter();
    let certificates: Vec<_> = certificates
        .map(|pair| CertificateKey {
            chain: &pair.chain,
            key: &pair.key,
        })
        .collect();
    let settings = Settings {
        certificates: &certificates,
        client_ca: &given.client_ca,
        client_required: given.client_required,
    };
    Acceptor::new(&settings, host.tickets).map_err(|fault| fault.to_string())
}

/// The keys of session tickets. No fault names a key's bytes.
pub fn ticket_keys(given: &[proto::TicketKey]) -> Result<Vec<TicketKey>, String> {
    let keys = given.iter().enumerate().map(|(index, given)| {
        let (name, key) = (given.name.as_slice(), given.key.as_slice());
        match (name.try_into(), key.try_into()) {
            (Ok(name), Ok(key)) => Ok(TicketKey { name, key }),
            _ => Err(format!(
                "ticket_keys: key {index} has a name of {} bytes and {} of its own, want 16 and 32",
                name.len(),
                key.len()
            )),
        }
    });
    keys.collect()
}
