//! Allow lists of networks.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address range in CIDR form. IPv4 is kept as `::ffff:a.b.c.d`, like peers in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: u128,
    last: u128,
}

impl Network {
    /// The network of `prefix` bits around an address; bits behind the prefix do not count.
    /// `None`: the prefix is longer than the address.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Network> {
        let prefix = match address {
            IpAddr::V4(_) if prefix <= 32 => u32::from(prefix) + 96,
            IpAddr::V6(_) if prefix <= 128 => u32::from(prefix),
            _ => return None,
        };
        let host_bits = u128::MAX.checked_shr(prefix).unwrap_or(0);
        let address = mapped(address);
        Some(Network {
            first: address & !host_bits,
            last: address | host_bits,
        })
    }
}

/// The number that an address compares as.
fn mapped(address: IpAddr) -> u128 {
    u128::from(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    })
}

/// The text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoNetwork;

impl fmt::Display for NoNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operator: not a network like 192.30.252.0/22 or 2a0a:a440::/29")
    }
}

impl std::error::Error for NoNetwork {}

impl FromStr for Network {
    type Err = NoNetwork;

    /// `address/prefix`; a bare address stands for itself alone.
    fn from_str(text: &str) -> Result<Network, NoNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, digits)) => {
                let prefix: u8 = digits.parse().map_err(|_| NoNetwork)?;
                (address.parse().map_err(|_| NoNetwork)?, prefix)
            }
            None => {
                let address: IpAddr = text.parse().map_err(|_| NoNetwork)?;
                (address, if address.is_ipv4() { 32 } else { 128 })
            }
        };
        Network::new(address, prefix).ok_or(NoNetwork)
    }
}

/// A set of networks, sorted and without overlap.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    ranges: Vec<(u128, u128)>,
}

impl Networks {
    /// Whether `address` lies in one of them.
    pub fn contains(&self, address: &[u8; 16]) -> bool {
        let address = u128::from_be_bytes(*address);
        let behind = self.ranges.partition_point(|&(first, _)| first <= address);
        behind > 0 && address <= self.ranges[behind - 1].1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Networks {
        let mut ranges: Vec<_> = networks.into_iter().map(|n| (n.first, n.last)).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            if overlaps {
                kept.1 = kept.1.max(next.1);
            }
            overlaps
        });
        Networks { ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> [u8; 16] {
        mapped(text.parse().unwrap()).to_be_bytes()
    }

    #[test]
    fn an_address_is_inside_from_the_first_to_the_last_of_a_network() {
        let list = [
            "192.30.252.0/22",
            "10.0.0.7",
            "2a0a:a440::/29",
            "10.0.0.0/30",
            "10.0.0.0/29",
        ];
        let networks: Networks = list
            .iter()
            .map(|text| text.parse::<Network>().unwrap())
            .collect();
        for inside in [
            "192.30.252.0",
            "192.30.255.255",
            "10.0.0.0",
            "10.0.0.5",
            "10.0.0.7",
            "2a0a:a440::",
            "2a0a:a447::",
        ] {
            assert!(networks.contains(&peer(inside)), "{inside}");
        }
        for outside in [
            "192.30.251.255",
            "192.31.0.0",
            "10.0.0.8",
            "::",
            "2a0a:a448::",
            "::1",
        ] {
            assert!(!networks.contains(&peer(outside)), "{outside}");
        }
        let all: Networks = ["0.0.0.0/0".parse::<Network>().unwrap()]
            .into_iter()
            .collect();
        assert!(all.contains(&peer("255.255.255.255")) && !all.contains(&peer("::1")));
        let all: Networks = ["::/0".parse::<Network>().unwrap()].into_iter().collect();
        assert!(all.contains(&peer("1.2.3.4")) && all.contains(&peer("::1")));
    }

    #[test]
    fn text_that_is_no_network_is_refused() {
        for text in [
            "",
            "/8",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/-1",
            "10.0.0.0/ 8",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NoNetwork), "{text}");
        }
    }
}
