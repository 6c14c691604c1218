//! Session tickets that every process with the same keys can open.
//!
//! ```text
//!   0        16       28                                     end - 16
//!   +--------+--------+-----------+--------------------------+--------+
//!   | name   | nonce  | sealed at | the session, as rustls   | tag    |
//!   | of key | random | seconds   | writes it                |        |
//!   +--------+--------+-----------+--------------------------+--------+
//!                     '-- AES-256-GCM, with the listener's identity --'
//! ```
//!
//! The identity is a digest of what a session was let in by: see [`crate::Acceptor`]. It is not in
//! the ticket; one of a listener with another identity does not open. rustls itself does not look
//! at a ticket's age, nor again at the certificate of a client in it: the first is done here, the
//! second in the session.
//!
//! The control plane makes the keys and changes them. Without keys no tickets are given out.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;
use zeroize::Zeroize;

use crate::limits::{TICKET_BYTES_MAX, TICKET_KEYS_MAX, TICKET_LIFETIME_SECONDS};

const NAME_LEN: usize = 16;
const TIME_LEN: usize = 8;
const TAG_LEN: usize = 16;

/// What tickets are sealed with. Its memory is cleared when it goes.
pub struct TicketKey {
    /// Shown in each ticket, so that whoever opens it knows which key to take.
    pub name: [u8; NAME_LEN],
    /// Secret.
    pub key: [u8; 32],
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").finish_non_exhaustive()
    }
}

impl Drop for TicketKey {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The keys that are in force, shared by all listeners and workers of a process.
#[derive(Default)]
pub struct Tickets {
    keys: RwLock<Arc<[NamedKey]>>,
}

struct NamedKey {
    name: [u8; NAME_LEN],
    key: RandomizedNonceKey,
}

impl Tickets {
    /// Without keys.
    pub fn new() -> Tickets {
        Tickets::default()
    }

    /// The first key seals from now on, all of them open; of more than [`TICKET_KEYS_MAX`] the
    /// first ones are taken. No keys: no tickets are given out and none are accepted.
    pub fn set(&self, keys: &[TicketKey]) {
        let keys = keys.iter().take(TICKET_KEYS_MAX).map(|key| NamedKey {
            name: key.name,
            key: RandomizedNonceKey::new(&AES_256_GCM, &key.key)
                .expect("AES-256 takes every key of 32 bytes"),
        });
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.collect();
    }

    fn keys(&self) -> Arc<[NamedKey]> {
        // The value is one pointer, so a panic elsewhere cannot have left it half written.
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets")
            .field("keys", &self.keys().len())
            .finish()
    }
}

/// The tickets of listeners with one identity.
#[derive(Debug)]
pub(crate) struct Ticketer {
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) identity: [u8; 32],
    pub(crate) clock: Arc<dyn TimeProvider>,
}

impl Ticketer {
    fn now(&self) -> Option<u64> {
        Some(self.clock.current_time()?.as_secs())
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        !self.tickets.keys().is_empty()
    }

    fn lifetime(&self) -> u32 {
        TICKET_LIFETIME_SECONDS
    }

    /// None: the peer gets no ticket.
    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        if session.len() > TICKET_BYTES_MAX {
            return None;
        }
        let keys = self.tickets.keys();
        let NamedKey { name, key } = keys.first()?;
        let mut sealed = Vec::with_capacity(TIME_LEN + session.len() + TAG_LEN);
        sealed.extend_from_slice(&self.now()?.to_be_bytes());
        sealed.extend_from_slice(session);
        // 96 random bits for each: a key may seal 2^32 tickets (NIST SP 800-38D §8.3).
        let nonce = key
            .seal_in_place_append_tag(Aad::from(self.identity), &mut sealed)
            .ok()?;
        Some([name.as_slice(), nonce.as_ref(), sealed.as_slice()].concat())
    }

    /// None: the handshake is a full one.
    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.tickets.keys();
        let key = &keys.iter().find(|key| key.name == *name)?.key;
        let mut opened = sealed.to_vec();
        let plain = key
            .open_in_place(
                Nonce::from(nonce),
                Aad::from(self.identity),
                opened.as_mut_slice(),
            )
            .ok()?;
        let (sealed_at, session) = plain.split_first_chunk::<TIME_LEN>()?;
        // Another host's clock may be ahead of ours: what is from the future is fresh.
        let age = self.now()?.saturating_sub(u64::from_be_bytes(*sealed_at));
        (age <= u64::from(TICKET_LIFETIME_SECONDS)).then(|| session.to_vec())
    }
}
