//! Times the frame copy against the C library's at all 64 offsets between target and source, and
//! a fused copy and checksum against one after the other.
//!
//! `cargo run --release -p sluice-kernel --example copy_offsets`

use std::hint::black_box;
use std::time::Instant;

const LENGTHS: [usize; 4] = [1536, 4096, 16384, 65536];
const SAMPLES: usize = 31;

fn main() {
    println!("GB/s, best of {SAMPLES}; offset = (target - source) mod 4096");
    for length in LENGTHS {
        let mut worst = [(f64::MAX, 0); 2];
        let mut best = [0f64; 2];
        println!("length {length}: offset, C library, ours");
        for offset in 0..64 {
            let mut pages = Pages::new(length + 8192);
            let speeds = [
                pages.time(length, offset, |to, from| to.copy_from_slice(from)),
                pages.time(length, offset, sluice_kernel::copy),
            ];
            println!("  {offset:2} {:7.1} {:7.1}", speeds[0], speeds[1]);
            for (which, &speed) in speeds.iter().enumerate() {
                best[which] = best[which].max(speed);
                if speed < worst[which].0 {
                    worst[which] = (speed, offset);
                }
            }
        }
        for (name, which) in [("C library", 0), ("ours", 1)] {
            let (speed, offset) = worst[which];
            println!(
                "  {name}: best {:.1}, worst {speed:.1} at {offset}",
                best[which]
            );
        }
        checksum(length);
    }
}

/// Copy and CRC32C: one after the other, or piece by piece while the piece is in the L1 cache.
fn checksum(length: usize) {
    let mut pages = Pages::new(length + 8192);
    let whole = pages.time(length, 0, |to, from| {
        sluice_kernel::copy(to, from);
        black_box(crc32c::crc32c(from));
    });
    print!("  copy, then checksum: {whole:.1}");
    for piece in [2048, 8192] {
        let fused = pages.time(length, 0, |to, from| {
            let mut crc = 0;
            for (to, from) in to.chunks_mut(piece).zip(from.chunks(piece)) {
                sluice_kernel::copy(to, from);
                crc = crc32c::crc32c_append(crc, from);
            }
            black_box(crc);
        });
        print!("; in pieces of {piece}: {fused:.1}");
    }
    println!();
}

/// Page-aligned source and target.
struct Pages {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Pages {
    fn new(length: usize) -> Pages {
        Pages {
            from: vec![1; length],
            to: vec![2; length],
        }
    }

    fn time(&mut self, length: usize, offset: usize, copy: impl Fn(&mut [u8], &[u8])) -> f64 {
        let start = |bytes: &[u8]| bytes.as_ptr().align_offset(4096);
        let (from_at, to_at) = (start(&self.from), start(&self.to) + offset);
        let rounds = (1 << 21) / length;
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
