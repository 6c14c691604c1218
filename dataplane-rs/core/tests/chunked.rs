//! The chunk decoder against one that is written to be obviously right.

mod seed;

use seed::Seed;
use sluice_core::Refusal;
use sluice_core::http1::ChunkedDecoder;
use sluice_core::limits;

const BODY_MAX: u64 = 3000;

/// Body and bytes used; `Ok(None)`: more is needed.
type Judged = Result<Option<(Vec<u8>, usize)>, u16>;

/// A decoder that sees all bytes at once and goes line by line.
fn oracle(input: &[u8]) -> Judged {
    let (mut at, mut extensions) = (0, 0);
    let mut body = Vec::new();
    loop {
        let room = u128::from(BODY_MAX) - body.len() as u128;
        let size = oracle_size(&input[at..], room, &mut extensions)?;
        let Some((size, length)) = size else {
            return Ok(None);
        };
        if size > room {
            // A line that is broken behind its size is told by the size: it came first.
            return Err(413);
        }
        let Some(length) = length else {
            return Ok(None);
        };
        at += length;
        if size == 0 {
            break;
        }
        let chunk = &input[at..];
        let data = &chunk[..chunk.len().min(size as usize)];
        body.extend_from_slice(data);
        match &chunk[data.len()..] {
            [b'\r', b'\n', ..] => at += data.len() + 2,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(400),
        }
    }
    let (mut bytes, mut fields) = (0, 0);
    loop {
        let Some(length) = oracle_trailer(&input[at..], &mut bytes, &mut fields)? else {
            return Ok(None);
        };
        at += length;
        if length == 2 {
            return Ok(Some((body, at)));
        }
    }
}

/// The size and, once the line is whole, its length.
fn oracle_size(
    input: &[u8],
    room: u128,
    extensions: &mut u32,
) -> Result<Option<(u128, Option<usize>)>, u16> {
    let digits = input.iter().take_while(|c| c.is_ascii_hexdigit()).count();
    if digits > 16 {
        return Err(400);
    }
    let rest = &input[digits..];
    if digits == 0 || !matches!(rest.first(), None | Some(b'\r' | b';')) {
        return if input.is_empty() { Ok(None) } else { Err(400) };
    }
    if rest.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(&input[..digits]).unwrap();
    let size = u128::from_str_radix(text, 16).unwrap();
    let mut length = digits;
    let mut rest = rest;
    if rest[0] == b';' {
        let good = |c: &u8| *c == b'\t' || (b' '..=b'~').contains(c);
        let extension = rest[1..].iter().take_while(|c| good(c)).count();
        *extensions += extension as u32;
        // Only where the size fits is the rest of the line looked at.
        if size <= room && *extensions > limits::CHUNK_EXTENSION_BYTES_MAX {
            return Err(400);
        }
        rest = &rest[1 + extension..];
        length += 1 + extension;
    }
    match rest {
        [] | [b'\r'] => Ok(Some((size, None))),
        [b'\r', b'\n', ..] => Ok(Some((size, Some(length + 2)))),
        _ if size > room => Ok(Some((size, None))),
        _ => Err(400),
    }
}

fn oracle_trailer(input: &[u8], bytes: &mut u32, fields: &mut u32) -> Result<Option<usize>, u16> {
    let token = |c: &u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(c);
    let name = input.iter().take_while(|c| token(c)).count();
    match (name, &input[name..]) {
        (0, [] | [b'\r']) => return Ok(None),
        (0, [b'\r', b'\n', ..]) => return Ok(Some(2)),
        (0, _) => return Err(400),
        _ => {}
    }
    *fields += 1;
    *bytes += name as u32;
    if *fields > limits::TRAILER_FIELDS_MAX || *bytes > limits::TRAILER_BYTES_MAX {
        return Err(400);
    }
    let rest = match &input[name..] {
        [] => return Ok(None),
        [b':', rest @ ..] => rest,
        _ => return Err(400),
    };
    let value = rest
        .iter()
        .take_while(|&&c| c == b'\t' || (c >= b' ' && c != 0x7f))
        .count();
    *bytes += value as u32;
    if *bytes > limits::TRAILER_BYTES_MAX {
        return Err(400);
    }
    match &rest[value..] {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => Ok(Some(name + 1 + value + 2)),
        _ => Err(400),
    }
}

/// What the decoder makes of the same bytes in pieces.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Judged {
    let mut decoder = ChunkedDecoder::new(BODY_MAX);
    let (mut body, mut used) = (Vec::new(), 0);
    for piece in pieces {
        let progress = decoder
            .decode(piece, &mut body)
            .map_err(|refusal| refusal.status())?;
        used += progress.consumed;
        assert!(progress.done || progress.consumed == piece.len());
        if progress.done {
            assert_eq!(decoder.body_bytes(), body.len() as u64);
            return Ok(Some((body, used)));
        }
    }
    Ok(None)
}

