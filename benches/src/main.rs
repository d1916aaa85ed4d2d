//! Comparisons of Tandem with others: ours and the peer alternately in one run, several rounds.
//!
//! `versus list` names them; the README beside this package says what each one measures.
#![forbid(unsafe_code)]

mod capacity;
mod capture_tshark;
mod comparison;
mod cores;
mod cpu;
mod engine_dcsctp;
mod engine_sctp_proto;
mod engines;
mod handshakes;
mod kernel_tcp;
mod load_sipp;
mod m3ua_osmo_stp;
mod memory;
mod multipath_usrsctp;
mod network_box;
mod output;
mod plugin_kamailio;
mod process;
mod proxy_kamailio;
mod proxy_overload;
mod proxy_transports;
mod roles;
mod rounds;
mod sip_parse;
mod sip_servers;
mod sipp;
mod tandem;
mod transfer;
mod udp_usrsctp;
mod usrsctp;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;

use comparison::{COMPARISONS, Comparison};
use output::{JsonLines, Output, Table};
use rounds::Rounds;

/// The allocator of the `tandem` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares Tandem with others, each by the same measure in the same run.
#[derive(Parser)]
#[command(name = "versus", version)]
struct Arguments {
    /// Which comparison, or `list`.
    name: String,
    /// Ends sooner, mostly within 50 seconds; less exact.
    #[arg(long)]
    quick: bool,
    /// Prints one JSON object a row in place of a table.
    #[arg(long)]
    json: bool,
    /// One side of a comparison, in a process of its own; used by this program alone.
    #[arg(long, hide = true)]
    role: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.role {
        Some(role) => roles::play(role),
        None => run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("versus: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.name == "list" {
        return list();
    }
    let Some(comparison) = find(&arguments.name) else {
        let names: Vec<&str> = COMPARISONS.iter().map(|known| known.name).collect();
        bail!(
            "there is no comparison {:?}; there are: {}",
            arguments.name,
            names.join(", ")
        );
    };
    let rounds = Rounds::new(arguments.quick);
    let mut output: Box<dyn Output> = match arguments.json {
        true => Box::new(JsonLines::new(comparison.name)),
        false => Box::new(Table::new(comparison.name)),
    };
    (comparison.run)(&rounds, output.as_mut()).context(comparison.name)?;
    output.finish()
}

fn find(name: &str) -> Option<&'static Comparison> {
    COMPARISONS
        .iter()
        .find(|comparison| comparison.name == name)
}

fn list() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for comparison in COMPARISONS {
        writeln!(out, "{:18} {}", comparison.name, comparison.about)?;
    }
    Ok(())
}
