//! `X-Forwarded-For`: what somebody unknown wrote makes no difference to what a known proxy wrote.

use std::net::IpAddr;

use sluice_core::forwarded::{ADDRESSES_MAX, client};
use sluice_core::routes::{Network, Networks};

/// Lines of values, cut at LF. Commas and lines come to the same.
pub fn run(input: &[u8]) {
    let list = ["10.0.0.0/8", "192.168.0.0/16", "fd00::/8", "::1"];
    let trusted: Networks = list
        .iter()
        .map(|text| text.parse::<Network>().expect("a network"))
        .collect();
    let is_trusted = |address: IpAddr| {
        trusted.contains(&match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        })
    };
    let lines: Vec<&[u8]> = input.split(|&c| c == b'\n').collect();
    let found = client(lines.iter().copied(), &trusted);
    let joined = lines.join(&b","[..]);
    assert_eq!(
        client([&joined[..]].into_iter(), &trusted),
        found,
        "lines make a difference"
    );

    let count = joined.split(|&c| c == b',').count();
    // A known proxy in between changes nothing, and an unknown one is the client.
    let behind = |address: &[u8]| client([&joined[..], address].into_iter(), &trusted);
    if count < ADDRESSES_MAX {
        assert_eq!(behind(b"10.1.2.3"), found);
    }
    assert_eq!(
        behind(b" 203.0.113.9:80 "),
        Some(IpAddr::from([203, 0, 113, 9]))
    );
    assert_eq!(behind(b"unknown"), None);

    let Some(address) = found else { return };
    assert_eq!(address, address.to_canonical(), "IPv4 in IPv6 form");
    let is_leftmost = count <= ADDRESSES_MAX && is_trusted(address);
    assert!(is_leftmost || !is_trusted(address));
    // Whoever stands farther left cannot forge it, unless all were trusted.
    let forged = client([&b"198.51.100.66"[..], &joined].into_iter(), &trusted);
    match is_trusted(address) {
        true if count < ADDRESSES_MAX => {
            assert_eq!(forged, Some(IpAddr::from([198, 51, 100, 66])));
        }
        true => assert_eq!(forged, None),
        false => assert_eq!(forged, found),
    }
}
