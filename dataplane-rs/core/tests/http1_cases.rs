//! Every connection in `testdata/http1`, whole and cut anywhere, alone and glued to the next one.

#[path = "../examples/receive/connection.rs"]
mod connection;
mod seed;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use connection::{Connection, Outcome};
use seed::Seed;
use serde_json::Value;

struct Case {
    name: String,
    raw: Vec<u8>,
    chunks: Vec<usize>,
    expect: Value,
}

/// A case up to this long is cut at every place, and fed byte by byte.
const SHORT: usize = 1200;
const BYTEWISE_MAX: usize = 8 * 1024;

fn base64(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

/// `{name}` in base64, or `{name}_gen`: parts with how often each comes.
fn bytes_of(case: &Value, name: &str) -> Vec<u8> {
    match case.get(name) {
        Some(text) => base64(text),
        None => {
            let parts = case[format!("{name}_gen").as_str()].as_array().unwrap();
            let part = |part: &Value| {
                base64(&part["b64"]).repeat(part["times"].as_u64().unwrap() as usize)
            };
            parts.iter().flat_map(part).collect()
        }
    }
}

fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/http1");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let content: Value = serde_json::from_str(&text).unwrap();
        for case in content["cases"].as_array().unwrap() {
            let chunks = case.get("chunks").and_then(Value::as_array);
            cases.push(Case {
                name: case["name"].as_str().unwrap().to_owned(),
                raw: bytes_of(case, "raw"),
                chunks: chunks
                    .into_iter()
                    .flatten()
                    .map(|n| n.as_u64().unwrap() as usize)
                    .collect(),
                expect: case["expect"].clone(),
            });
        }
    }
    assert_eq!(cases.len(), 291, "cases in {folder}");
    cases
}

/// What a connection does with these pieces.
fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Connection {
    let mut connection = Connection::new();
    for piece in pieces {
        connection.on_data(piece);
    }
    connection
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&c| char::from(c)).collect()
}

/// Whether `outcomes` are what a case expects; says why not.
fn judge(expect: &Value, outcomes: &[Outcome], interim: usize) -> Result<(), String> {
    if let Some(choices) = expect.get("one_of").and_then(Value::as_array) {
        let faults: Vec<_> = choices
            .iter()
            .map(|choice| judge(choice, outcomes, interim))
            .collect();
        return if faults.iter().any(Result::is_ok) {
            Ok(())
        } else {
            Err(format!("{faults:?}"))
        };
    }
    if expect.get("incomplete").is_some() {
        return if outcomes.is_empty() {
            Ok(())
        } else {
            Err(format!("came to {outcomes:?}"))
        };
    }
    let alone = [expect.clone()];
    let sequence = expect
        .get("sequence")
        .and_then(Value::as_array)
        .map_or(&alone[..], |s| s);
    if sequence.len() != outcomes.len() {
        return Err(format!("{} outcomes: {outcomes:?}", outcomes.len()));
    }
    let interim_wanted = expect
        .get("interim")
        .map_or(0, |list| list.as_array().unwrap().len());
    if interim_wanted != interim {
        return Err(format!("{interim} interim answers"));
    }
    sequence
        .iter()
        .zip(outcomes)
        .try_for_each(|(expect, outcome)| judge_one(expect, outcome))
}

