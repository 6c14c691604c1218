//! Finds the client's address in `X-Forwarded-For`, as far as the proxies that wrote it are known.
//!
//! It does not decide whether the peer may be believed at all (a listener's list does), and reads
//! no `Forwarded` (RFC 7239). Each proxy appends the address that it was called from, so only what
//! stands to the right of the first unknown proxy was written by a known one.

use std::net::{IpAddr, Ipv6Addr};

use crate::routes::Networks;

/// Addresses that are looked at. No chain of known proxies is longer.
pub const ADDRESSES_MAX: usize = 32;

/// The client's address, of `values`: all `X-Forwarded-For` lines of a request, in their order.
///
/// From the right, the first address that is not `trusted`; when all are, the leftmost. `None`: the
/// search met what is no address (`unknown`, an obfuscated name, nothing), or more addresses than
/// [`ADDRESSES_MAX`], or there is no line; the peer stands. IPv4 in IPv6 form comes as IPv4.
pub fn client<'a>(
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusted: &Networks,
) -> Option<IpAddr> {
    let mut leftmost = None;
    let items = values.rev().flat_map(|value| value.rsplit(|&c| c == b','));
    for (count, item) in items.enumerate() {
        if count == ADDRESSES_MAX {
            return None;
        }
        let address = address_of(item)?;
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        if !trusted.contains(&bits) {
            return Some(address);
        }
        leftmost = Some(address);
    }
    leftmost
}

/// `address`, `v4:port`, `[v6]` or `[v6]:port`, blanks around it left out.
fn address_of(item: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(item).ok()?.trim_matches([' ', '\t']);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (IpAddr::V6(host.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let colon = text.find(':')?;
            let (host, port) = text.split_at(colon);
            (IpAddr::V4(host.parse().ok()?), port)
        }
    };
    let is_port =
        |port: &str| port.bytes().all(|c| c.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let good = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    good.then(|| host.to_canonical())
}
