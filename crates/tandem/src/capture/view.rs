//! `tandem capture view`.

use std::hash::{BuildHasher, RandomState};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use capture::{Analysis, ChunkArrows, Journal, JournalBounds};
use clap::Args;

use super::files::Files;
use super::options::{Inputs, add_keys, analysis_of};
use super::screen::{Besides, Screen, Wish};
use crate::terminal::complain;
use crate::usage::refused;
use crate::values::count;

/// Browse the SIP calls and M3UA in capture files: a list, ladder diagrams, messages, RTP streams.
///
/// The screen is that of `tandem capture live`. What is shown is kept in memory: --memory bounds it, and the oldest
/// calls are dropped first.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    inputs: Inputs,

    /// Show SCTP control chunks in ladder diagrams
    #[arg(long)]
    chunks: bool,

    /// Megabytes of messages kept for display
    #[arg(long, value_name = "MB", default_value_t = 1024,
          value_parser = |text: &str| count(text, 1..=1_000_000).map(|megabytes| megabytes as usize))]
    memory: usize,
}

const EXAMPLES: &str = "\
Examples:
  tandem capture view calls.pcap
  tandem capture view server.pcap caller.pcap callee.pcap    one experiment, three hosts

Keys: Enter ladder, then message; / search; f filter; < > z sort; d difference of two messages; r RTP; s save; ? all keys

Exit status: 0 done, 1 a file is unreadable or there is no terminal, 2 usage error.";

/// What `--memory` counts.
const MEGABYTE: usize = 1_000_000;

/// How long is waited for a key before the screen is drawn anew: nothing changes meanwhile but its size.
const TICK: Duration = Duration::from_millis(200);

/// Reads the files, and shows their calls until `q` is pressed.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        "there is no terminal to show calls in: tandem capture analyze prints tables"
    );
    let seed = RandomState::new().hash_one(0);
    let mut settings = arguments.inputs.settings(seed)?;
    if let Some(path) = &arguments.inputs.key_log {
        add_keys(&mut settings, path)?;
    }
    let mut files = Files::new(arguments.files, settings)?;
    anyhow::ensure!(
        files.can_be_read_again(),
        refused("the keyboard is standard input: write the capture to a file first")
    );
    files.compare_clocks(seed)?;
    let bounds = JournalBounds {
        octets: arguments.memory * MEGABYTE,
        dialogs: usize::MAX,
        ..JournalBounds::default()
    };
    let point_codes = arguments.inputs.point_codes();
    let mut journal = Journal::new(bounds, seed).with_point_codes(point_codes);
    let mut analysis = Analysis::new(&analysis_of(&arguments.inputs, seed));
    let mut chunks = arguments.chunks.then(ChunkArrows::latest);
    let found = files.read("reading", &mut |event| {
        analysis.observe(event, &mut |_| {});
        journal.observe(event);
        if let Some(chunks) = &mut chunks {
            chunks.observe(event);
        }
    })?;
    let packets = found.counts.iter().map(|counts| counts.packets).sum();
    let names: Vec<String> = files.names().collect();
    let mut screen = Screen::open(&names.join(", "))?;
    loop {
        let besides = Besides {
            analysis: &analysis,
            chunks: chunks.as_ref(),
            captured: (packets, 0),
        };
        if screen.turn(&mut journal, besides, TICK)? == Wish::Quit {
            break;
        }
    }
    drop(screen);
    for (name, warnings) in names.iter().zip(&found.warnings) {
        for warning in warnings {
            complain!("tandem: {name}: {warning}");
        }
    }
    Ok(match found.is_damaged {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
