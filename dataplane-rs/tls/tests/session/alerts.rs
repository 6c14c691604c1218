//! What a peer is told when it is turned away.

use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::{AlertDescription, ClientConfig};
use sluice_tls::{Acceptor, Error, Session};

use crate::pair::{
    CLIENTS, Client, Fault, Listener, Pair, TLS12, TLS13, authority, client_certificate,
    client_config, client_config_as, client_config_with, ecdsa, localhost,
};

/// The alert by which a handshake that must fail ends, as the client has it.
fn alert(config: ClientConfig, acceptor: &Acceptor) -> AlertDescription {
    let mut pair = Pair::new(&Arc::new(config), "localhost", acceptor);
    let fault = pair.settle().unwrap_err();
    let Fault::Session(Error::Peer(_), Some(rustls::Error::AlertReceived(alert))) = fault else {
        panic!("{fault:?}");
    };
    assert!(pair.received.is_empty());
    over(&mut pair.session);
    alert
}

/// A session that failed takes and gives nothing, and has no memory.
fn over(session: &mut Session) {
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let again = session.receive(&mut [22, 3, 3, 0, 1, 0], &mut plain, &mut out);
    assert!(matches!(again, Err(Error::Unready)));
    assert!(matches!(session.send(b"x", &mut out), Err(Error::Unready)));
    session.close(&mut out);
    assert!(plain.is_empty() && out.is_empty());
    assert_eq!(session.kept(), 0);
}

/// What a fresh session says to these bytes: an alert in plain.
fn answer(bytes: &[u8]) -> Vec<u8> {
    let mut session = Session::new(&localhost().accept());
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let verdict = session.receive(&mut bytes.to_vec(), &mut plain, &mut out);
    assert!(matches!(verdict, Err(Error::Peer(_))), "{verdict:?}");
    over(&mut session);
    out
}

fn fatal(alert: AlertDescription) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, u8::from(alert)]
}

#[test]
fn a_client_that_offers_h2_alone_is_told_so() {
    for versions in [TLS12, TLS13] {
        let mut config = client_config(versions);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let alert = alert(config, &localhost().accept());
        assert_eq!(alert, AlertDescription::NoApplicationProtocol);
        assert_eq!(u8::from(alert), 120);
    }
}

#[test]
fn a_client_without_a_certificate_where_one_is_required() {
    let acceptor = localhost().of_clients(&CLIENTS, true).accept();
    assert_eq!(
        alert(client_config(TLS13), &acceptor),
        AlertDescription::CertificateRequired
    );
    assert_eq!(
        alert(client_config(TLS12), &acceptor),
        AlertDescription::CertificateRequired
    );
}

#[test]
fn a_client_with_a_certificate_that_is_not_good() {
    let others = authority("others");
    let expired = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    };
    let early = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(3000, 1, 1);
        params.not_after = rcgen::date_time_ymd(3001, 1, 1);
    };
    let server = |params: &mut rcgen::CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    let cases = [
        (
            client_certificate(&others, "x", |_| {}),
            AlertDescription::UnknownCA,
        ),
        (
            client_certificate(&CLIENTS, "x", expired),
            AlertDescription::CertificateExpired,
        ),
        (
            client_certificate(&CLIENTS, "x", early),
            AlertDescription::CertificateExpired,
        ),
        (
            client_certificate(&CLIENTS, "x", server),
            AlertDescription::UnsupportedCertificate,
        ),
    ];
    for (owned, expected) in &cases {
        for versions in [TLS12, TLS13] {
            // One that is shown must be good, also where none is required.
            for required in [false, true] {
                let acceptor = localhost().of_clients(&CLIENTS, required).accept();
                let config = client_config_as(versions, owned);
                assert_eq!(alert(config, &acceptor), *expected);
            }
        }
    }
}

#[test]
fn a_client_with_no_suite_for_the_servers_key() {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
    let acceptor = Listener::new(vec![ecdsa(&["localhost"])]).accept();
    assert_eq!(
        alert(client_config_with(provider, TLS12, None), &acceptor),
        AlertDescription::HandshakeFailure
    );
}

#[test]
fn bytes_that_are_not_tls_are_answered_by_the_end_of_the_first_header() {
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        b"PROXY TCP4 ",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"hello",
        &[22, 9, 9, 0, 5],
        &[22, 3, 1, 0xff, 0xff],
        &[22, 3, 1, 0, 0],
    ] {
        assert_eq!(
            answer(bytes),
            fatal(AlertDescription::DecodeError),
            "{bytes:?}"
        );
        // The same when it comes byte by byte, and no byte later.
        let mut session = Session::new(&localhost().accept());
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let mut bytes = bytes[..5].iter();
        assert!(bytes.any(|byte| session.receive(&mut [*byte], &mut plain, &mut out).is_err()));
        assert_eq!(out, fatal(AlertDescription::DecodeError));
    }
}

