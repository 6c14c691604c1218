//! The world of the admission simulator: senders, workers, a store and their clock, all virtual.
//!
//! It decides nothing about admission: `sluice-core` does, as in the real data plane, by the
//! numbers that the real control plane publishes. That one drives: it makes a control page, starts
//! this program beside it and answers each line with one. `go/sim/README.md` has the lines.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod backend;
mod ledger;
mod link;
mod metrics;
mod random;
mod report;
mod scenario;
mod world;

use sluice_lane::{Control, Counters, CountersOptions};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str =
    "usage: sluice-sim --scenario FILE --seed N --dir DIR [--trace SOURCE] | --check FILE";

struct Args {
    scenario: PathBuf,
    seed: u64,
    /// Where the control page is; none: the scenario is only read.
    dir: Option<PathBuf>,
    /// The source whose answers are written to standard error.
    trace: Option<String>,
}

fn args() -> Option<Args> {
    let mut scenario = None;
    let (mut seed, mut dir, mut check, mut trace) = (1, None, false, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--scenario" => scenario = words.next(),
            "--check" => (scenario, check) = (words.next(), true),
            "--seed" => seed = words.next()?.parse().ok()?,
            "--dir" => dir = words.next(),
            "--trace" => trace = words.next(),
            _ => return None,
        }
    }
    let dir = dir.map(PathBuf::from);
    (dir.is_some() || check).then_some(Args {
        scenario: scenario?.into(),
        seed,
        dir,
        trace,
    })
}

fn run(args: &Args) -> Result<(), String> {
    let file = args.scenario.display().to_string();
    let text = std::fs::read_to_string(&args.scenario).map_err(|e| format!("{file}: {e}"))?;
    let scenario = scenario::parse(&file, &text)?;
    let is_traced = |source: &scenario::Source| args.trace.as_ref() == Some(&source.name);
    let trace = scenario.sources.iter().position(is_traced);
    let Some(dir) = &args.dir else {
        println!("{}", report::hello(&scenario));
        return Ok(());
    };
    let control = Control::open(&dir.join("control"), [0; 16]).map_err(|e| e.to_string())?;
    let counters = Counters::create(&CountersOptions {
        path: dir.join("counters"),
        generation: 1,
        workers: scenario.spread.len() as u32,
        sources: scenario.sources.len() as u32,
    })
    .map_err(|e| e.to_string())?;
    let mut link = link::Link::new();
    let plane = world::Plane::new(&scenario, args.seed, control, counters);
    let lost = |e: std::io::Error| format!("the control plane is gone: {e}");
    link.say(format_args!(
        "ready {} {}",
        world::ORIGIN_NS,
        report::hello(&scenario)
    ))
    .map_err(lost)?;
    let mut world = world::World::new(&scenario, args.seed, link, plane);
    world.trace(trace);
    let ledger = world.run().map_err(lost)?;
    println!("report {}", report::report(&scenario, &ledger));
    Ok(())
}

fn main() -> ExitCode {
    let Some(args) = args() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