fn judge_one(expect: &Value, outcome: &Outcome) -> Result<(), String> {
    let closes = expect.get("close").is_some_and(|close| close == true);
    if let Some(want) = expect.get("accept") {
        let Outcome::Accept {
            method,
            target,
            version,
            headers,
            body,
            keep_alive,
        } = outcome
        else {
            return Err(format!("not accepted: {outcome:?}"));
        };
        let headers: Vec<Value> = headers
            .iter()
            .map(|(name, value)| {
                Value::from(vec![latin1(&name.to_ascii_lowercase()), latin1(value)])
            })
            .collect();
        let got = [
            ("method", Value::from(latin1(method))),
            ("target", Value::from(latin1(target))),
            ("version", Value::from(*version)),
            ("headers", Value::from(headers)),
        ];
        for (name, got) in got {
            if want[name] != got {
                return Err(format!("{name} is {got}, not {}", want[name]));
            }
        }
        if bytes_of(want, "body") != *body {
            return Err(format!("body is {:?}", latin1(body)));
        }
        if closes == *keep_alive {
            return Err(format!("keep alive is {keep_alive}"));
        }
        return Ok(());
    }
    let Outcome::Refuse { status, close } = *outcome else {
        return Err(format!("not refused: {outcome:?}"));
    };
    let also = expect.get("also").and_then(Value::as_array);
    let good = expect["status"] == status || also.is_some_and(|a| a.contains(&Value::from(status)));
    if good && (close || !closes) {
        Ok(())
    } else {
        Err(format!("got {outcome:?}"))
    }
}

#[test]
fn every_connection_ends_as_its_case_says() {
    let mut faults = Vec::new();
    for case in cases() {
        let mut rest = &case.raw[..];
        let mut pieces = Vec::new();
        for &size in &case.chunks {
            let (piece, behind) = rest.split_at(size);
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        let connection = run(pieces);
        if let Err(fault) = judge(&case.expect, &connection.outcomes, connection.interim) {
            faults.push(format!("{}: {fault}", case.name));
        }
    }
    assert!(
        faults.is_empty(),
        "{} cases:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn the_outcome_does_not_depend_on_how_the_bytes_are_cut() {
    let mut seed = Seed::printed("the_outcome_does_not_depend_on_how_the_bytes_are_cut");
    for case in cases() {
        let raw = &case.raw[..];
        let whole = run([raw]).outcomes;
        let cuts: Vec<usize> = match raw.len() {
            0..=SHORT => (0..=raw.len()).collect(),
            length if length < 1 << 20 => (0..40).map(|_| seed.index(length)).collect(),
            length => (0..3).map(|_| seed.index(length)).collect(),
        };
        for cut in cuts {
            let (first, second) = raw.split_at(cut);
            assert_eq!(
                run([first, second]).outcomes,
                whole,
                "{} cut at {cut}",
                case.name
            );
        }
        if raw.len() <= BYTEWISE_MAX {
            assert_eq!(
                run(raw.chunks(1)).outcomes,
                whole,
                "{} byte by byte",
                case.name
            );
        }
        if raw.len() < 1 << 20 {
            for _ in 0..10 {
                let pieces = random_pieces(raw, &mut seed);
                let sizes: Vec<_> = pieces.iter().map(|p| p.len()).collect();
                assert_eq!(
                    run(pieces).outcomes,
                    whole,
                    "{} cut to {sizes:?}",
                    case.name
                );
            }
        }
    }
}

fn random_pieces<'a>(mut bytes: &'a [u8], seed: &mut Seed) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let longest = 1 + bytes.len() / 2;
    while !bytes.is_empty() {
        let length = 1 + seed.index(longest.min(bytes.len()));
        let (piece, rest) = bytes.split_at(length);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

#[test]
fn a_request_is_the_same_behind_another_one() {
    let mut seed = Seed::printed("a_request_is_the_same_behind_another_one");
    let cases: Vec<_> = cases()
        .into_iter()
        .filter(|case| case.raw.len() < 1 << 17)
        .collect();
    for (i, first) in cases.iter().enumerate() {
        let second = &cases[(i + 1) % cases.len()];
        let glued = [&first.raw[..], &second.raw[..]].concat();
        let alone = run([&first.raw[..]]);
        if !alone.is_closed && !alone.is_idle() {
            continue; // The second would be read as the rest of the first.
        }
        let mut want = alone.outcomes;
        if !alone.is_closed {
            want.extend(run([&second.raw[..]]).outcomes);
        }
        let names = format!("{} + {}", first.name, second.name);
        assert_eq!(run([&glued[..]]).outcomes, want, "{names}");
        for _ in 0..4 {
            assert_eq!(
                run(random_pieces(&glued, &mut seed)).outcomes,
                want,
                "{names}"
            );
        }
    }
}
