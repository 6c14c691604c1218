//! Client certificates: who is let in, and what is told of them.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::string::{BmpString, Ia5String};
use rcgen::{CertificateParams, CustomExtension, DnType, DnValue, IsCa, KeyPair, SanType};
use sluice_tls::limits::CLIENT_NAMES_BYTES_MAX;

use crate::pair::{
    CLIENTS, Owned, Pair, TLS12, TLS13, client_certificate, client_config, client_config_as,
    localhost,
};

/// The names that a session tells of a client, without the first line.
fn told(change: impl FnOnce(&mut CertificateParams)) -> String {
    let owned = client_certificate(&CLIENTS, "sender", change);
    let acceptor = localhost().of_clients(&CLIENTS, true).accept();
    let config = Arc::new(client_config_as(TLS13, &owned));
    let pair = Pair::open(&config, "localhost", &acceptor);
    let names = pair.session.client_names();
    assert!(names.len() <= CLIENT_NAMES_BYTES_MAX);
    let names = std::str::from_utf8(names).unwrap();
    let (digest, rest) = names.split_once('\n').unwrap_or((names, ""));
    let digest = digest.strip_prefix("sha256:").unwrap();
    assert_eq!(digest, hex_digest(&owned));
    rest.to_owned()
}

fn hex_digest(owned: &Owned) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &owned.leaf());
    let bytes = digest.as_ref().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn ia5(text: &str) -> Ia5String {
    text.try_into().unwrap()
}

#[test]
fn a_client_is_asked_for_and_its_names_are_told_in_both_versions() {
    let owned = client_certificate(&CLIENTS, "sender", |_| {});
    for versions in [TLS12, TLS13] {
        for required in [false, true] {
            let acceptor = localhost().of_clients(&CLIENTS, required).accept();
            let config = Arc::new(client_config_as(versions, &owned));
            let mut pair = Pair::open(&config, "localhost", &acceptor);
            let expected = format!(
                "sha256:{}\nsubject:CN=sender\ncn:sender",
                hex_digest(&owned)
            );
            assert_eq!(pair.session.client_names(), expected.as_bytes());
            pair.exchange();
        }
        let optional = localhost().of_clients(&CLIENTS, false).accept();
        let config = Arc::new(client_config(versions));
        let mut pair = Pair::open(&config, "localhost", &optional);
        assert!(pair.session.client_names().is_empty());
        pair.exchange();
    }
}

#[test]
fn a_listener_without_a_client_authority_does_not_ask() {
    let owned = client_certificate(&CLIENTS, "sender", |_| {});
    let config = Arc::new(client_config_as(TLS13, &owned));
    let pair = Pair::open(&config, "localhost", &localhost().accept());
    assert!(pair.session.client_names().is_empty());
}

#[test]
fn all_kinds_of_names_come_in_their_order() {
    let names = told(|params| {
        let name = &mut params.distinguished_name;
        name.push(DnType::CountryName, "DE");
        name.push(DnType::OrganizationName, "Acme, Inc. \"West\"");
        name.push(DnType::OrganizationalUnitName, " #1 \\ 2; ");
        // emailAddress: not in the table of RFC 4514, so it is told by number and encoding.
        let email = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        name.push(email, DnValue::Ia5String(ia5("a@b")));
        params.subject_alt_names = vec![
            SanType::IpAddress("2001:db8::1".parse::<IpAddr>().unwrap()),
            SanType::Rfc822Name(ia5("sender@example.com")),
            SanType::DnsName(ia5("b.example")),
            SanType::URI(ia5("spiffe://example/sender")),
            SanType::DnsName(ia5("a.example")),
            SanType::IpAddress("192.0.2.1".parse::<IpAddr>().unwrap()),
        ];
    });
    let expected = "subject:1.2.840.113549.1.9.1=#1603614062,OU=\\ #1 \\\\ 2\\;\\ ,\
        O=Acme\\, Inc. \\\"West\\\",C=DE,CN=sender\n\
        cn:sender\n\
        dns:b.example\n\
        dns:a.example\n\
        uri:spiffe://example/sender\n\
        email:sender@example.com\n\
        ip:2001:db8::1\n\
        ip:192.0.2.1";
    assert_eq!(names, expected);
}

#[test]
fn names_in_other_alphabets_are_told_as_utf_8() {
    let names = told(|params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = BmpString::try_from("Größe").unwrap();
        let kind = DnType::CommonName;
        params
            .distinguished_name
            .push(kind, DnValue::BmpString(name));
    });
    assert_eq!(names, "subject:CN=Größe\ncn:Größe");
}

#[test]
fn a_name_that_could_forge_a_line_has_none() {
    for forged in [
        "x\ncn:admin",
        "x\rcn:admin",
        "x\0",
        "x\u{85}cn:admin",
        "\u{1b}[2J",
    ] {
        let names = told(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, forged);
            params.subject_alt_names = vec![SanType::DnsName(ia5("good.example"))];
        });
        assert_eq!(names, "dns:good.example", "{forged:?}");
    }
    let names = told(|params| {
        params.subject_alt_names = vec![
            SanType::URI(ia5("spiffe://x\ncn:admin")),
            SanType::DnsName(ia5("x\ncn:admin")),
            SanType::Rfc822Name(ia5("x\n@y")),
            SanType::URI(ia5("spiffe://good")),
        ];
    });
    assert_eq!(names, "subject:CN=sender\ncn:sender\nuri:spiffe://good");
}

#[test]
fn a_name_that_is_not_text_has_no_line() {
    // A dNSName of one byte that is no UTF-8, an iPAddress of three bytes, and a good dNSName.
    let mut content = vec![0x30, 3 + 5 + 6, 0x82, 1, 0xff, 0x87, 3, 1, 2, 3, 0x82, 4];
    content.extend(b"good");
    let names = told(|params| {
        let extension = CustomExtension::from_oid_content(&[2, 5, 29, 17], content);
        params.custom_extensions = vec![extension];
    });
    assert_eq!(names, "subject:CN=sender\ncn:sender\ndns:good");
}

#[test]
fn names_beyond_the_bound_are_left_out_line_by_line() {
    let names = told(|params| {
        let long = "x".repeat(2100);
        let middle = "y".repeat(900);
        params.subject_alt_names = vec![
            SanType::DnsName(ia5(&long)),
            SanType::URI(ia5(&middle)),
            SanType::URI(ia5(&middle)),
            SanType::URI(ia5(&middle)),
            SanType::Rfc822Name(ia5("short")),
        ];
    });
    let uri = format!("uri:{}", "y".repeat(900));
    let expected = format!("subject:CN=sender\ncn:sender\n{uri}\n{uri}\nemail:short");
    assert_eq!(names, expected);
}

#[test]
fn the_names_are_the_leafs_and_not_those_of_who_signed_it() {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "between");
    let key = KeyPair::generate().unwrap();
    let between = rcgen::CertifiedIssuer::signed_by(params, key, &CLIENTS).unwrap();
    let mut owned = client_certificate(&between, "sender", |_| {});
    let alone = owned.clone();
    owned.chain += &between.pem();
    let acceptor = localhost().of_clients(&CLIENTS, true).accept();
    let config = Arc::new(client_config_as(TLS12, &owned));
    let pair = Pair::open(&config, "localhost", &acceptor);
    let expected = format!(
        "sha256:{}\nsubject:CN=sender\ncn:sender",
        hex_digest(&alone)
    );
    assert_eq!(pair.session.client_names(), expected.as_bytes());
}
