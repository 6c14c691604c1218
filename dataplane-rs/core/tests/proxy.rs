//! PROXY headers: the specification's own, all that is near them, and what `ppp` makes of them.

mod seed;

use std::net::SocketAddr;

use ppp::{HeaderResult, PartialResult, v1, v2};
use seed::Seed;
use sluice_core::proxy::{self, Error, Header, parse};

const REQUEST: &[u8] = b"POST /in/t HTTP/1.1\r\nHost: a\r\n\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

type Parsed = Result<Option<(usize, Header)>, Error>;

fn client(text: &str) -> Header {
    Header::Tcp(text.parse::<SocketAddr>().unwrap())
}

/// A header of version 2.
fn block(command: u8, family: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, &body].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_be_bytes();
    [&[kind][..], &length, value].concat()
}

const V4: &[u8] = &[192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 0x01, 0xbb];

fn v6() -> Vec<u8> {
    let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    [&address(1)[..], &address(2), &[0xdc, 0x04, 0x01, 0xbb]].concat()
}

/// Headers that are right, and whose connection they tell of.
fn good() -> Vec<(Vec<u8>, Header)> {
    let all_f = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let lines = [
        // §2.1, its examples and its longest lines.
        (
            "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443".into(),
            client("192.168.0.1:56324"),
        ),
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535".into(),
            client("255.255.255.255:65535"),
        ),
        (
            format!("PROXY TCP6 {all_f} {all_f} 65535 65535"),
            client(&format!("[{all_f}]:65535")),
        ),
        ("PROXY UNKNOWN".into(), Header::Local),
        (
            format!("PROXY UNKNOWN {all_f} {all_f} 65535 65535"),
            Header::Local,
        ),
        (
            "PROXY TCP6 2001:DB8::1 ::1 0 1".into(),
            client("[2001:db8::1]:0"),
        ),
        (
            "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 0".into(),
            client("[::ffff:192.0.2.1]:1"),
        ),
        (
            "PROXY UNKNOWN a  b c d e f \t\u{fc} \0".into(),
            Header::Local,
        ),
        ("PROXY UNKNOWN ".into(), Header::Local),
    ];
    let lines = lines
        .into_iter()
        .map(|(line, header): (String, _)| (format!("{line}\r\n").into_bytes(), header));
    let tlvs = [
        tlv(0x04, &[0; 9]),
        tlv(0x02, b"a.test"),
        tlv(0x04, b""),
        tlv(0x20, &tlv(0x21, b"TLSv1.3")),
    ]
    .concat();
    let blocks = [
        (block(0x21, 0x11, &[V4]), client("192.0.2.1:56324")),
        (block(0x21, 0x12, &[V4, &tlvs]), client("192.0.2.1:56324")),
        (block(0x21, 0x21, &[&v6()]), client("[2001:db8::1]:56324")),
        (
            block(0x21, 0x22, &[&v6(), &tlvs]),
            client("[2001:db8::1]:56324"),
        ),
        (block(0x21, 0x31, &[&[b'/'; 216]]), Header::Local),
        (block(0x21, 0x32, &[&[0; 216], &tlvs]), Header::Local),
        (block(0x20, 0x00, &[]), Header::Local),
        // "Receivers must not assume zero is presented for LOCAL connections", nor any family.
        (block(0x20, 0x11, &[V4, &tlvs]), Header::Local),
        (block(0x20, 0xff, &[b"?"]), Header::Local),
        (block(0x21, 0x00, &[]), Header::Local),
        (block(0x21, 0x00, &[b"no tlv"]), Header::Local),
        (block(0x21, 0x01, &[V4]), Header::Local),
        (block(0x21, 0x10, &[b"?"]), Header::Local),
        (
            block(
                0x21,
                0x11,
                &[V4, &tlv(4, &vec![0; proxy::BLOCK_BYTES_MAX - 15])],
            ),
            client("192.0.2.1:56324"),
        ),
    ];
    lines.chain(blocks).collect()
}