fn decode_in_place(input: &[u8]) -> Judged {
    let mut buffer = input.to_vec();
    let mut decoder = ChunkedDecoder::new(BODY_MAX);
    let progress = decoder
        .decode_in_place(&mut buffer)
        .map_err(|refusal| refusal.status())?;
    buffer.truncate(progress.produced);
    Ok(progress.done.then_some((buffer, progress.consumed)))
}

fn some_body(seed: &mut Seed) -> Vec<u8> {
    let mut wire = Vec::new();
    for _ in 0..seed.below(6) {
        let most = if seed.chance(20) { 4000 } else { 40 };
        let data: Vec<u8> = (0..seed.between(1, most))
            .map(|_| {
                if seed.chance(4) {
                    b"\r\n0;"[seed.index(4)]
                } else {
                    seed.next() as u8
                }
            })
            .collect();
        let zeros = "0".repeat(if seed.chance(5) { seed.index(16) } else { 0 });
        let size = if seed.chance(2) {
            format!("{zeros}{:x}", data.len())
        } else {
            format!("{zeros}{:X}", data.len())
        };
        wire.extend_from_slice(size.as_bytes());
        push_extension(&mut wire, seed);
        wire.extend_from_slice(b"\r\n");
        wire.extend_from_slice(&data);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(&b"0000000000000000000"[..1 + seed.index(3)]);
    push_extension(&mut wire, seed);
    wire.extend_from_slice(b"\r\n");
    let count = if seed.chance(40) {
        seed.below(80)
    } else {
        seed.below(3)
    };
    for _ in 0..count {
        wire.extend_from_slice(b"X-Sum: ");
        let long = if seed.chance(50) { 9000 } else { 5 };
        wire.resize(wire.len() + seed.index(long), b'v');
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"\r\nPOST");
    wire
}

fn push_extension(wire: &mut Vec<u8>, seed: &mut Seed) {
    if seed.chance(6) {
        let long = if seed.chance(10) { 5000 } else { 10 };
        wire.push(b';');
        wire.resize(wire.len() + seed.index(long), b'e');
    }
}

/// Bytes that matter to the framing are put in, taken out and swapped.
fn damage(wire: &mut Vec<u8>, seed: &mut Seed) {
    for _ in 0..seed.below(3) {
        if wire.is_empty() {
            return;
        }
        let at = seed.index(wire.len());
        let byte = b"\r\n0;:aFx \x00\x7f"[seed.index(11)];
        match seed.below(4) {
            0 => wire[at] = byte,
            1 => wire.insert(at, byte),
            2 => drop(wire.remove(at)),
            _ => wire.truncate(at),
        }
    }
}

#[test]
fn the_decoder_agrees_with_the_oracle_on_every_body_good_or_bad() {
    let mut seed = Seed::printed("the_decoder_agrees_with_the_oracle");
    let mut seen = [0u32; 4];
    for _ in 0..30_000 {
        let mut wire = some_body(&mut seed);
        damage(&mut wire, &mut seed);
        let want = oracle(&wire);
        seen[match &want {
            Ok(Some(_)) => 0,
            Ok(None) => 1,
            Err(400) => 2,
            Err(_) => 3,
        }] += 1;
        let shown = || {
            let start = &wire[..wire.len().min(400)];
            format!("{} of {} bytes", start.escape_ascii(), wire.len())
        };
        assert_eq!(decode([&wire[..]]), want, "{}", shown());
        assert_eq!(decode_in_place(&wire), want, "{}", shown());
        assert_eq!(decode(wire.chunks(1)), want, "{} byte by byte", shown());
        let size = 1 + seed.index(50);
        assert_eq!(decode(wire.chunks(size)), want, "{} by {size}", shown());
    }
    assert!(
        seen.iter().all(|&n| n > 100),
        "the generator misses a kind: {seen:?}"
    );
}

#[test]
fn a_chunk_over_the_bound_is_refused_at_its_size_and_not_after_its_data() {
    let mut decoder = ChunkedDecoder::new(10);
    let mut out = Vec::new();
    decoder.decode(b"a\r\n0123456789\r\n", &mut out).unwrap();
    let refusal = decoder.decode(b"1\r", &mut out);
    assert_eq!(refusal, Err(Refusal::BodyTooLarge { bytes_max: 10 }));
}

#[test]
fn a_body_that_fits_its_buffer_is_decoded_without_growing_it() {
    let mut out = Vec::with_capacity(10);
    let before = out.as_ptr();
    let mut decoder = ChunkedDecoder::new(10);
    for byte in b"a\r\n0123456789\r\n0\r\n\r\n" {
        decoder.decode(&[*byte], &mut out).unwrap();
    }
    assert!(decoder.is_done());
    assert_eq!((out.as_slice(), out.as_ptr()), (&b"0123456789"[..], before));
}
