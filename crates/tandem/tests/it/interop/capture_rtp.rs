//! The media of calls of `tandem load`, recorded by tcpdump: `tandem capture analyze` says of its streams what tshark says.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use test_support::{Namespace, Peer, Recorder, tshark};

use crate::interop::LIMIT;
use crate::interop::capture::analyze;

const CALLS: usize = 4;

#[test]
fn rtp_streams_are_what_tshark_says() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("calls.pcap");
    let mut command = namespace.command(env!("CARGO_BIN_EXE_tandem"));
    command.args([
        "proxy",
        "--listen",
        "udp:127.0.0.1:5060",
        "--store",
        "memory:",
    ]);
    let mut proxy = Peer::spawn(&mut command);
    proxy.wait_for_output("udp", LIMIT);
    let Some(recorder) = Recorder::start(&capture, "udp", Some(&namespace)) else {
        return;
    };
    let output = namespace
        .command(env!("CARGO_BIN_EXE_tandem"))
        .args([
            "load",
            "calls",
            "--via",
            "127.0.0.1:5060",
            "--transport",
            "udp",
        ])
        .args(["-m", &CALLS.to_string(), "-r", "10", "--users", "8"])
        .args(["--hold", "2s", "--media", "tone", "--media-answer", "talk"])
        .output()
        .expect("it runs");
    recorder.finish();
    let run = analyze(&capture, directory.path());
    let ours = ours(&run);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(ours.len(), 2 * CALLS, "{said} {run}");
    assert_eq!(run["rtp"]["streams"], 2 * CALLS);
    for stream in ours.values() {
        assert_eq!(stream["codec"], "PCMU", "{stream}");
        assert!(stream["packets"].as_u64() > Some(50), "{stream}");
    }
    if let Some(theirs) = theirs(&capture) {
        assert_eq!(
            theirs.keys().collect::<Vec<_>>(),
            ours.keys().collect::<Vec<_>>()
        );
        for (ssrc, theirs) in &theirs {
            theirs.agree(&ours[ssrc]);
        }
    }
}

/// The streams of all sessions by SSRC.
fn ours(run: &Value) -> BTreeMap<u32, Value> {
    let sessions = run["sessions"].as_array().expect("a list").iter();
    sessions
        .flat_map(|session| session["rtp"].as_array().expect("a list").clone())
        .map(|stream| (stream["ssrc"].as_u64().expect("a number") as u32, stream))
        .collect()
}

/// What tshark says of a stream; times in milliseconds.
#[derive(Debug)]
struct Stream {
    packets: u64,
    lost: u64,
    max_delta: f64,
    mean_jitter: f64,
    max_jitter: f64,
}

impl Stream {
    fn agree(&self, ours: &Value) {
        let number = |name: &str| ours[name].as_f64().expect(name);
        let packets = number("packets") + number("duplicates");
        assert_eq!(packets as u64, self.packets, "{self:?} {ours}");
        assert_eq!(ours["lost"], self.lost, "{self:?} {ours}");
        for (name, theirs) in [
            ("longest_gap_ms", self.max_delta),
            ("jitter_mean_ms", self.mean_jitter),
            ("jitter_max_ms", self.max_jitter),
        ] {
            // Three decimals, and means that are rounded at each packet.
            let is_near = (number(name) - theirs).abs() <= 0.01 + theirs * 0.03;
            assert!(is_near, "{name} {self:?} {ours}");
        }
    }
}

/// `None` where there is no tshark.
fn theirs(capture: &Path) -> Option<BTreeMap<u32, Stream>> {
    let text = tshark(capture, &["-q", "-z", "rtp,streams"])?;
    let lines = text.lines().filter(|line| line.contains("0x"));
    let streams = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words
            .iter()
            .position(|word| word.starts_with("0x"))
            .expect("an SSRC");
        let ssrc = u32::from_str_radix(&words[at][2..], 16).expect("hexadecimal");
        let after = &words[at + 1..];
        // Payload names may have blanks; then packets, lost, (percent), three deltas and three jitters.
        let percent = after
            .iter()
            .position(|word| word.starts_with('('))
            .expect("a percentage");
        let number = |place: usize| -> f64 { after[place].parse().expect("a number") };
        let stream = Stream {
            packets: number(percent - 2) as u64,
            lost: number(percent - 1) as u64,
            max_delta: number(percent + 3),
            mean_jitter: number(percent + 5),
            max_jitter: number(percent + 6),
        };
        (ssrc, stream)
    });
    Some(streams.collect())
}
