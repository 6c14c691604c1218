//! Which certificate is shown to whom, and which settings are refused.

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use sluice_tls::Error;

use crate::pair::{
    CLIENTS, Listener, Owned, Pair, SERVERS, TLS12, TLS13, authority, client_config,
    client_config_with, ecdsa, localhost, rsa,
};

/// The leaf that a client gets which names `host` and does not care what it gets.
fn shown(listener: &Listener, host: &str) -> Vec<u8> {
    let mut config = client_config(TLS13);
    config.enable_sni = true;
    trust_all(&mut config);
    let pair = Pair::open(&Arc::new(config), host, &listener.accept());
    pair.leaf().to_vec()
}

/// For a client that is to see a certificate of another name.
fn trust_all(config: &mut rustls::ClientConfig) {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, SignatureScheme};

    #[derive(Debug)]
    struct All;
    impl ServerCertVerifier for All {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
            algorithms.supported_schemes()
        }
    }
    config.dangerous().set_certificate_verifier(Arc::new(All));
}

#[test]
fn the_exact_name_goes_before_the_wildcard_and_that_before_the_first() {
    let first = ecdsa(&["first.example"]);
    let wildcard = ecdsa(&["*.example.com"]);
    let exact = ecdsa(&["In.Example.com", "other.example"]);
    let listener = Listener::new(vec![first.clone(), wildcard.clone(), exact.clone()]);
    for (host, expected) in [
        ("in.example.com", &exact),
        ("IN.EXAMPLE.COM", &exact),
        ("other.example", &exact),
        ("out.example.com", &wildcard),
        // A wildcard is for one label, and there must be one.
        ("a.out.example.com", &first),
        ("example.com", &first),
        ("unknown.test", &first),
        ("first.example", &first),
        // No server name is sent for an address.
        ("127.0.0.1", &first),
    ] {
        assert_eq!(shown(&listener, host), expected.leaf().to_vec(), "{host}");
    }
}

#[test]
fn a_certificate_without_dns_names_is_found_by_its_common_name() {
    let mut params = CertificateParams::new([]).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, "old.example");
    let old = Owned::signed(&params, &KeyPair::generate().unwrap(), &SERVERS);
    // Where there are DNS names, the common name is none of them (RFC 6125 §6.4.4).
    let mut params = CertificateParams::new(["new.example".to_owned()]).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, "common.example");
    let new = Owned::signed(&params, &KeyPair::generate().unwrap(), &SERVERS);
    let first = ecdsa(&["first.example"]);
    let listener = Listener::new(vec![first.clone(), old.clone(), new]);
    assert_eq!(shown(&listener, "old.example"), old.leaf().to_vec());
    assert_eq!(shown(&listener, "common.example"), first.leaf().to_vec());
}

#[test]
fn of_two_kinds_of_key_the_first_is_shown_that_the_client_can_use() {
    let (rsa, ecdsa) = (rsa(&["localhost"]), ecdsa(&["localhost"]));
    let only = |suite| {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = vec![suite];
        client_config_with(provider, TLS12, None)
    };
    let only_rsa = cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
    let only_ecdsa = cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    for (order, config, expected) in [
        ([&rsa, &ecdsa], only(only_rsa), &rsa),
        ([&rsa, &ecdsa], only(only_ecdsa), &ecdsa),
        ([&ecdsa, &rsa], only(only_rsa), &rsa),
        ([&ecdsa, &rsa], only(only_ecdsa), &ecdsa),
        ([&rsa, &ecdsa], client_config(TLS13), &rsa),
        ([&ecdsa, &rsa], client_config(TLS13), &ecdsa),
    ] {
        let acceptor = Listener::new(order.into_iter().cloned().collect()).accept();
        let pair = Pair::open(&Arc::new(config), "localhost", &acceptor);
        assert_eq!(pair.leaf(), expected.leaf());
    }
}

