//! Times the frame copy against the C library's, alone and with the checksum that follows it, at
//! all 64 distances: with the target on a line, as the first piece of a body has it in a frame, and
//! with the source on a line, as a later piece may have it.
//!
//! `cargo run --release -p sluice-lane --example copy_offsets`

use sluice_lane::copy_bytes;
use std::hint::black_box;
use std::time::Instant;

const LENGTHS: [usize; 5] = [1025, 1536, 4096, 16384, 65536];
const SAMPLES: usize = 31;
const PAGE: usize = 4096;

type Copy = fn(&mut [u8], &[u8]);

fn main() {
    println!("GB/s, best of {SAMPLES}; `behind` = (target - source) mod 4096");
    let measured: [(&str, Copy, Copy); 2] = [
        ("copy", theirs, ours),
        ("copy and checksum", theirs_summed, ours_summed),
    ];
    for length in LENGTHS {
        for (name, theirs, ours) in measured {
            for shifted in [Shifted::Source, Shifted::Target] {
                let mut pages = Pages::new(length, shifted);
                let rows: Vec<Row> = (0..64)
                    .map(|behind| Row {
                        behind,
                        theirs: pages.time(length, behind, theirs),
                        ours: pages.time(length, behind, ours),
                    })
                    .collect();
                report(length, &format!("{name}, {shifted:?} shifted"), &rows);
            }
        }
    }
    pieces();
}

fn theirs(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

fn ours(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    // SAFETY: as long as the source and exclusive.
    unsafe { copy_bytes(to.as_mut_ptr(), from) }
}

fn theirs_summed(to: &mut [u8], from: &[u8]) {
    theirs(to, from);
    black_box(crc32c::crc32c(from));
}

fn ours_summed(to: &mut [u8], from: &[u8]) {
    ours(to, from);
    black_box(crc32c::crc32c(from));
}

struct Row {
    behind: usize,
    theirs: f64,
    ours: f64,
}

fn report(length: usize, name: &str, rows: &[Row]) {
    let ratio = |row: &Row| row.ours / row.theirs;
    let by = |key: fn(&Row) -> f64| {
        let mut sorted: Vec<&Row> = rows.iter().collect();
        sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
        sorted
    };
    let (theirs, ours) = (by(|row| row.theirs), by(|row| row.ours));
    let ratios = by(|row| row.ours / row.theirs);
    println!("{length} bytes, {name}:");
    for (who, sorted, key) in [
        ("C library", &theirs, (|row| row.theirs) as fn(&Row) -> f64),
        ("ours", &ours, |row| row.ours),
    ] {
        println!(
            "  {who:9} worst {:6.1} at {:2}, median {:6.1}, best {:6.1}",
            key(sorted[0]),
            sorted[0].behind,
            key(sorted[sorted.len() / 2]),
            key(sorted[sorted.len() - 1])
        );
    }
    println!(
        "  ours / C library: worst {:.2} at {}, median {:.2}, best {:.2} at {}",
        ratio(ratios[0]),
        ratios[0].behind,
        ratio(ratios[ratios.len() / 2]),
        ratio(ratios[ratios.len() - 1]),
        ratios[ratios.len() - 1].behind
    );
}

/// A large body: copied and summed whole, or piece by piece while the piece is in the first cache.
fn pieces() {
    let length = 1 << 20;
    let mut pages = Pages::new(length, Shifted::Source);
    let whole = pages.time(length, 0, ours_summed);
    print!("{length} bytes, copy and checksum: whole {whole:.1}");
    for piece in [4096, 8192, 16384] {
        let fused = pages.time(length, 0, |to, from| {
            let mut crc = 0;
            for (to, from) in to.chunks_mut(piece).zip(from.chunks(piece)) {
                ours(to, from);
                crc = crc32c::crc32c_append(crc, from);
            }
            black_box(crc);
        });
        print!("; in pieces of {piece}: {fused:.1}");
    }
    println!();
}

/// Which of the two is not on a page.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shifted {
    Source,
    Target,
}

/// Page-aligned source and target, with room to shift one of them.
struct Pages {
    shifted: Shifted,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Pages {
    fn new(length: usize, shifted: Shifted) -> Pages {
        Pages {
            shifted,
            from: vec![1; length + 3 * PAGE],
            to: vec![2; length + 3 * PAGE],
        }
    }

    fn time(&mut self, length: usize, behind: usize, copy: impl Fn(&mut [u8], &[u8])) -> f64 {
        let start = |bytes: &[u8]| bytes.as_ptr().align_offset(PAGE);
        let (mut from_at, mut to_at) = (start(&self.from), start(&self.to));
        match self.shifted {
            Shifted::Source => from_at += PAGE - behind,
            Shifted::Target => to_at += behind,
        }
        let rounds = (1 << 20) / length;
        let mut best = f64::MAX;
        for _ in 0..SAMPLES {
            let begin = Instant::now();
            for _ in 0..rounds {
                let from = black_box(&self.from[from_at..from_at + length]);
                copy(black_box(&mut self.to[to_at..to_at + length]), from);
            }
            best = best.min(begin.elapsed().as_secs_f64() / rounds as f64);
        }
        length as f64 / best / 1e9
    }
}
