//! A run in the background.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::ensure;

use super::exit::Ending;
use crate::perf::output::print_line;

/// The option that asks for it, also as SIPp writes it, and the one that stands in its place in the background.
const OPTIONS: [&str; 2] = ["--detach", "-bg"];
const DETACHED: &str = "--detached";

/// Starts this program again with the same arguments but this one, in a group of its own, so that neither Ctrl-C nor the
/// end of the terminal ends it, and waits until it runs. Its standard input is a socket, on which it says so.
pub(super) fn start() -> anyhow::Result<ExitCode> {
    let arguments = std::env::args_os().skip(1);
    let arguments =
        arguments.map(
            |argument| match OPTIONS.iter().any(|option| argument == *option) {
                true => DETACHED.into(),
                false => argument,
            },
        );
    let arguments: Vec<OsString> = arguments.collect();
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    // Nobody sees what it says: a run that cannot begin, as there is no such scenario or the port is taken, is told here.
    let has_begun = ours.read(&mut [0])? > 0;
    ensure!(
        has_begun || !matches!(child.wait()?.code(), Some(2 | 254 | 255)),
        "the run in the background has failed at once: without --detach it says why"
    );
    print_line(&format!("Background mode - PID=[{}]", child.id()));
    // As with SIPp: no call was made here.
    Ok(Ending::Nothing.into())
}

/// Says to who has started this run in the background that it has begun.
pub(super) fn say_begun() {
    let socket = io::stdin().as_fd().try_clone_to_owned();
    // Whoever waited for it may be gone.
    let _ = socket.and_then(|socket| UnixStream::from(socket).write_all(&[1]));
}