/// What `data` come to, having seen that each prefix of them comes to the same or to nothing yet.
fn outcome(data: &[u8]) -> Parsed {
    let whole = parse(data);
    for length in 0..data.len() {
        let part = parse(&data[..length]);
        assert!(
            part == Ok(None) || part == whole,
            "{part:?} of the first {length} bytes, {whole:?} of all of {}",
            data.escape_ascii()
        );
        if let Ok(Some((used, _))) = part {
            assert!(used <= length);
        }
    }
    whole
}

#[test]
fn a_header_is_read_at_its_last_byte_whatever_follows() {
    for (bytes, header) in good() {
        let shown = bytes.escape_ascii().to_string();
        let want = Ok(Some((bytes.len(), header)));
        assert_eq!(outcome(&bytes), want, "{shown}");
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), Ok(None), "{length} of {shown}");
        }
        for behind in [REQUEST, b"\n", &[0; 3000], &bytes] {
            assert_eq!(outcome(&[&bytes, behind].concat()), want, "{shown}");
        }
    }
}

#[test]
fn a_line_that_is_not_to_the_letter_is_refused() {
    for line in [
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\rx",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
        "PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8  1 2\r\n",
        "PROXY TCP4\t1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.256 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8.9 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP6 ::1%1 ::1 1 2\r\n",
        "PROXY TCP6 1::2::3 ::1 1 2\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 00\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 -2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY UNKNOWN\n",
        "PROXY UNKNOWN \rx",
        "PROXY UNKNOWNS\r\n",
        "PROXY unknown\r\n",
        "PROXY \r\n",
    ] {
        assert_eq!(outcome(line.as_bytes()), Err(Error::BadLine), "{line:?}");
    }
    for other in [
        "proxy TCP4",
        "PROXY\tTCP4",
        "PROXY\r\n",
        "POST / HTTP/1.1",
        " PROXY",
    ] {
        assert_eq!(outcome(other.as_bytes()), Err(Error::Missing), "{other:?}");
    }
}

#[test]
fn a_line_ends_within_its_bound_or_is_refused_there() {
    let line = |bytes: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(bytes - 16));
    let longest = line(proxy::LINE_BYTES_MAX);
    assert_eq!(longest.len(), 107);
    let want = Ok(Some((longest.len(), Header::Local)));
    assert_eq!(outcome(longest.as_bytes()), want);
    let longer = line(108);
    assert_eq!(outcome(longer.as_bytes()), Err(Error::LineTooLong));
    assert_eq!(parse(&longer.as_bytes()[..106]), Ok(None));
    assert_eq!(
        parse(&longer.as_bytes()[..107]),
        Err(Error::LineTooLong),
        "no byte behind the bound is waited for"
    );
}

