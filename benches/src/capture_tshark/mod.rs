//! `capture-tshark`: what calls did, from a capture of them: `tandem capture analyze` with all its outputs
//! but the page, against tshark's statistics of SIP and its export of fields.

mod calls;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};
use test_support::require_command;

use crate::output::{Output, Row};
use crate::process::Process;
use crate::rounds::{Better, Rounds, Spread};
use crate::tandem;

/// Calls of thirteen messages each.
const CALLS: u32 = 7_900;

/// How many times less CPU time.
const GOAL: f64 = 30.0;

/// Bytes that an analysis may take.
const MEMORY_MARK: f64 = 60e6;

/// What one run of a program took.
#[derive(Debug, Serialize, Deserialize)]
struct Took {
    cpu_seconds: f64,
    /// The most memory that it had at a time.
    bytes: f64,
}

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let tshark = require_command("tshark", "tshark").context("there is no tshark")?;
    let tandem = tandem::program()?;
    let directory = tempfile::tempdir()?;
    let file = |name: &str| directory.path().join(name);
    let capture = file("calls.pcap");
    let packets = calls::write(&capture, CALLS)?;
    let case = |peer: &str| format!("{packets} packets, {peer}");

    let ours = || {
        let took = measure(
            Command::new(tandem)
                .args(["capture", "analyze"])
                .arg(&capture)
                .arg("--csv")
                .arg(file("sessions.csv"))
                .arg("--json")
                .arg(file("capture.json")),
            &file("tables.txt"),
        )?;
        Ok([took.cpu_seconds, took.bytes])
    };
    let statistics = || {
        let took = measure(
            Command::new(&tshark)
                .arg("-r")
                .arg(&capture)
                .args(["-q", "-z", "sip,stat"]),
            &file("statistics.txt"),
        )?;
        Ok([took.cpu_seconds, took.bytes])
    };
    let fields = || {
        let took = measure(
            Command::new(&tshark)
                .arg("-r")
                .arg(&capture)
                .args(["--disable-protocol", "sdp", "-T", "fields"])
                .args(FIELDS.iter().flat_map(|field| ["-e", field])),
            &file("fields.txt"),
        )?;
        Ok([took.cpu_seconds, took.bytes])
    };
    let [cpu, memory] = rounds.alternate(ours, statistics)?;
    check(directory.path(), packets)?;
    output.row(row(case("sip,stat"), "cpu_seconds", cpu, GOAL))?;
    output.row(row(case("sip,stat"), "bytes", memory, 0.0))?;
    let mark = (memory.0, Spread::fixed(MEMORY_MARK));
    output.row(row(case("the mark"), "bytes", mark, 1.0))?;
    let [cpu, memory] = rounds.alternate(ours, fields)?;
    output.row(row(case("fields"), "cpu_seconds", cpu, GOAL))?;
    output.row(row(case("fields"), "bytes", memory, 0.0))
}

/// What is exported of each message: what tables of calls are made of.
const FIELDS: [&str; 9] = [
    "frame.time_epoch",
    "ip.src",
    "udp.srcport",
    "ip.dst",
    "udp.dstport",
    "sip.Call-ID",
    "sip.Method",
    "sip.Status-Code",
    "sip.CSeq",
];

fn row(case: String, metric: &'static str, both: (Spread, Spread), goal: f64) -> Row {
    Row {
        case,
        metric,
        better: Better::Lower,
        ours: both.0,
        peer: both.1,
        goal,
    }
}

/// Both have seen all messages, and ours all calls.
fn check(directory: &Path, packets: u64) -> anyhow::Result<()> {
    let read =
        |name: &str| fs::read_to_string(directory.join(name)).with_context(|| name.to_owned());
    let document: serde_json::Value = serde_json::from_str(&read("capture.json")?)?;
    let run = &document["runs"][0];
    let sessions = run["sessions"].as_array().map_or(0, Vec::len);
    ensure!(
        sessions == CALLS as usize && run["outcomes"]["completed"] == CALLS,
        "ours has not seen all calls"
    );
    ensure!(
        run["files"][0]["sip_messages"] == packets,
        "ours has not seen all messages"
    );
    let lines = read("sessions.csv")?.lines().count();
    ensure!(
        lines == 1 + CALLS as usize,
        "the CSV does not have all calls"
    );
    let all = format!("Number of SIP messages: {packets}\n");
    ensure!(
        read("statistics.txt")?.contains(&all),
        "tshark has not seen all messages"
    );
    Ok(())
}

/// Runs a program to its end in a process that has no other child, so that what children took is what it took.
fn measure(command: &mut Command, printed: &Path) -> anyhow::Result<Took> {
    let arguments = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(|argument| argument.to_str().context("an argument that is no text"));
    let arguments: Vec<&str> = arguments.collect::<anyhow::Result<_>>()?;
    let request = serde_json::to_string(&(printed, arguments))?;
    let role = format!("measure {request}");
    Process::start_role(&role)?.read_report(LONGEST)
}

/// How long a run may take.
const LONGEST: Duration = Duration::from_secs(120);

/// The role of [`measure`]: runs what it asks for, with its output in a file, and tells what that took.
pub(crate) fn measure_one(request: &str) -> anyhow::Result<()> {
    let (printed, arguments): (PathBuf, Vec<String>) = serde_json::from_str(request)?;
    let (program, arguments) = arguments.split_first().context("a program")?;
    let status = Command::new(program)
        .args(arguments)
        .stdout(fs::File::create(&printed)?)
        .stderr(Stdio::null())
        .status()
        .with_context(|| program.clone())?;
    ensure!(status.success(), "{program}: {status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let took = Took {
        cpu_seconds: microseconds as f64 / 1e6,
        // The kernel counts it in KiB.
        bytes: usage.max_rss() as f64 * 1024.0,
    };
    println!("{}", serde_json::to_string(&took)?);
    Ok(())
}
