//! Time to read the head of a request as GitHub sends it, and a chunked body.
//!
//! `cargo bench -p sluice-core --bench head`. Prints the best and the middle of many runs: on a
//! shared machine the others measure the neighbours.

use std::hint::black_box;
use std::time::Instant;

use sluice_core::http1::{ChunkedDecoder, Fields, HeadReader};

const RUNS: usize = 200;
const CALLS: u32 = 2000;

const HEAD: &[u8] = b"POST /hooks/github HTTP/1.1\r\n\
Host: hooks.example.test\r\n\
User-Agent: GitHub-Hookshot/0a1b2c3\r\n\
Content-Length: 6420\r\n\
Accept: */*\r\n\
Content-Type: application/json\r\n\
X-GitHub-Delivery: f41fcb28-e1ec-4229-aaa5-148c01a8c3f5\r\n\
X-GitHub-Event: push\r\n\
X-GitHub-Hook-ID: 292430182\r\n\
X-GitHub-Hook-Installation-Target-ID: 79929171\r\n\
X-GitHub-Hook-Installation-Target-Type: repository\r\n\
X-Hub-Signature: sha1=085b7222085e2ad0964294ffb37880260a88ed0b\r\n\
X-Hub-Signature-256: sha256=8a2759ea3f43d3818a71730461ba099295ce6759ab2375da9aa3fdaf55ff8d7b\r\n\
\r\n";

fn measure(name: &str, mut call: impl FnMut()) {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{name}: best {:.0} ns, middle {:.0} ns",
        times[0],
        times[RUNS / 2]
    );
}

fn main() {
    let mut fields = Fields::new();
    let mut reader = HeadReader::new(32 * 1024);
    measure(&format!("head of {} bytes, 12 fields", HEAD.len()), || {
        reader.restart();
        let head = reader.read(black_box(HEAD), &mut fields);
        assert!(matches!(black_box(head), Ok(Some(_))));
    });

    let mut wire = Vec::new();
    for _ in 0..4 {
        wire.extend_from_slice(b"1000\r\n");
        wire.resize(wire.len() + 0x1000, b'x');
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    let mut body = Vec::with_capacity(wire.len());
    measure("body of 4 chunks of 4 KiB", || {
        body.clear();
        let mut decoder = ChunkedDecoder::new(1 << 20);
        let progress = decoder.decode(black_box(&wire), &mut body);
        assert!(black_box(progress).is_ok_and(|progress| progress.done));
    });
}
