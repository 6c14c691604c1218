//! Who can go on with which session.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use sluice_tls::{Acceptor, TicketKey, Tickets};

use crate::pair::{
    CLIENTS, Listener, Pair, TLS12, TLS13, authority, client_certificate, client_config,
    client_config_as, ecdsa, localhost, ticket_key,
};

/// Whether the client's next session is short.
fn resumes(config: &Arc<ClientConfig>, acceptor: &Acceptor) -> bool {
    let mut pair = Pair::open(config, "localhost", acceptor);
    pair.exchange();
    pair.session.resumed()
}

/// As another process would have it, with the same keys.
fn elsewhere(listener: &Listener, keys: &[TicketKey]) -> Listener {
    let mut other = listener.clone();
    other.tickets = Arc::new(Tickets::new());
    other.with_tickets(keys)
}

fn keys(numbers: &[u8]) -> Vec<TicketKey> {
    numbers.iter().map(|number| ticket_key(*number)).collect()
}

#[test]
fn a_session_goes_on_here_and_in_another_process_with_the_same_keys() {
    for versions in [TLS12, TLS13] {
        let here = localhost().with_tickets(&keys(&[1]));
        let there = elsewhere(&here, &keys(&[1]));
        let config = Arc::new(client_config(versions));
        assert!(!resumes(&config, &here.accept()));
        assert!(resumes(&config, &here.accept()));
        assert!(resumes(&config, &there.accept()));
        assert!(resumes(&config, &here.accept()));
    }
}

#[test]
fn a_ticket_outlives_one_change_of_keys_and_a_renewed_certificate_but_not_its_own_key() {
    for versions in [TLS12, TLS13] {
        let first = localhost().with_tickets(&keys(&[1]));
        let config = Arc::new(client_config(versions));
        assert!(!resumes(&config, &first.accept()));
        let mut changed = elsewhere(&first, &keys(&[2, 1]));
        changed.certificates = vec![ecdsa(&["localhost"])];
        assert!(resumes(&config, &changed.accept()));
        // The ticket of that session is sealed with the new key.
        assert!(resumes(
            &config,
            &elsewhere(&first, &keys(&[3, 2])).accept()
        ));
        let unknown = elsewhere(&first, &keys(&[4]));
        assert!(!resumes(&config, &unknown.accept()));
        assert!(resumes(&config, &unknown.accept()));
        // In place, under sessions that exist.
        unknown.tickets.set(&keys(&[5, 4]));
        assert!(resumes(&config, &unknown.accept()));
        // A key of the same name that is another one.
        let forged = TicketKey {
            name: [5; 16],
            key: [0; 32],
        };
        unknown.tickets.set(&[forged]);
        assert!(!resumes(&config, &unknown.accept()));
    }
}

#[test]
fn without_keys_there_are_no_tickets() {
    for versions in [TLS12, TLS13] {
        let listener = localhost();
        let acceptor = listener.accept();
        let config = Arc::new(client_config(versions));
        for _ in 0..2 {
            let pair = Pair::open(&config, "localhost", &acceptor);
            assert!(!pair.session.resumed());
            assert_eq!(pair.client.0.tls13_tickets_received(), 0);
        }
        listener.tickets.set(&keys(&[1]));
        assert!(!resumes(&config, &acceptor));
        listener.tickets.set(&[]);
        assert!(!resumes(&config, &acceptor));
    }
}

#[test]
fn a_client_gets_one_ticket() {
    let acceptor = localhost().with_tickets(&keys(&[1])).accept();
    let config = Arc::new(client_config(TLS13));
    let pair = Pair::open(&config, "localhost", &acceptor);
    assert_eq!(pair.client.0.tls13_tickets_received(), 1);
}

#[test]
fn a_resumed_client_keeps_its_names() {
    let owned = client_certificate(&CLIENTS, "sender", |_| {});
    for versions in [TLS12, TLS13] {
        for required in [false, true] {
            let listener = localhost()
                .of_clients(&CLIENTS, required)
                .with_tickets(&keys(&[1]));
            let config = Arc::new(client_config_as(versions, &owned));
            let full = Pair::open(&config, "localhost", &listener.accept());
            let short = Pair::open(&config, "localhost", &listener.accept());
            assert!(!full.session.resumed() && short.session.resumed());
            assert!(!full.session.client_names().is_empty());
            assert_eq!(full.session.client_names(), short.session.client_names());
        }
    }
}

