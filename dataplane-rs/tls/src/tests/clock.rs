//! Tickets and certificates that grow old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, CertificateError, ClientConfig};

use super::{World, connect, provider, read, written};
use crate::limits::TICKET_LIFETIME_SECONDS;
use crate::{Acceptor, CertificateKey, Error, Session, Settings, TicketKey, Tickets};

#[derive(Debug)]
struct Clock(AtomicU64);

impl Clock {
    fn now() -> Arc<Clock> {
        Arc::new(Clock(AtomicU64::new(UnixTime::now().as_secs())))
    }

    fn step(&self, seconds: i64) {
        self.0.fetch_add(seconds as u64, Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = self.0.load(Ordering::Relaxed);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

fn acceptor(world: &World, clock: &Arc<Clock>, client_ca: &str) -> Acceptor {
    let tickets = Arc::new(Tickets::new());
    tickets.set(&[TicketKey {
        name: *b"name of the key.",
        key: [9; 32],
    }]);
    let certificate = CertificateKey {
        chain: world.chain.as_bytes(),
        key: world.key.as_bytes(),
    };
    let settings = Settings {
        certificates: &[certificate],
        client_ca: client_ca.as_bytes(),
        client_required: true,
    };
    Acceptor::with(&settings, &tickets, provider(), clock.clone()).unwrap()
}

/// A handshake: the session and what the server's verdict was, and the client's.
fn handshake(
    config: &Arc<ClientConfig>,
    acceptor: &Acceptor,
) -> (Session, Result<(), Error>, Result<(), rustls::Error>) {
    let mut client = connect(config);
    let mut session = Session::new(acceptor);
    let mut verdict = Ok(());
    loop {
        let mut bytes = written(&mut client);
        if bytes.is_empty() || verdict.is_err() {
            return (session, verdict, Ok(()));
        }
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        verdict = session.receive(&mut bytes, &mut plain, &mut out);
        if let Err(error) = read(&mut client, &out) {
            return (session, verdict, Err(error));
        }
    }
}

#[test]
fn a_ticket_is_good_for_its_lifetime_and_not_a_second_longer() {
    let world = World::new();
    let lifetime = i64::from(TICKET_LIFETIME_SECONDS);
    for version in [&TLS12, &TLS13] {
        // The last is another host whose clock is behind.
        for (age, good) in [
            (0, true),
            (lifetime, true),
            (lifetime + 1, false),
            (-60, true),
        ] {
            let clock = Clock::now();
            let acceptor = acceptor(&world, &clock, "");
            let config = Arc::new(world.client(provider(), &[version], None));
            assert!(!handshake(&config, &acceptor).0.resumed());
            clock.step(age);
            let (session, verdict, _) = handshake(&config, &acceptor);
            verdict.unwrap();
            assert_eq!(session.resumed(), good, "{age} s old");
        }
    }
}

#[test]
fn a_resumed_client_whose_certificate_has_expired_since_is_told_so_and_gets_nothing() {
    let world = World::new();
    let clock = Clock::now();
    let acceptor = acceptor(&world, &clock, &world.authority.pem());
    let mut params = CertificateParams::new([]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let expires = UnixTime::now().as_secs() as i64 + 60;
    let start = rcgen::date_time_ymd(1970, 1, 1);
    params.not_after = start + Duration::from_secs(expires as u64);
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &world.authority).unwrap();
    for version in [&TLS12, &TLS13] {
        let client = Some((leaf.der().clone(), &key));
        let config = Arc::new(world.client(provider(), &[version], client));
        assert!(!handshake(&config, &acceptor).0.resumed());
        let (session, verdict, _) = handshake(&config, &acceptor);
        verdict.unwrap();
        assert!(session.resumed() && !session.client_names().is_empty());

        clock.step(120);
        let (mut session, verdict, told) = handshake(&config, &acceptor);
        assert!(
            matches!(
                &verdict,
                Err(Error::Peer(rustls::Error::InvalidCertificate(
                    CertificateError::Expired | CertificateError::ExpiredContext { .. }
                )))
            ),
            "{verdict:?}"
        );
        assert!(session.client_names().is_empty());
        assert!(matches!(
            session.send(b"x", &mut Vec::new()),
            Err(Error::Unready)
        ));
        let expected = rustls::Error::AlertReceived(AlertDescription::CertificateExpired);
        assert_eq!(told.unwrap_err(), expected);
        clock.step(-120);
    }
}
