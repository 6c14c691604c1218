//! `sluice-load` sends signed webhooks at a constant rate and measures what a sender feels.
//!
//! It does not slow down with the server: a request counts from the moment at which it was
//! *due*, so a stall is charged to every request that it delayed, not only to the ones in
//! flight. It does not judge (gates live in `bench/run`), and does not speak TLS or HTTP/2.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod agenda;
mod answer;
mod args;
mod conn;
mod engine;
mod ledger;
mod limits;
mod record;
mod report;
mod request;
mod schedule;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(args::Parsed::Run(args)) => *args,
        Ok(args::Parsed::Help) => {
            print!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(fault) => {
            eprintln!("sluice-load: {fault}\nsluice-load --help lists every flag");
            return ExitCode::from(2);
        }
    };
    let report = match engine::run(&args) {
        Ok(report) => report,
        Err(fault) => {
            eprintln!("sluice-load: {fault}");
            return ExitCode::FAILURE;
        }
    };
    print!(
        "{}",
        if args.json {
            report.json()
        } else {
            report.text()
        }
    );
    if report.answered() == 0 {
        eprintln!(
            "sluice-load: no request was answered by {}",
            args.target.host
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
