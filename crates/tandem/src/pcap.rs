//! The option `--pcap`, the same on every command that speaks SCTP.

use std::path::Path;

use crate::terminal::complain;
use anyhow::Context;
use sctp_net::Tap;

/// Begins a capture, if one is wanted.
pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Option<Tap>> {
    path.map(|path| {
        Tap::create(path, "sctp").with_context(|| format!("cannot write {}", path.display()))
    })
    .transpose()
}

/// Sees to it that a capture is complete before the program ends, and tells what it lacks.
pub(crate) fn finish(tap: Option<&Tap>) -> anyhow::Result<()> {
    let Some(tap) = tap else { return Ok(()) };
    tap.flush().context("the capture is not complete")?;
    match tap.statistics().dropped {
        0 => {}
        dropped => complain!("tandem: the capture lacks {dropped} packets: the file was too slow"),
    }
    Ok(())
}