#[test]
fn data_before_a_hello_is_unexpected() {
    let answered = answer(&[23, 3, 3, 0, 3, 1, 2, 3]);
    assert_eq!(answered, fatal(AlertDescription::UnexpectedMessage));
}

#[test]
fn an_old_client_is_told_that_the_version_is_wrong() {
    // TLS 1.1, one suite, one scheme of signatures.
    let mut hello = vec![22, 3, 1, 0, 55, 1, 0, 0, 51, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
    assert_eq!(answer(&hello), fatal(AlertDescription::ProtocolVersion));
}

#[test]
fn a_message_that_never_ends_is_cut_off_with_an_alert() {
    // A ClientHello that says it has 2^24 - 1 bytes, one of 65 535 that comes in a record for each
    // byte, and records without any.
    let mut endless = vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff];
    assert_eq!(answer(&endless), fatal(AlertDescription::DecodeError));
    endless = vec![22, 3, 1, 0, 4, 1, 0, 0xff, 0xff];
    endless.extend([22, 3, 1, 0, 1, 0].repeat(60_000));
    assert_eq!(answer(&endless), fatal(AlertDescription::DecodeError));
    let empty = [20, 3, 3, 0, 0].repeat(64);
    answer(&empty);

    // The same in small parts: the bound is on what is kept.
    let mut session = Session::new(&localhost().accept());
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let mut most = 0;
    let verdict = endless.chunks(100).try_for_each(|part| {
        let verdict = session.receive(&mut part.to_vec(), &mut plain, &mut out);
        most = most.max(session.kept());
        verdict
    });
    assert!(verdict.is_err());
    assert_eq!(out, fatal(AlertDescription::DecodeError));
    assert!(most <= 2 * sluice_tls::limits::KEPT_BYTES_MAX, "{most}");
    over(&mut session);
}

#[test]
fn a_damaged_record_ends_a_session_after_what_was_good() {
    for versions in [TLS12, TLS13] {
        let config = Arc::new(client_config(versions));
        let mut pair = Pair::open(&config, "localhost", &localhost().accept());
        let mut bytes = pair.client.send(b"good");
        bytes.extend(pair.client.send(b"bad"));
        *bytes.last_mut().unwrap() ^= 1;
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let verdict = pair.session.receive(&mut bytes, &mut plain, &mut out);
        assert!(matches!(
            verdict,
            Err(Error::Peer(rustls::Error::DecryptError))
        ));
        assert_eq!(plain, b"good");
        let told = pair.client.read(&out).unwrap_err();
        let expected = rustls::Error::AlertReceived(AlertDescription::BadRecordMac);
        assert_eq!(told, expected);
        over(&mut pair.session);
    }
}

#[test]
fn a_bound_of_rustls_is_told_in_an_encrypted_alert() {
    let config = Arc::new(client_config(TLS13));
    let mut pair = Pair::open(&config, "localhost", &localhost().accept());
    // A key update again and again.
    let mut bytes = Vec::new();
    for _ in 0..40 {
        pair.client.0.refresh_traffic_keys().unwrap();
        bytes.extend(pair.client.write());
    }
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let verdict = pair.session.receive(&mut bytes, &mut plain, &mut out);
    assert!(matches!(
        verdict,
        Err(Error::Peer(rustls::Error::PeerMisbehaved(_)))
    ));
    let told = pair.client.read(&out).unwrap_err();
    let expected = rustls::Error::AlertReceived(AlertDescription::DecodeError);
    assert_eq!(told, expected);
    over(&mut pair.session);
}

#[test]
fn an_alert_of_the_peer_is_not_answered() {
    let config = Arc::new(client_config(TLS13));
    let acceptor = Listener::new(vec![ecdsa(&["elsewhere.example"])]).accept();
    let mut client = Client::new(&config, "localhost");
    let mut session = Session::new(&acceptor);
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    session
        .receive(&mut client.write(), &mut plain, &mut out)
        .unwrap();
    client.read(&out).unwrap_err();
    out.clear();
    let verdict = session.receive(&mut client.write(), &mut plain, &mut out);
    let Err(Error::Peer(error)) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(
        error,
        rustls::Error::AlertReceived(AlertDescription::BadCertificate)
    );
    assert!(out.is_empty());
    over(&mut session);
}
