//! Whose address `X-Forwarded-For` gives, against a search that is written the long way.

mod seed;

use std::net::IpAddr;

use seed::Seed;
use sluice_core::forwarded::{ADDRESSES_MAX, client};
use sluice_core::routes::{Network, Networks};

fn networks(list: &[&str]) -> Networks {
    list.iter()
        .map(|text| text.parse::<Network>().unwrap())
        .collect()
}

fn found(lines: &[&str], trusted: &[&str]) -> Option<String> {
    let values = lines.iter().map(|line| line.as_bytes());
    client(values, &networks(trusted)).map(|address| address.to_string())
}

#[test]
fn the_first_address_from_the_right_that_is_not_trusted_counts() {
    let trusted = &["10.0.0.0/8", "fd00::/8"];
    for (lines, want) in [
        (&["203.0.113.7"][..], "203.0.113.7"),
        (&["203.0.113.7, 10.0.0.1"], "203.0.113.7"),
        // What stands left of the first unknown address was written by whoever that is.
        (
            &["127.0.0.1, 203.0.113.7,10.0.0.1 ,\t10.0.0.2"],
            "203.0.113.7",
        ),
        (&["nonsense, 203.0.113.7, 10.0.0.1"], "203.0.113.7"),
        (&["198.51.100.1", "203.0.113.7", "10.0.0.1"], "203.0.113.7"),
        (&["198.51.100.1, 203.0.113.7", "10.0.0.1"], "203.0.113.7"),
        (&["", "203.0.113.7"], "203.0.113.7"),
        // All are trusted: the call began there.
        (&["10.0.0.3, 10.0.0.1"], "10.0.0.3"),
        (&["10.0.0.3", "fd00::1"], "10.0.0.3"),
        (&["2001:db8::1, fd00::1"], "2001:db8::1"),
    ] {
        assert_eq!(found(lines, trusted).as_deref(), Some(want), "{lines:?}");
    }
    let nobody: &[&str] = &[];
    assert_eq!(
        found(&["1.1.1.1, 2.2.2.2"], nobody).as_deref(),
        Some("2.2.2.2")
    );
}

#[test]
fn a_port_and_brackets_are_left_out() {
    for (item, want) in [
        ("192.0.2.1:5", "192.0.2.1"),
        ("192.0.2.1:65535", "192.0.2.1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("  192.0.2.1\t", "192.0.2.1"),
    ] {
        assert_eq!(found(&[item], &[]).as_deref(), Some(want), "{item:?}");
    }
}

#[test]
fn what_is_no_address_ends_the_search_without_one() {
    for item in [
        "",
        " ",
        "unknown",
        "_obf",
        "a.test",
        "192.0.2",
        "192.0.2.256",
        "192.0.02.1",
        "192.0.2.1:",
        "192.0.2.1:x",
        "192.0.2.1:+5",
        "192.0.2.1:65536",
        "192.0.2.1 :5",
        "192.0.2.1/32",
        "[192.0.2.1]",
        "[2001:db8::1",
        "[2001:db8::1]443",
        "[2001:db8::1]:",
        "[]",
        "2001:db8::1]",
        "fe80::1%eth0",
        "\"192.0.2.1\"",
        "for=192.0.2.1",
        "192.0.2.1\u{a0}",
        "192.0.2.1;192.0.2.2",
    ] {
        assert_eq!(found(&[item], &[]), None, "{item:?}");
        let right = format!("198.51.100.1, {item}");
        assert_eq!(found(&[&right], &[]), None, "{right:?}");
        let behind_trusted = format!("198.51.100.1, {item}, 10.0.0.1");
        assert_eq!(found(&[&behind_trusted], &["10.0.0.0/8"]), None);
    }
    assert_eq!(client([&b"\xff"[..]].into_iter(), &networks(&[])), None);
    assert_eq!(found(&[], &[]), None, "no line at all");
}

#[test]
fn ipv4_in_ipv6_form_is_ipv4() {
    assert_eq!(
        found(&["198.51.100.1, ::ffff:10.0.0.1"], &["10.0.0.0/8"]).as_deref(),
        Some("198.51.100.1")
    );
    for item in ["::ffff:198.51.100.1", "[::ffff:c633:6401]:80"] {
        assert_eq!(found(&[item], &[]).as_deref(), Some("198.51.100.1"));
    }
}

#[test]
fn a_chain_is_followed_so_far_and_no_farther() {
    let chain = |trusted: usize| {
        let mut items = vec!["198.51.100.1"];
        items.resize(1 + trusted, "10.0.0.1");
        items.join(",")
    };
    let networks = &["10.0.0.0/8"];
    let longest = chain(ADDRESSES_MAX - 1);
    let client = Some("198.51.100.1".to_owned());
    assert_eq!(found(&[&longest], networks), client);
    assert_eq!(found(&[&chain(ADDRESSES_MAX)], networks), None);
    let lines = vec!["10.0.0.1"; ADDRESSES_MAX];
    assert_eq!(found(&lines, networks).as_deref(), Some("10.0.0.1"));
    assert_eq!(found(&[&["10.0.0.1"], &lines[..]].concat(), networks), None);
}

/// The rule from the left: all items in order, then the last untrusted one behind which nothing is
/// broken.
fn oracle(items: &[(&str, bool, bool)]) -> Option<IpAddr> {
    let mut best = None;
    for (i, &(text, is_address, is_trusted)) in items.iter().enumerate() {
        if !is_address {
            best = None;
        } else if !is_trusted || i == 0 {
            best = Some(text.parse().unwrap());
        }
    }
    best
}

#[test]
fn how_a_chain_is_cut_into_lines_changes_nothing() {
    let mut seed = Seed::printed("how_a_chain_is_cut_into_lines");
    let kinds = [
        ("198.51.100.1", true, false),
        ("2001:db8::7", true, false),
        ("10.1.2.3", true, true),
        ("fd00::5", true, true),
        ("10.9.9.9", true, true),
        ("unknown", false, false),
    ];
    let trusted = networks(&["10.0.0.0/8", "fd00::/8"]);
    for _ in 0..20_000 {
        let count = 1 + seed.index(8);
        let items: Vec<_> = (0..count).map(|_| kinds[seed.index(kinds.len())]).collect();
        let mut lines = vec![String::new()];
        for (i, (text, ..)) in items.iter().enumerate() {
            if i > 0 && seed.chance(3) {
                lines.push(String::new());
            } else if i > 0 {
                lines
                    .last_mut()
                    .unwrap()
                    .push_str([",", ", ", " ,\t"][seed.index(3)]);
            }
            lines.last_mut().unwrap().push_str(text);
        }
        let got = client(lines.iter().map(|line| line.as_bytes()), &trusted);
        assert_eq!(got, oracle(&items), "{lines:?}");
    }
}
