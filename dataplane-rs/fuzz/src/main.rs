//! One target under libFuzzer: `FUZZ_TARGET=http1 sluice-fuzz CORPUS…`, built by `scripts/fuzz`.

#![no_main]

use std::sync::OnceLock;

static RUN: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let run = RUN.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let known = sluice_fuzz::TARGETS
            .iter()
            .find(|target| target.name == name);
        known
            .unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} is no target"))
            .run
    });
    run(input);
});
