//! The chunk decoder: the body does not depend on the cuts, and is the one that a plain reading
//! gives.

use sluice_core::http1::ChunkedDecoder;

use crate::{cuts, strict};

const BODY_BYTES_MAX: u64 = 4096;

/// Body and bytes used, once it is whole.
type Decoded = Result<Option<(Vec<u8>, usize)>, sluice_core::Refusal>;

fn decode(pieces: &[&[u8]]) -> Decoded {
    let mut decoder = ChunkedDecoder::new(BODY_BYTES_MAX);
    let (mut body, mut used) = (Vec::new(), 0);
    for piece in pieces {
        let before = body.len();
        let progress = decoder.decode(piece, &mut body)?;
        assert!(progress.consumed <= piece.len());
        assert_eq!(progress.produced, body.len() - before);
        assert!(
            progress.done || progress.consumed == piece.len(),
            "bytes were left lying"
        );
        assert!(body.len() as u64 <= decoder.body_bytes());
        assert!(decoder.body_bytes() <= BODY_BYTES_MAX);
        used += progress.consumed;
        if progress.done {
            assert!(decoder.is_done());
            return Ok(Some((body, used)));
        }
    }
    Ok(None)
}

fn decode_in_place(bytes: &[u8]) -> Decoded {
    let mut decoder = ChunkedDecoder::new(BODY_BYTES_MAX);
    let mut buffer = bytes.to_vec();
    let progress = decoder.decode_in_place(&mut buffer)?;
    buffer.truncate(progress.produced);
    Ok(progress.done.then_some((buffer, progress.consumed)))
}

pub fn run(input: &[u8]) {
    let (how, wire) = cuts::split(input);
    let whole = decode(&[wire]);
    assert_eq!(
        decode(&cuts::pieces(wire, how)),
        whole,
        "the cuts make a difference"
    );
    assert_eq!(decode_in_place(wire), whole, "in place makes a difference");
    let plain = strict::chunks(wire);
    match whole {
        Ok(Some(decoded)) => assert_eq!(Some(decoded), plain, "accepted, and not to be"),
        // The bounds on lines are the decoder's own, and far above these.
        Ok(None) => assert_eq!(plain, None, "whole, and more is asked for"),
        Err(_) if wire.len() < 64 => assert_eq!(plain, None, "refused, and nothing is wrong"),
        Err(_) => {}
    }

    // The same bytes as a body, in chunks cut as `how` says.
    let body = &wire[..wire.len().min(BODY_BYTES_MAX as usize)];
    let mut framed = Vec::new();
    for chunk in cuts::pieces(body, how) {
        framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        framed.extend_from_slice(chunk);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    let want = Ok(Some((body.to_vec(), framed.len())));
    framed.extend_from_slice(b"POST ");
    assert_eq!(
        decode(&[&framed]),
        want,
        "a body came out otherwise than it went in"
    );
}
