//! The options `--pcap` and `--pcap-limit`, the same on every command that measures SCTP.

use std::path::PathBuf;

use crate::terminal::complain;
use ::perf::units;
use anyhow::Context;
use clap::Args;
use sctp_net::Tap;

/// Where packets are captured to.
#[derive(Args, Debug)]
pub(crate) struct PcapOptions {
    /// Write the SCTP packets, including lost ones, to a pcapng file for Wireshark
    #[arg(long = "pcap", value_name = "FILE")]
    file: Option<PathBuf>,

    /// The largest size of that file; packets beyond it are left out, and counted
    #[arg(long = "pcap-limit", value_name = "BYTES", default_value = "100M", requires = "file",
          value_parser = |text: &str| units::bytes(text, u64::MAX))]
    limit: u64,
}

impl PcapOptions {
    /// Whether a capture is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.file.is_some()
    }

    /// Begins a capture, if one is wanted.
    pub(crate) fn open(&self) -> anyhow::Result<Option<Tap>> {
        let tap = self.file.as_ref().map(|path| {
            Tap::with_limit(path, "sctp", self.limit)
                .with_context(|| format!("cannot write {}", path.display()))
        });
        tap.transpose()
    }
}

/// Sees to it that a capture is complete before the program ends, and tells what it lacks.
pub(crate) fn finish(tap: Option<&Tap>) -> anyhow::Result<()> {
    let Some(tap) = tap else { return Ok(()) };
    tap.flush().context("the capture is not complete")?;
    let statistics = tap.statistics();
    if statistics.dropped > 0 {
        let dropped = statistics.dropped;
        complain!("tandem: the capture lacks {dropped} packets: the file was too slow");
    }
    if statistics.beyond_limit > 0 {
        let beyond = statistics.beyond_limit;
        complain!(
            "tandem: the capture ends early: it lacks the last {beyond} packets, for the file has reached its \
             largest size (--pcap-limit)"
        );
    }
    Ok(())
}
