//! The connections of `testdata/http1`: over TLS and behind a PROXY header they get the answers
//! that they get without.

use crate::certificates::certificates;
use crate::sender::Sender;
use crate::world::{Setup, World, source};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sluice_proto as proto;

fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

/// Name and bytes of each connection.
fn connections() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/testdata/http1");
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let content: Value = serde_json::from_str(&text).unwrap();
        for case in content["cases"].as_array().unwrap() {
            let raw = match case.get("raw") {
                Some(raw) => decode(raw),
                None => {
                    let parts = case["raw_gen"].as_array().unwrap().iter();
                    let times = |part: &Value| part["times"].as_u64().unwrap() as usize;
                    parts
                        .flat_map(|part| decode(&part["b64"]).repeat(times(part)))
                        .collect()
                }
            };
            all.push((case["name"].as_str().unwrap().to_owned(), raw));
        }
    }
    assert!(all.len() >= 291, "{} connections in {folder}", all.len());
    all.sort();
    all
}

/// What a sender of these bytes gets, statuses and all, and what came of it.
#[derive(Debug, PartialEq)]
struct Outcome {
    answers: String,
    frames: Vec<(String, Vec<u8>)>,
}

fn run(world: &mut World, mut sender: Sender, bytes: &[u8]) -> Outcome {
    let mut frames = Vec::new();
    let answers = std::thread::scope(|scope| {
        let conversation = scope.spawn(move || {
            // A refusal may come, and the connection end, before all is sent.
            let _ = sender.try_send(bytes) && sender.try_finish();
            sender.rest()
        });
        while !conversation.is_finished() {
            if world.control[0].has_frame() {
                let frame = world.control[0].frame();
                world.control[0].accept(&frame);
                world.control[0].consume(&frame);
                frames.push((frame.target, frame.body));
            }
            std::thread::yield_now();
        }
        conversation.join().unwrap()
    });
    let text = String::from_utf8(answers).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("Date: "));
    Outcome {
        answers: lines.collect::<Vec<_>>().join("\n"),
        frames,
    }
}

fn setup() -> Setup {
    let sources = ["/in/t", "/in/a", "/in/b", "/in/c", "/"];
    let sources = sources.iter().zip(0..).map(|(path, slot)| {
        let mut source = source(path, slot);
        source.methods.push("PUT".into());
        source
    });
    Setup {
        sources: sources.collect(),
        ..Setup::default()
    }
}

#[test]
fn a_connection_gets_the_same_answers_whatever_is_below_it() {
    let header = b"PROXY TCP4 127.0.0.1 127.0.0.1 4711 443\r\n";
    let Some(mut plain) = World::start(setup()) else {
        return;
    };
    let behind = proto::Listener {
        proxy_from: vec!["127.0.0.1".into()],
        ..proto::Listener::default()
    };
    let worlds = [certificates().listener(), behind].map(|listener| {
        let mut setup = setup();
        setup.listeners = vec![listener];
        World::start(setup)
    });
    let [Some(mut tls), Some(mut behind)] = worlds else {
        return;
    };
    let client = certificates().client();
    for (name, bytes) in connections() {
        let sender = plain.connect(0);
        let wanted = run(&mut plain, sender, &bytes);
        let mut sender = tls.connect_tls(0, &client);
        sender.handshake().unwrap();
        assert_eq!(run(&mut tls, sender, &bytes), wanted, "{name} over TLS");
        let mut sender = behind.connect(0);
        sender.send(header);
        let got = run(&mut behind, sender, &bytes);
        assert_eq!(got, wanted, "{name} behind a header");
    }
}
