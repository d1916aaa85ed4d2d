//! `tandem net exec`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use crate::terminal::complain;
use crate::usage::refused;
use clap::Args;
use testbed::remote::Remote;
use testbed::state::Directory;

/// Run a program on a host, and exit with its status.
///
/// The program has the host's interfaces and routes, and can use the names of other hosts; everything else is as
/// outside.
#[derive(Args, Debug)]
#[command(override_usage = "tandem net exec [OPTIONS] HOST -- CMD…")]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The host
    host: String,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,

    /// The network; not needed when only one is up
    #[arg(long, value_name = "NAME")]
    net: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tandem net exec server -- tandem perf server --listen tcp:0.0.0.0 &
  tandem net exec client -- tandem perf client tcp:server --seconds 5
  tandem net exec client -- ping -c 3 server
  tandem net exec client -- bash

Exit status: that of the program; 127 if it does not exist, 126 if it cannot be run.";

/// Becomes the program.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some((program, rest)) = arguments.command.split_first() else {
        anyhow::bail!(refused("a program is needed"));
    };
    let mut remote = Remote::find(&Directory::of_user()?, arguments.net.as_deref())?;
    let mut command = remote.command(&arguments.host, program)?;
    let error = command.args(rest).exec();
    complain!("tandem: cannot run {}: {error}", program.display());
    Ok(ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }))
}
