//! What a client certificate says about its owner, as lines.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::{Any, BmpString, Tag, ToDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::limits::CLIENT_NAMES_BYTES_MAX;

/// The names in a leaf: `sha256:` of the certificate, `subject:` as in RFC 4514, `cn:`, `dns:`,
/// `uri:`, `email:` and `ip:`, in this order, joined by line feeds.
///
/// A line is whole or left out: so is one that would go beyond [`CLIENT_NAMES_BYTES_MAX`], one with
/// a control character, which could look like two, and one that is not text. Of a certificate that
/// the verifier could read and this parser cannot, the first line is all.
pub(crate) fn names(leaf: &CertificateDer<'_>) -> Box<[u8]> {
    let mut lines = Lines(String::new());
    lines.add(
        "sha256",
        &hex(digest::digest(&digest::SHA256, leaf).as_ref()),
    );
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return lines.finish();
    };
    let subject = leaf.subject();
    if let Some(name) = distinguished_name(subject) {
        lines.add("subject", &name);
    }
    for name in subject.iter_common_name() {
        if let Some(name) = text(name.attr_value()) {
            lines.add("cn", &name);
        }
    }
    let alternative = leaf.subject_alternative_name().ok().flatten();
    let names = alternative.map_or(&[][..], |extension| &extension.value.general_names);
    for name in names {
        if let GeneralName::DNSName(name) = name {
            lines.add("dns", name);
        }
    }
    for name in names {
        if let GeneralName::URI(name) = name {
            lines.add("uri", name);
        }
    }
    for name in names {
        if let GeneralName::RFC822Name(name) = name {
            lines.add("email", name);
        }
    }
    for name in names {
        if let GeneralName::IPAddress(octets) = name {
            if let Ok(octets) = <[u8; 4]>::try_from(*octets) {
                lines.add("ip", &Ipv4Addr::from(octets).to_string());
            } else if let Ok(octets) = <[u8; 16]>::try_from(*octets) {
                lines.add("ip", &Ipv6Addr::from(octets).to_string());
            }
        }
    }
    lines.finish()
}

struct Lines(String);

impl Lines {
    fn add(&mut self, kind: &str, name: &str) {
        let separator = usize::from(!self.0.is_empty());
        let size = separator + kind.len() + 1 + name.len();
        let fits = self.0.len() + size <= CLIENT_NAMES_BYTES_MAX;
        if name.is_empty() || !fits || name.chars().any(char::is_control) {
            return;
        }
        if separator > 0 {
            self.0.push('\n');
        }
        self.0.push_str(kind);
        self.0.push(':');
        self.0.push_str(name);
    }

    fn finish(self) -> Box<[u8]> {
        self.0.into_bytes().into_boxed_slice()
    }
}

/// RFC 4514 §2: the last RDN first. None: a value cannot be told.
fn distinguished_name(name: &X509Name<'_>) -> Option<String> {
    let mut out = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for part in parts.into_iter().rev() {
        for (index, attribute) in part.iter().enumerate() {
            if index > 0 {
                out.push('+');
            } else if !out.is_empty() {
                out.push(',');
            }
            write_attribute(&mut out, attribute)?;
        }
    }
    Some(out)
}

fn write_attribute(out: &mut String, attribute: &AttributeTypeAndValue<'_>) -> Option<()> {
    let kind = attribute.attr_type().to_id_string();
    let value = attribute.attr_value();
    match short_name(&kind) {
        Some(kind) => {
            out.push_str(kind);
            out.push('=');
            escape(out, &text(value)?);
        }
        // §2.4: the value of a type without a name here is its encoding.
        None => {
            let encoding = value.to_der_vec_raw().ok()?;
            write!(out, "{kind}=#{}", hex(&encoding)).ok()?;
        }
    }
    Some(())
}

/// The table of RFC 4514 §3.
fn short_name(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "2.5.4.3" => "CN",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.6" => "C",
        "2.5.4.9" => "STREET",
        "0.9.2342.19200300.100.1.25" => "DC",
        "0.9.2342.19200300.100.1.1" => "UID",
        _ => return None,
    })
}

/// RFC 4514 §2.4.
fn escape(out: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        let special = match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => true,
            '#' => index == 0,
            ' ' => index == 0 || index == last,
            _ => false,
        };
        if special {
            out.push('\\');
        }
        out.push(character);
    }
}

/// None: the value is no string, or not in its own alphabet.
fn text(value: &Any<'_>) -> Option<String> {
    match value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::Ia5String
        | Tag::NumericString
        | Tag::VisibleString
        | Tag::T61String => String::from_utf8(value.data.to_vec()).ok(),
        Tag::BmpString => Some(BmpString::try_from(value.clone()).ok()?.string()),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
