//! A run in the background.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use super::exit::Ending;
use crate::perf::output::print_line;

/// The option that asks for it, also as SIPp writes it.
const OPTIONS: [&str; 2] = ["--detach", "-bg"];

/// Starts this program again with the same arguments but this one, in a group of its own, so that neither Ctrl-C nor the
/// end of the terminal ends it.
pub(super) fn start() -> anyhow::Result<ExitCode> {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.filter(|argument| !OPTIONS.iter().any(|option| argument == option));
    let arguments: Vec<OsString> = arguments.collect();
    let child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    print_line(&format!("Background mode - PID=[{}]", child.id()));
    // As with SIPp: no call was made here.
    Ok(Ending::Nothing.into())
}
