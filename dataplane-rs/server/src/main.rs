//! The program: reads its command line and serves.

#![forbid(unsafe_code)]

use sluice_dataplane::{Command, HELP, parse, probe_report, serve, version};
use std::process::ExitCode;

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Err(error) => {
            eprintln!("sluice-dataplane: {error}");
            ExitCode::from(2)
        }
        Ok(Command::Help) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            println!("{}", version());
            ExitCode::SUCCESS
        }
        Ok(Command::Probe) => {
            println!("{}", probe_report().to_json());
            ExitCode::SUCCESS
        }
        Ok(Command::Run(args)) => match serve(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let (generation, error) = (args.generation, error.to_string());
                eprintln!("level=ERROR component=dataplane generation={generation} msg={error:?}");
                ExitCode::FAILURE
            }
        },
    }
}