#[test]
fn a_session_does_not_go_on_at_a_listener_that_asks_for_something_else() {
    let others = authority("others");
    let of = |authority, required| {
        let listener = localhost().of_clients(authority, required);
        listener.with_tickets(&keys(&[1]))
    };
    let open = localhost().with_tickets(&keys(&[1]));
    let mut elsewhere = open.clone();
    elsewhere.certificates = vec![ecdsa(&["localhost", "another.example"])];
    let with = |other: &str| {
        let mut listener = of(&CLIENTS, true);
        listener.client_ca += other;
        listener
    };
    let both = with(&others.pem());

    let owned = client_certificate(&CLIENTS, "sender", |_| {});
    for versions in [TLS12, TLS13] {
        for (from, to) in [
            // Who came without a certificate is not let in where one is required.
            (&open, &of(&CLIENTS, true)),
            (&of(&CLIENTS, false), &of(&CLIENTS, true)),
            // Who is trusted by one authority is not therefore by another.
            (&both, &of(&CLIENTS, true)),
            (&of(&CLIENTS, true), &both),
            (&with(&authority("third").pem()), &both),
            (&of(&CLIENTS, true), &open),
            // A session with one host is none with another.
            (&open, &elsewhere),
        ] {
            let config = Arc::new(client_config_as(versions, &owned));
            assert!(!resumes(&config, &from.accept()));
            assert!(!resumes(&config, &to.accept()));
            assert!(resumes(&config, &to.accept()), "the new ticket is good");
        }
        // Without a certificate, the handshake that is full then is refused.
        let without = Arc::new(client_config(versions));
        for from in [&open, &of(&CLIENTS, false)] {
            assert!(!resumes(&without, &from.accept()));
            let mut pair = Pair::new(&without, "localhost", &of(&CLIENTS, true).accept());
            pair.settle().unwrap_err();
            assert!(pair.received.is_empty() && pair.session.client_names().is_empty());
        }
    }
}

#[test]
fn a_client_whose_certificate_is_too_long_for_a_ticket_gets_in_without_one() {
    use rcgen::SanType;
    let owned = client_certificate(&CLIENTS, "sender", |params| {
        let name = "x".repeat(60);
        let names = (0..300).map(|_| SanType::DnsName(name.as_str().try_into().unwrap()));
        params.subject_alt_names = names.collect();
    });
    for versions in [TLS12, TLS13] {
        let listener = localhost().of_clients(&CLIENTS, true);
        let acceptor = listener.with_tickets(&keys(&[1])).accept();
        let config = Arc::new(client_config_as(versions, &owned));
        assert!(!resumes(&config, &acceptor));
        assert!(!resumes(&config, &acceptor));
    }
}

#[test]
fn a_damaged_ticket_makes_a_full_handshake() {
    use rustls::client::ClientSessionMemoryCache;
    let listener = localhost().with_tickets(&keys(&[1]));
    let acceptor = listener.accept();
    let mut config = client_config(TLS12);
    config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(4)));
    let config = Arc::new(config);
    assert!(!resumes(&config, &acceptor));
    let mut hello = crate::pair::Client::new(&config, "localhost").write();
    let at = hello.windows(16).position(|part| part == [1; 16]).unwrap();
    let size = usize::from(u16::from_be_bytes([hello[at - 2], hello[at - 1]]));
    // The name of the key, the nonce, the sealed part, the tag.
    for byte in [at, at + 16, at + 30, at + size - 1] {
        let mut session = sluice_tls::Session::new(&acceptor);
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let mut bytes = hello.clone();
        bytes[byte] ^= 1;
        // In TLS 1.2 the ticket is under no digest of the ClientHello's.
        session.receive(&mut bytes, &mut plain, &mut out).unwrap();
        assert!(!session.resumed(), "byte {byte}");
    }
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let mut session = sluice_tls::Session::new(&acceptor);
    session.receive(&mut hello, &mut plain, &mut out).unwrap();
    assert!(session.resumed());
}
