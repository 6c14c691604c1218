//! A connection: its requests do not depend on the cuts, and each accepted one is one that a plain
//! reading finds at the same place.

#[allow(dead_code)] // The example shows more than is needed here.
#[path = "../../core/examples/receive/connection.rs"]
mod connection;

use connection::{Connection, Outcome};

use crate::{cuts, strict};

fn receive(pieces: &[&[u8]]) -> Connection {
    let mut connection = Connection::new();
    for piece in pieces {
        connection.on_data(piece);
    }
    connection
}

pub fn run(input: &[u8]) {
    let (how, wire) = cuts::split(input);
    let connection = receive(&[wire]);
    let cut = receive(&cuts::pieces(wire, how));
    assert_eq!(
        cut.outcomes, connection.outcomes,
        "the cuts make a difference"
    );
    assert_eq!(cut.is_closed, connection.is_closed);

    let mut rest = wire;
    let count = connection.outcomes.len();
    for (i, outcome) in connection.outcomes.iter().enumerate() {
        let closes = match outcome {
            Outcome::Accept { keep_alive, .. } => !keep_alive,
            Outcome::Refuse { close, .. } => *close,
        };
        assert_eq!(
            closes,
            connection.is_closed && i + 1 == count,
            "bytes were read behind an end"
        );
        if matches!(outcome, Outcome::Refuse { close: true, status } if *status != 405) {
            return;
        }
        // Accepted, or of no route's method: whole and right either way.
        let plain = strict::message(rest).expect("accepted, and a plain reading refuses it");
        compare(outcome, &plain);
        rest = &rest[plain.length..];
    }
    if !connection.is_closed {
        let is_whole = strict::message(rest).is_some();
        assert!(!is_whole, "a whole request has no outcome");
        assert!(!connection.is_idle() || rest.is_empty());
    }
}

fn compare(outcome: &Outcome, plain: &strict::Message<'_>) {
    let Outcome::Accept {
        method,
        target,
        version,
        headers,
        body,
        keep_alive,
    } = outcome
    else {
        return;
    };
    assert_eq!([method.as_slice(), target.as_slice()], plain.line[..2]);
    assert_eq!(version.as_bytes(), &plain.line[2][5..]);
    let fields = headers
        .iter()
        .map(|(name, value)| (name.as_slice(), value.as_slice()));
    assert!(fields.eq(plain.fields.iter().copied()), "fields differ");
    assert_eq!(*body, plain.body);
    if *version == "1.0" {
        assert!(!keep_alive);
    }
}
