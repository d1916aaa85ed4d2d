//! `tandem lab` as a person runs it.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use test_support::{Peer, say_skipped, wait_until};

use crate::program::support::{send_signal, tandem};

const LIMIT: Duration = Duration::from_secs(120);

fn lab(arguments: &[&str]) -> Output {
    let mut command = tandem();
    command.arg("lab").args(arguments);
    command.output().expect("it runs")
}

#[test]
fn experiments_are_listed_with_their_sources() {
    let listed = lab(&["list"]);
    assert!(listed.status.success());
    let text = String::from_utf8_lossy(&listed.stdout);
    for words in [
        "throughput-by-delay",
        "Jungmaier 2000, figure 4",
        "failover",
        "heartbeat",
        "fairness",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn one_experiment_gives_a_verdict_a_page_and_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("results.json");
    let pages = format!("{}/lab/", directory.path().display());
    let json_text = json.display().to_string();
    let ran = lab(&[
        "run",
        "heartbeat",
        "--quick",
        "--seed",
        "7",
        "--json",
        &json_text,
        "--html",
        &pages,
    ]);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{ran:?}");
    assert!(
        text.contains("heartbeat (SCTP thesis 2011, figure 11, on sim)"),
        "{text}"
    );
    let json = std::fs::read_to_string(json).expect("it was written");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["name"], "heartbeat");
    assert_eq!(json[0]["verdict"], "holds");
    let page = directory.path().join("lab/index.html");
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(
        page.contains("tandem lab run heartbeat --quick --seed 7"),
        "{page}"
    );
}

/// The results that were written, by their names.
fn results(json: &Path) -> Vec<Value> {
    let text = fs::read_to_string(json).expect("it was written");
    let array: Value = serde_json::from_str(&text).expect("JSON");
    array.as_array().expect("an array").clone()
}

/// Whether an experiment may be skipped on real sockets for this: there can be no networks, or others kept the processors
/// in each of its runs.
pub(crate) fn may_be_skipped(why: &str) -> bool {
    ["there can be no network here: ", "others took up to "]
        .iter()
        .any(|reason| why.starts_with(reason))
}

#[test]
fn an_experiment_runs_on_real_sockets_where_there_can_be_networks() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("results.json");
    let file = json.to_str().expect("a text");
    let ran = lab(&[
        "run",
        "throughput-by-size",
        "--quick",
        "--on",
        "net",
        "--json",
        file,
    ]);
    let result = &results(&json)[0];
    assert_eq!(
        (&result["name"], &result["on"]),
        (&"throughput-by-size".into(), &"net".into())
    );
    let why = result["why"].as_str().expect("a text");
    if result["verdict"] == "skipped" {
        assert!(may_be_skipped(why), "{why}");
        return say_skipped(why);
    }
    assert_ne!(result["verdict"], "fails", "{why}");
    assert!(ran.status.success(), "{ran:?}");
    assert!(!result["ours"].is_null(), "{result}");
}

#[test]
fn an_interrupted_run_leaves_no_network_and_tells_what_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("results.json");
    let mut command = tandem();
    command
        .env("XDG_RUNTIME_DIR", directory.path())
        .args(["lab", "run", "all", "--quick", "--on", "net", "--json"])
        .arg(&json);
    let mut peer = Peer::spawn(&mut command);
    let inside = directory.path().join("tandem/.inside");
    let entries = || {
        let entries = fs::read_dir(&inside).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let process = || {
        let records = entries().into_iter().map(|path| path.join("process"));
        let mut texts = records.filter_map(|record| fs::read_to_string(record).ok());
        let record: Value = serde_json::from_str(&texts.next()?).ok()?;
        record["process"].as_u64()
    };
    let mut holder = None;
    let is_up = wait_until(LIMIT, || {
        holder = process();
        holder.is_some() || fs::metadata(&json).is_ok_and(|file| file.len() > 0)
    });
    let Some(holder) = holder else {
        assert!(is_up, "no network comes up: {}", peer.output());
        return say_skipped("there can be no network here");
    };
    send_signal(peer.id(), "INT");
    assert_eq!(peer.wait(LIMIT).code(), Some(130));
    assert!(!Path::new(&format!("/proc/{holder}/ns")).exists());
    assert!(entries().is_empty(), "{:?}", entries());
    let results = results(&json);
    let interrupted = results
        .iter()
        .filter(|result| result["verdict"] == "skipped" && result["why"] == "it was interrupted");
    assert!(interrupted.count() > 0, "{results:?}");
}

#[test]
fn an_interrupted_run_on_simulated_hosts_tells_what_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("results.json");
    let mut command = tandem();
    command.args(["lab", "run", "all", "--json"]).arg(&json);
    let mut peer = Peer::spawn(&mut command);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(!json.exists(), "an empty file says nothing");
    send_signal(peer.id(), "INT");
    assert_eq!(peer.wait(LIMIT).code(), Some(130));
    let results = results(&json);
    let interrupted = results
        .iter()
        .filter(|result| result["verdict"] == "skipped" && result["why"] == "it was interrupted");
    assert!(interrupted.count() > 0, "{results:?}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    for (arguments, words) in [
        (&["run", "weather"][..], "throughput-by-delay"),
        (&["run", "heartbeat", "--on", "mars"], "sim nor net"),
        (&["run"], "NAME"),
    ] {
        let refused = lab(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let unwritable = lab(&[
        "run",
        "heartbeat",
        "--quick",
        "--json",
        "/no/such/directory/x",
    ]);
    assert_eq!(unwritable.status.code(), Some(1));
    assert!(
        unwritable.stdout.is_empty(),
        "it is found out before the work"
    );
}
