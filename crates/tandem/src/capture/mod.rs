//! `tandem capture`.

mod analyze;
mod files;
mod live;
mod options;
mod screen;
mod sessions;
mod view;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::fail;

/// Analyse SIP calls, and the SCTP beneath them, in captured or live packets.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Analyze(analyze::Arguments),
    Live(live::Arguments),
    View(view::Arguments),
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let done = match arguments.command {
        Command::Analyze(arguments) => analyze::run(arguments),
        Command::Live(arguments) => live::run(arguments),
        Command::View(arguments) => view::run(arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => fail(error.as_ref()),
    }
}
