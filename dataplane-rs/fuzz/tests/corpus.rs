//! The short run: each corpus again, and inputs near it.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_fuzz::TARGETS;
use sluice_fuzz::mutation::{Seed, mutate};

/// The inputs of a target, by name.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

fn seed() -> u64 {
    let given = std::env::var("SLUICE_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        let age = SystemTime::now().duration_since(UNIX_EPOCH);
        age.map_or(1, |age| age.as_nanos() as u64)
    })
}

fn rounds() -> usize {
    match std::env::var("SLUICE_SOAK").is_ok_and(|soak| soak == "1") {
        true => 1_000_000,
        false => 20_000,
    }
}

/// Shows the input of a target that panics.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the input: b\"{}\"", self.0.escape_ascii());
        }
    }
}

fn keeps_its_promises(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let corpus = corpus(name);
    for (path, input) in &corpus {
        println!("{}", path.display());
        let _shown = Shown(input);
        (target.run)(input);
    }
    let number = seed();
    println!("{name}: SLUICE_SEED={number}");
    let mut seed = Seed(number);
    for _ in 0..rounds() / target.cost {
        let mut input = corpus[seed.below(corpus.len())].1.clone();
        let other = &corpus[seed.below(corpus.len())].1;
        mutate(&mut input, other, &mut seed);
        let _shown = Shown(&input);
        (target.run)(&input);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            keeps_its_promises(stringify!($name));
        })*

        #[test]
        fn every_target_is_run() {
            let names = TARGETS.map(|target| target.name);
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

targets!(chunked forwarded http1 ids proxy reply tls);
