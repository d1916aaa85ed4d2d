//! A run in the background.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::exit::Ending;
use crate::perf::output::print_line;

/// How long a run is watched that begins, and how often.
const BEGINNING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// The option that asks for it, also as SIPp writes it.
const OPTIONS: [&str; 2] = ["--detach", "-bg"];

/// Starts this program again with the same arguments but this one, in a group of its own, so that neither Ctrl-C nor the
/// end of the terminal ends it.
pub(super) fn start() -> anyhow::Result<ExitCode> {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.filter(|argument| !OPTIONS.iter().any(|option| argument == option));
    let arguments: Vec<OsString> = arguments.collect();
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    // Nobody sees what it says: a run that cannot begin, as there is no such scenario or the port is taken, is told here.
    let by = Instant::now() + BEGINNING;
    while Instant::now() < by {
        if let Some(status) = child.try_wait()? {
            ensure!(
                !matches!(status.code(), Some(2 | 254 | 255)),
                "the run in the background has failed at once: without --detach it says why"
            );
            break;
        }
        thread::sleep(LOOK);
    }
    print_line(&format!("Background mode - PID=[{}]", child.id()));
    // As with SIPp: no call was made here.
    Ok(Ending::Nothing.into())
}
