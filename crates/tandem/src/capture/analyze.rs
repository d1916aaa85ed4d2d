//! `tandem capture analyze`.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

use capture::{Analysis, ChunkArrows, FileSummary, Options, Output, Results};
use clap::Args;
use serde::Serialize;

use super::files::{FileFindings, Files};
use super::options::{Inputs, Outputs, add_keys, analysis};
use super::sessions::{Sessions, written_over};
use crate::fail;
use crate::perf::output::{check_writable, print, width};
use crate::terminal::complain;
use crate::usage::refused;

/// Analyse the SIP calls in capture files: timestamps, delays, losses, the metrics of RFC 6076; and SCTP, M3UA and RTP.
///
/// Reads pcap and pcapng files, and the text summaries of Wireshark, with SIP over UDP, TCP, SCTP (directly over IP
/// or in UDP), WebSocket, and TLS with a key log. Several files of one experiment (of caller, server,
/// callee) are read as one; their clocks are compared by common messages.
#[derive(Args, Debug, Serialize)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The files; - reads one from standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Draw the ladder diagram of this call or registration, or with m3ua:N of the Nth association with M3UA: on the
    /// page, or in the terminal without --html
    #[arg(long, value_name = "CALL-ID")]
    ladder: Vec<String>,

    #[command(flatten)]
    #[serde(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    #[serde(flatten)]
    outputs: Outputs,
}

const EXAMPLES: &str = "\
Examples:
  tandem capture analyze calls.pcap                          tables
  tandem capture analyze calls.pcap --html calls.html        a page with plots and ladder diagrams
  tandem capture analyze server.pcap caller.pcap callee.pcap    one experiment, three hosts
  tandem capture analyze calls.pcap --csv sessions.csv --decimal-comma
  tandem capture analyze calls.pcap --ladder 1-4711@10.0.0.1 --chunks
  tandem capture analyze signalling.pcap --ladder m3ua:1        M3UA (SS7) and its first association
  ssh server tcpdump -w - port 5060 | tandem capture analyze -

Exit status: 0 done, 1 a file is unreadable or damaged, or contains neither SIP nor
SCTP, or not the requested call, or a file could not be written,
2 usage error.";

/// Octets of files from whose calls so little is kept at a time that memory is asked of the kernel in small pages: to
/// find
/// and to clear a large one for a few kilobytes takes longer than to analyse hundreds of calls.
const SMALL: u64 = 128 << 20;

/// Reads the files, shows tables or ladders, writes files.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments {
        inputs, outputs, ..
    } = &arguments;
    outputs.check_apart_from(arguments.files.iter().chain(&arguments.inputs.key_log))?;
    // Nobody can prepare a capture whose Call-IDs all fall into one place of a table.
    let seed = RandomState::new().hash_one(0);
    let mut settings = inputs.settings(seed)?;
    if let Some(path) = &inputs.key_log {
        add_keys(&mut settings, path)?;
    }
    let mut files = Files::new(arguments.files.clone(), settings)?;
    let reads_again = outputs.chunks && (outputs.html.is_some() || !arguments.ladder.is_empty());
    anyhow::ensure!(
        !reads_again || files.can_be_read_again(),
        refused("--chunks reads the capture twice, a pipe only once: write it to a file first")
    );
    check_writable(outputs.files())?;
    if files.octets().is_some_and(|octets| octets <= SMALL) {
        // Where a kernel has no such choice there is nothing to be saved.
        let _ = nix::sys::prctl::set_thp_disable(true);
    }
    files.compare_clocks(seed)?;

    let mut analysis = Analysis::new(&Options {
        ladders: arguments.ladder.clone(),
        ..analysis(inputs, outputs, seed)
    });
    let mut sessions = Sessions::new(outputs, &arguments, written_over)?;
    let found = files.read("analyzing", &mut |event| {
        analysis.observe(event, &mut |session| sessions.add(session));
        if let Some(origin) = analysis.origin() {
            sessions.set_origin(origin);
        }
    })?;
    let results = analysis.finish(&mut |session| sessions.add(session));
    sessions.finish();
    let mut errors = Vec::new();
    let mut chunks = None;
    if outputs.chunks {
        match chunk_arrows(&files, &results) {
            Ok(arrows) => chunks = Some(arrows),
            Err(error) => errors.push(error.context("cannot look for SCTP control chunks")),
        }
    }
    let output = Output {
        results,
        files: summaries(&files, &found),
        sessions: sessions.count,
        shown: std::mem::take(&mut sessions.shown),
    };
    // What was found is shown although a file cannot be written, and so are the other files.
    show(&arguments, &output, chunks.as_ref());
    errors.extend(sessions.end(&output));
    let names: Vec<String> = files.names().collect();
    let page = outputs.write_page(&output, ("files", names.join(", ")), chunks.as_ref());
    errors.extend(page.err());
    let code = judge(&arguments, &output, &found);
    Ok(errors.iter().fold(code, |_, error| fail(error.as_ref())))
}

fn summaries(files: &Files, found: &FileFindings) -> Vec<FileSummary> {
    let of_files = found.counts.iter().zip(&found.warnings).zip(&files.clocks);
    files
        .names()
        .zip(of_files)
        .map(|(name, ((counts, warnings), clock))| {
            FileSummary::new(name, *counts, *clock, warnings.clone())
        })
        .collect()
}

/// Looks for the SCTP control chunks of the calls that are drawn, for which the files are read once more.
fn chunk_arrows(files: &Files, results: &Results) -> anyhow::Result<ChunkArrows> {
    let mut arrows = ChunkArrows::of_calls(results.drawn_calls());
    if results.drawn_calls().next().is_some() {
        files.read("looking for chunks", &mut |event| arrows.observe(event))?;
    }
    Ok(arrows)
}

fn show(arguments: &Arguments, output: &Output, chunks: Option<&ChunkArrows>) {
    if !arguments.ladder.is_empty() && arguments.outputs.html.is_none() {
        let ladders = output.results.named_ladders(chunks);
        let ladders: Vec<String> = ladders
            .iter()
            .map(|ladder| ladder.to_terminal(width()))
            .collect();
        print(&ladders.join("\n"));
        return;
    }
    print(&output.to_terminal(width()));
}

/// Says what is amiss, and with which status to end.
fn judge(arguments: &Arguments, output: &Output, found: &FileFindings) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    let mut complain = |complaint: &str| {
        complain!("tandem: {complaint}");
        code = ExitCode::FAILURE;
    };
    if found.is_damaged {
        for file in output.files.iter().filter(|file| !file.warnings.is_empty()) {
            for warning in &file.warnings {
                complain(&format!("{}: {warning}", file.name));
            }
        }
    }
    if output.results.first.is_none() {
        complain(
            "no SIP message and no SCTP packet in the capture: SIP is recognised by its first line on any port, \
             SCTP in UDP by port 9899 (--sctp-port names others); TLS needs --key-log",
        );
    }
    let ladders = output.results.named_ladders(None).len();
    if !arguments.ladder.is_empty() && ladders == 0 {
        complain(&format!(
            "no message has the Call-ID {}: --csv FILE lists the Call-IDs of all calls; m3ua:1 is the first association \
             with M3UA",
            arguments.ladder.join(" or ")
        ));
    }
    code
}
