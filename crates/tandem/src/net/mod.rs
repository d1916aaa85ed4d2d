//! `tandem net`.

mod exec;
mod link;
mod list;
mod lookup;
mod rule;
mod selection;
mod treatment;
mod up;
mod watch;
mod web;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use testbed::control::State;
use testbed::remote::Remote;
use testbed::state::Directory;

use crate::fail;
use crate::perf::output::print_line;

/// Emulate a network: hosts, routers and links on this machine.
///
/// Hosts are network namespaces, in which any program runs unchanged; routers and links are in user space, so no
/// kernel module is needed. Links can be changed while traffic flows: with rules similar to NIST Net's, or on a page.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tandem net up router                                       client, router, server
  tandem net exec client -- ping -c 3 server                 runs a program on a host
  tandem net rule add client server --delay 50ms --drop 10%  a rule for packets between them
  tandem net rule watch                                      rates, delays, drops and queues
  tandem net web                                             the same on a page
  tandem net down                                            takes it down

Exit status: 0 done, 1 failure, 2 usage error; exec exits with its program's status.";

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Arguments),
    Exec(exec::Arguments),
    Down(up::DownArguments),
    Rule(Box<rule::Arguments>),
    Link(link::Arguments),
    List(list::ListArguments),
    Show(list::ShowArguments),
    Web(web::Arguments),
    Topologies(list::TopologiesArguments),
    Presets(list::PresetsArguments),
}

/// Which network a command is about, and how it answers.
#[derive(Args, Debug)]
struct Which {
    /// The network; not needed when only one is up
    #[arg(long, value_name = "NAME")]
    net: Option<String>,

    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let outcome = match arguments.command {
        Command::Up(arguments) => up::up(&arguments),
        Command::Exec(arguments) => exec::run(&arguments),
        Command::Down(arguments) => up::down(&arguments),
        Command::Rule(arguments) => rule::run(*arguments),
        Command::Link(arguments) => link::run(arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Show(arguments) => list::show(&arguments),
        Command::Web(arguments) => web::run(&arguments),
        Command::Topologies(arguments) => list::topologies(&arguments),
        Command::Presets(arguments) => list::presets(&arguments),
    };
    outcome.unwrap_or_else(|error| fail(error.as_ref()))
}

impl Which {
    /// The network, if it is up.
    fn find(&self) -> anyhow::Result<Remote> {
        let directory = Directory::of_user()?;
        Ok(Remote::find(&directory, self.net.as_deref())?)
    }

    /// Prints a value as JSON when that is asked for, else a text.
    fn say(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        say(self.json, value, text)
    }
}

/// Prints a value as JSON, or a text.
fn say(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    if json {
        print_line(&serde_json::to_string(value)?);
    } else {
        let text = text();
        if !text.is_empty() {
            print_line(text.trim_end_matches('\n'));
        }
    }
    Ok(())
}

/// What became of packets that neither links nor rules dropped, a line for each kind since the network came up.
fn anomalies(state: &State) -> String {
    let lines = state.anomalies().into_iter();
    lines.map(|line| line + "\n").collect()
}

/// Says what makes no sense in the arguments of `tandem net COMMAND`, and ends the program.
fn usage_error(command: &str, reason: &str) -> ! {
    crate::usage::error(&["net", command], reason)
}
