//! What tshark sees in captures.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::packages::require_command;

/// What `tshark -z sip,stat` counts in a capture: messages by method and by status code. `None` where there is no tshark.
/// `options` are tshark's, such as `-d udp.port==5080,sip`.
///
/// # Panics
///
/// When it fails.
pub fn sip_counts_of_tshark(capture: &Path, options: &[&str]) -> Option<BTreeMap<String, u64>> {
    let text = tshark(capture, &[options, &["-q", "-z", "sip,stat"]].concat())?;
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let counted = line.trim_end().strip_suffix(" Packets");
        let Some((name, count)) = counted.and_then(|line| line.rsplit_once(':')) else {
            continue;
        };
        let count = count.trim().parse().expect("a number");
        let mut words = name.split_whitespace();
        let first = words.next().unwrap_or_default();
        // "SIP 200 OK" or "INVITE".
        let name = match first {
            "SIP" => words.next().unwrap_or_default(),
            method => method,
        };
        counts.insert(name.to_owned(), count);
    }
    Some(counts)
}

/// The same of what `tandem capture analyze` writes of a capture as JSON, of a run in it.
///
/// # Panics
///
/// When it is none.
pub fn sip_counts_of_run(run: &Value) -> BTreeMap<String, u64> {
    let kinds = ["requests", "responses"].map(|kind| run[kind].as_object().expect("counts"));
    let counts = kinds.into_iter().flatten();
    let counts = counts.map(|(name, count)| {
        let messages = count["messages"].as_u64().expect("a count");
        (name.clone(), messages)
    });
    counts.collect()
}

/// What tshark prints of a capture. `None` where there is no tshark.
///
/// # Panics
///
/// When it fails.
pub fn tshark(capture: &Path, options: &[&str]) -> Option<String> {
    let output = Command::new(require_command("tshark", "tshark")?)
        .arg("-r")
        .arg(capture)
        .args(options)
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
