//! Damaged heads: whatever comes, the outcome is the same however it is cut, and what is accepted
//! reads the same line by line.

mod seed;

use seed::Seed;
use sluice_core::Refusal;
use sluice_core::http1::{Fields, Framing, Head, HeadReader};

const BYTES_MAX: usize = 2048;

fn read(
    bytes: &[u8],
    sizes: impl IntoIterator<Item = usize>,
    fields: &mut Fields,
) -> Result<Option<Head>, Refusal> {
    let mut reader = HeadReader::new(BYTES_MAX);
    let mut outcome = Ok(None);
    for size in sizes.into_iter().chain([bytes.len()]) {
        outcome = reader.read(&bytes[..size], fields);
        if outcome != Ok(None) {
            break;
        }
    }
    outcome
}

fn some_head(seed: &mut Seed) -> Vec<u8> {
    let methods = ["POST", "GET", "PUT", "DELETE", "BREW"];
    let targets = ["/a", "/a?b=c", "http://a.test/b", "*", "/a%20b", "/", "a"];
    let versions = ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0"];
    let lines = [
        "Host: a.test",
        "Content-Length: 7",
        "Content-Length: 0",
        "Transfer-Encoding: chunked",
        "X-GitHub-Event: push",
        "X-Empty:",
        "X-Pad: \t v\t ",
        "Connection: close",
        "Connection: keep-alive, Upgrade",
        "Expect: 100-continue",
        "X-Obs: caf\u{e9}",
    ];
    let mut head = String::new();
    if seed.chance(10) {
        head.push_str("\r\n");
    }
    let method = if seed.chance(2) {
        "POST"
    } else {
        methods[seed.index(5)]
    };
    let target = if seed.chance(2) {
        "/hook"
    } else {
        targets[seed.index(7)]
    };
    head.push_str(&format!(
        "{method} {target} {}\r\nHost: x\r\n",
        versions[seed.index(5)]
    ));
    let count = if seed.chance(50) { 200 } else { seed.below(6) };
    for _ in 0..count {
        head.push_str(
            lines[if seed.chance(2) {
                4
            } else {
                seed.index(lines.len())
            }],
        );
        head.push_str("\r\n");
    }
    head.push_str("\r\n{\"a\":1}");
    head.into_bytes()
}

fn damage(head: &mut Vec<u8>, seed: &mut Seed) {
    for _ in 0..seed.below(3) {
        if head.is_empty() {
            return;
        }
        let at = seed.index(head.len());
        let byte = b"\r\n\t :,\0\x7f\xff/#%0"[seed.index(13)];
        match seed.below(4) {
            0 => head[at] = byte,
            1 => head.insert(at, byte),
            2 => drop(head.remove(at)),
            _ => head.truncate(at),
        }
    }
}

/// Reads the block again in the plainest way.
fn pairs_line_by_line(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let text: String = block.iter().map(|&c| char::from(c)).collect();
    assert!(text.ends_with("\r\n") || text.is_empty());
    let bytes = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    text.split_terminator("\r\n")
        .map(|line| {
            assert!(
                !line.contains(['\r', '\n', '\0']),
                "{line:?} is more than a line"
            );
            let (name, value) = line.split_once(':').expect("a line without colon");
            (bytes(name), bytes(value.trim_matches([' ', '\t'])))
        })
        .collect()
}

#[test]
fn a_damaged_head_ends_the_same_however_it_is_cut() {
    let mut seed = Seed::printed("a_damaged_head_ends_the_same_however_it_is_cut");
    let mut fields = Fields::new();
    let (mut accepted, mut refused) = (0u32, std::collections::BTreeSet::new());
    for _ in 0..20_000 {
        let mut bytes = some_head(&mut seed);
        damage(&mut bytes, &mut seed);
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let whole = read(&bytes, [], &mut fields);
        let bytewise = read(&bytes, 0..bytes.len(), &mut fields);
        assert_eq!(bytewise, whole, "{shown:?} byte by byte");
        let cut = seed.index(bytes.len() + 1);
        assert_eq!(
            read(&bytes, [cut], &mut fields),
            whole,
            "{shown:?} cut at {cut}"
        );
        match whole {
            Ok(Some(head)) => {
                accepted += 1;
                check_accepted(&bytes, &head, &fields);
            }
            Ok(None) => assert!(bytes.len() < BYTES_MAX),
            Err(refusal) => {
                refused.insert(format!("{refusal:?}"));
            }
        }
    }
    assert!(accepted > 1000, "only {accepted} heads were accepted");
    assert!(refused.len() > 10, "the generator reaches only {refused:?}");
}

fn check_accepted(bytes: &[u8], head: &Head, fields: &Fields) {
    let block = head.block(bytes);
    let pairs: Vec<_> = fields
        .as_slice()
        .iter()
        .map(|f| (f.name(block).to_vec(), f.value(block).to_vec()))
        .collect();
    assert_eq!(pairs, pairs_line_by_line(block));
    assert!(bytes[..head.length].ends_with(b"\r\n\r\n"));
    let line_end = b"\r\n\r\n".len() - 2;
    assert!(bytes[..head.length - line_end].ends_with(block));

    let named = |name: &str| {
        let is = |(n, _): &&(Vec<u8>, Vec<u8>)| n.eq_ignore_ascii_case(name.as_bytes());
        pairs.iter().filter(is).count()
    };
    let (lengths, codings) = (named("content-length"), named("transfer-encoding"));
    assert!(named("host") <= 1 && lengths <= 1 && codings <= 1 && lengths + codings <= 1);
    match head.framing {
        Framing::None => assert_eq!(codings, 0),
        Framing::Length(length) => assert!(lengths == 1 && length > 0),
        Framing::Chunked => assert_eq!(codings, 1),
    }
}