#[test]
fn in_tls_1_3_a_key_is_not_chosen_by_a_scheme_that_is_for_certificates_alone() {
    let (rsa, ecdsa) = (rsa(&["localhost"]), ecdsa(&["localhost"]));
    // Without RSA-PSS.
    let mut provider = aws_lc_rs::default_provider();
    let algorithms = &mut provider.signature_verification_algorithms;
    let kept = algorithms.mapping.iter().copied().filter(|(scheme, _)| {
        let name = scheme.as_str().unwrap();
        !name.starts_with("RSA_PSS")
    });
    algorithms.mapping = kept.collect::<Vec<_>>().leak();
    let config = Arc::new(client_config_with(provider, TLS13, None));
    let acceptor = Listener::new(vec![rsa, ecdsa.clone()]).accept();
    let pair = Pair::open(&config, "localhost", &acceptor);
    assert_eq!(pair.leaf(), ecdsa.leaf());
}

#[test]
fn http_1_1_is_agreed_on_when_it_is_offered_and_needs_no_offer() {
    let acceptor = localhost().accept();
    for (offer, expected) in [
        (&[][..], None),
        (&["http/1.1"][..], Some("http/1.1")),
        (&["h2", "http/1.1"][..], Some("http/1.1")),
    ] {
        for versions in [TLS12, TLS13] {
            let mut config = client_config(versions);
            config.alpn_protocols = offer.iter().map(|name| name.as_bytes().to_vec()).collect();
            let pair = Pair::open(&Arc::new(config), "localhost", &acceptor);
            assert_eq!(pair.client.0.alpn_protocol(), expected.map(str::as_bytes));
        }
    }
}

#[test]
fn a_refused_setting_is_named_and_shows_no_secret() {
    let good = ecdsa(&["localhost"]);
    let other = ecdsa(&["localhost"]);
    let with = |chain: &str, key: &str| Owned {
        chain: chain.to_owned(),
        key: key.to_owned(),
    };
    let body = good.key.lines().nth(1).unwrap();
    let cases = [
        (with("", &good.key), "no certificate"),
        (with(&good.key, &good.key), "no certificate"),
        (with(&good.chain, ""), "no private key"),
        (with(&good.chain, &good.chain), "no private key"),
        (with(&good.chain, &other.key), "leaf must come first"),
        (with(&good.chain, &good.key[..80]), "no private key"),
        (with(&good.chain[..200], &good.key), "not whole"),
        (
            with(&good.chain, &format!("-----BEGIN {body}\n{body}")),
            "no private key",
        ),
        (
            with(
                "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
                &good.key,
            ),
            "can be read",
        ),
    ];
    for (bad, expected) in cases {
        let error = Listener::new(vec![good.clone(), bad]).try_accept();
        let error = error.unwrap_err();
        assert!(
            matches!(error, Error::Certificate { index: 1, .. }),
            "{error:?}"
        );
        let told = format!("{error} {error:?}");
        assert!(
            told.contains("certificates[1]: ") && told.contains(expected),
            "{told}"
        );
        assert!(!told.contains(&body[..16]), "{told}");
    }
    let none = Listener::new(Vec::new()).try_accept().unwrap_err();
    assert!(matches!(none, Error::Count { certificates: 0 }), "{none}");

    for ca in ["nothing", &good.key, &CLIENTS.pem()[..300]] {
        let mut listener = localhost();
        listener.client_ca = ca.to_owned();
        let error = listener.try_accept().unwrap_err();
        assert!(matches!(error, Error::ClientAuthority { .. }), "{error}");
    }
    let mut listener = localhost().of_clients(&authority("fine"), true);
    listener.client_ca += "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let error = listener.try_accept().unwrap_err().to_string();
    assert!(error.starts_with("client_ca: certificate 1"), "{error}");
}

#[test]
fn nothing_that_can_be_printed_shows_a_key() {
    let listener = localhost().with_tickets(&[crate::pair::ticket_key(7)]);
    let acceptor = listener.accept();
    let config = Arc::new(client_config(TLS13));
    let pair = Pair::open(&config, "localhost", &acceptor);
    let printed = format!(
        "{:?} {:?} {:?} {:?}",
        acceptor,
        listener.tickets,
        crate::pair::ticket_key(7),
        pair.session,
    );
    // The key's bytes, in the ways of Debug.
    for secret in ["93, 93", "5d5d", "5D5D", "PRIVATE"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
