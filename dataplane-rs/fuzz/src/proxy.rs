//! PROXY headers: no cut makes a difference, and an address is the one that `ppp` reads.

use ppp::{HeaderResult, v1, v2};
use sluice_core::proxy::{HEADER_BYTES_MAX, Header, parse};

pub fn run(input: &[u8]) {
    let whole = parse(input);
    // Every prefix comes to the same or to nothing yet. Long ones are tried at fewer places.
    let step = 1 + input.len() / 256;
    for length in (0..input.len()).step_by(step) {
        let part = parse(&input[..length]);
        assert!(
            part == Ok(None) || part == whole,
            "the cut at {length} makes a difference"
        );
    }
    if input.len() >= HEADER_BYTES_MAX {
        assert_ne!(whole, Ok(None), "more is asked for than a header may have");
    }
    let Ok(Some((length, header))) = whole else {
        return;
    };
    assert!(length <= input.len().min(HEADER_BYTES_MAX));
    assert_eq!(
        parse(&input[..length]),
        whole,
        "what follows makes a difference"
    );
    // Local headers are read more freely than ppp does; core's tests have the reasons.
    let Header::Tcp(source) = header else { return };
    let theirs = match HeaderResult::parse(&input[..length]) {
        HeaderResult::V1(Ok(line)) => match line.addresses {
            v1::Addresses::Tcp4(ip) => (ip.source_address, ip.source_port).into(),
            v1::Addresses::Tcp6(ip) => (ip.source_address, ip.source_port).into(),
            v1::Addresses::Unknown => panic!("{source} of nobody known"),
        },
        HeaderResult::V2(Ok(block)) => {
            assert!(
                block.tlvs().all(|tlv| tlv.is_ok()),
                "a TLV that runs over the end"
            );
            assert_eq!(block.command, v2::Command::Proxy);
            match block.addresses {
                v2::Addresses::IPv4(ip) => (ip.source_address, ip.source_port).into(),
                v2::Addresses::IPv6(ip) => (ip.source_address, ip.source_port).into(),
                _ => panic!("{source} of no IP address"),
            }
        }
        refused => panic!("accepted, and ppp says {refused:?}"),
    };
    assert_eq!(source, theirs);
}