#[test]
fn a_block_that_has_no_meaning_is_refused() {
    let short_tlv = &tlv(4, b"abc")[..5];
    for (bytes, error) in [
        (block(0x11, 0x11, &[V4]), Error::Unknown),
        (block(0x31, 0x11, &[V4]), Error::Unknown),
        (block(0x22, 0x11, &[V4]), Error::Unknown),
        (block(0x21, 0x41, &[V4]), Error::Unknown),
        (block(0x21, 0x13, &[V4]), Error::Unknown),
        (block(0x21, 0x03, &[]), Error::Unknown),
        (
            block(0x21, 0x11, &[&V4[1..]]),
            Error::BadLength { bytes: 11 },
        ),
        (block(0x21, 0x21, &[V4]), Error::BadLength { bytes: 12 }),
        (
            block(0x21, 0x31, &[&[0; 215]]),
            Error::BadLength { bytes: 215 },
        ),
        (
            block(0x20, 0x00, &[&[0; proxy::BLOCK_BYTES_MAX + 1]]),
            Error::BadLength { bytes: 2049 },
        ),
        (block(0x21, 0x11, &[V4, b"\x04"]), Error::BadTlv),
        (block(0x21, 0x11, &[V4, b"\x04\0"]), Error::BadTlv),
        (block(0x21, 0x11, &[V4, short_tlv]), Error::BadTlv),
        (
            block(0x21, 0x31, &[&[0; 216], &tlv(1, b"h2"), short_tlv]),
            Error::BadTlv,
        ),
    ] {
        assert_eq!(outcome(&bytes), Err(error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_wrong_byte_is_refused_when_it_comes_and_not_when_the_rest_does() {
    for (bytes, error) in [
        (&b"G"[..], Error::Missing),
        (b"\x16", Error::Missing),
        (b"\r\n\r\nP", Error::Missing),
        (b"PO", Error::Missing),
        (b"PROXY X", Error::BadLine),
        (b"PROXY TCP4 a", Error::BadLine),
        (b"PROXY TCP4 1.2.3.400 ", Error::BadLine),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 x", Error::BadLine),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 00", Error::BadLine),
        (b"\r\n\r\n\0\r\nQUIT\n\x01", Error::Unknown),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x44", Error::Unknown),
        (
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
            Error::BadLength { bytes: 65535 },
        ),
    ] {
        assert_eq!(outcome(bytes), Err(error), "{}", bytes.escape_ascii());
        assert_eq!(parse(&bytes[..bytes.len() - 1]), Ok(None));
    }
}

type Oracle = Result<Option<(usize, Header)>, ()>;

/// What `ppp` makes of the same bytes. It hands TLVs out one by one; a faulty one is a fault here.
fn oracle(data: &[u8]) -> Oracle {
    let result = HeaderResult::parse(data);
    if result.is_incomplete() {
        return Ok(None);
    }
    match result {
        HeaderResult::V1(Ok(line)) => Ok(Some((
            line.header.len(),
            match line.addresses {
                v1::Addresses::Unknown => Header::Local,
                v1::Addresses::Tcp4(ip) => Header::Tcp((ip.source_address, ip.source_port).into()),
                v1::Addresses::Tcp6(ip) => Header::Tcp((ip.source_address, ip.source_port).into()),
            },
        ))),
        HeaderResult::V2(Ok(block)) => {
            let is_used = block.command == v2::Command::Proxy
                && block.protocol != v2::Protocol::Unspecified
                && block.addresses != v2::Addresses::Unspecified;
            if is_used && block.tlvs().any(|tlv| tlv.is_err()) {
                return Err(());
            }
            let header = match block.addresses {
                _ if !is_used => Header::Local,
                v2::Addresses::IPv4(ip) => Header::Tcp((ip.source_address, ip.source_port).into()),
                v2::Addresses::IPv6(ip) => Header::Tcp((ip.source_address, ip.source_port).into()),
                _ => Header::Local,
            };
            Ok(Some((block.len(), header)))
        }
        _ => Err(()),
    }
}

/// What may differ, with its reason, when it does (bytes, ours, ppp's), and an instance.
struct Difference {
    reason: &'static str,
    is_it: fn(&[u8], &Parsed, &Oracle) -> bool,
    instance: Vec<u8>,
}

fn differences() -> [Difference; 7] {
    [
        Difference {
            reason: "a wrong byte is refused when it comes, as §2.1 recommends; ppp waits",
            is_it: |_, ours, theirs| ours.is_err() && *theirs == Ok(None),
            instance: b"PROXY TCP4 x".to_vec(),
        },
        Difference {
            reason: "§2.1 ends a line by CR LF alone; ppp takes a blank and LF, or LF in UNKNOWN",
            is_it: |data, ours, theirs| {
                let bare = |line: &[u8]| {
                    let mut pairs = line.windows(2);
                    pairs.any(|pair| pair[1] == b'\n' && pair[0] != b'\r')
                };
                *ours == Err(Error::BadLine)
                    && matches!(theirs, Ok(Some((length, _))) if bare(&data[..*length]))
            },
            instance: b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \n".to_vec(),
        },
        Difference {
            reason: "a decimal port has no sign; ppp takes one",
            is_it: |data, ours, theirs| {
                *ours == Err(Error::BadLine)
                    && matches!(theirs, Ok(Some((length, _))) if data[..*length].contains(&b'+'))
            },
            instance: b"PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n".to_vec(),
        },
        Difference {
            reason: "what follows UNKNOWN is ignored whatever it is; ppp wants UTF-8 and few words",
            is_it: |data, ours, theirs| {
                data.starts_with(b"PROXY UNKNOWN ")
                    && matches!(ours, Ok(Some((_, Header::Local))))
                    && matches!(theirs, Err(()) | Ok(None))
            },
            instance: b"PROXY UNKNOWN a b c d e\r\n".to_vec(),
        },
        Difference {
            reason: "a line without its CR LF may still come; ppp refuses it by where it is cut",
            is_it: |data, ours, theirs| {
                let is_cut = !data.windows(2).any(|pair| pair == b"\r\n");
                data.starts_with(b"PROXY ") && is_cut && *ours == Ok(None) && *theirs == Err(())
            },
            instance: b"PROXY UNKNOWN \xff".to_vec(),
        },
        Difference {
            reason: "§2.2 has addresses ignored in LOCAL and UNSPEC; ppp wants them whole",
            is_it: |data, ours, theirs| {
                let is_unused = || data[12] == 0x20 || data[13] >> 4 == 0 || data[13] & 0xf == 0;
                data.starts_with(SIGNATURE) && ours.is_ok() && theirs.is_err() && is_unused()
            },
            instance: block(0x20, 0x11, &[b"short"]),
        },
        Difference {
            reason: "a block has a bound here",
            is_it: |_, ours, theirs| {
                matches!(ours, Err(Error::BadLength { bytes }) if *bytes > proxy::BLOCK_BYTES_MAX)
                    && matches!(theirs, Ok(Some(_)))
            },
            instance: block(0x20, 0, &[&[0; proxy::BLOCK_BYTES_MAX + 1]]),
        },
    ]
}

/// Fails on a difference without a reason; gives the reason's number otherwise.
fn compare(data: &[u8], ours: Parsed, differences: &[Difference]) -> Option<usize> {
    let theirs = oracle(data);
    let is_same = match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        (ours, theirs) => ours.is_err() && theirs.is_err(),
    };
    if is_same {
        return None;
    }
    let known = differences
        .iter()
        .position(|difference| (difference.is_it)(data, &ours, &theirs));
    let shown = || format!("{ours:?}, ppp {theirs:?}: {}", data.escape_ascii());
    Some(known.unwrap_or_else(|| panic!("{}", shown())))
}

#[test]
fn every_known_difference_to_ppp_is_one() {
    let differences = differences();
    for (i, difference) in differences.iter().enumerate() {
        let found = compare(
            &difference.instance,
            outcome(&difference.instance),
            &differences,
        );
        assert_eq!(found, Some(i), "{}", difference.reason);
    }
}

#[test]
fn each_byte_may_be_any_other_and_ppp_differs_for_known_reasons_only() {
    let differences = differences();
    for (bytes, _) in good() {
        for at in 0..bytes.len().min(300) {
            for byte in 0..=255 {
                let mut data = bytes.clone();
                data[at] = byte;
                compare(&data, parse(&data), &differences);
            }
        }
    }
}

#[test]
fn headers_damaged_at_random_differ_from_ppp_for_known_reasons_only() {
    let mut seed = Seed::printed("headers_damaged_at_random");
    let differences = differences();
    for (bytes, _) in good() {
        let count = if bytes.len() > 300 { 50 } else { 2000 };
        for _ in 0..count {
            let mut data = bytes.clone();
            damage(&mut data, &mut seed);
            data.extend_from_slice(&REQUEST[..seed.index(REQUEST.len())]);
            compare(&data, outcome(&data), &differences);
        }
    }
}

/// Bytes that matter are put in, taken out and swapped.
fn damage(data: &mut Vec<u8>, seed: &mut Seed) {
    for _ in 0..seed.below(4) {
        if data.is_empty() {
            return;
        }
        let at = seed.index(data.len().min(130));
        let byte = match seed.below(3) {
            0 => seed.next() as u8,
            1 => b" \r\n0:.+f19\x20\x21\x11\x00\x02"[seed.index(15)],
            _ => data[seed.index(data.len())],
        };
        match seed.below(5) {
            0 => data[at] = byte,
            1 => data.insert(at, byte),
            2 => drop(data.remove(at)),
            3 => data[at] ^= 1 << seed.below(8),
            _ => data.truncate(at),
        }
    }
}
