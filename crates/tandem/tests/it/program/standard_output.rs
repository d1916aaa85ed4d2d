//! `--json -`: the document alone goes to standard output, and what is for people to standard error.

use std::process::Output;

use serde_json::Value;

use crate::program::support::{program_path, tandem};

fn run(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let output = tandem()
        .current_dir(directory.path())
        .args(arguments)
        .output()
        .expect("it runs");
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .expect("the directory is there")
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name != "tandem-demo.html" && name != "tandem-sweep.html")
        .collect();
    assert!(left.is_empty(), "{arguments:?} left {left:?}");
    output
}

#[test]
fn a_document_goes_to_standard_output_alone() {
    let calls = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../capture/tests/it/analysis/cases/parallel-invites.pcap"
    );
    for arguments in [
        &["demo", "--calls", "5", "--loss", "0", "--transport", "udp"][..],
        &["lab", "run", "heartbeat", "--quick"],
        &["perf", "sweep", "--sizes", "64", "--seconds", "0.2"],
        &["perf", "streams", "--count", "10"],
        &["capture", "analyze", calls],
    ] {
        let output = run(&[arguments, &["--json", "-"]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        let document: Result<Value, _> = serde_json::from_slice(&output.stdout);
        let document = document.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        assert!(document.is_object() || document.is_array(), "{arguments:?}");
        assert!(!errors.is_empty(), "{arguments:?}: the table is gone");
    }
}

#[test]
fn two_documents_are_refused() {
    let output = run(&["perf", "sweep", "--json", "-", "--html", "-"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("two documents cannot go to standard output"),
        "{errors}"
    );
}

/// A disk that is full in the middle of a document: a file may have no more than a block here. The other document goes where it
/// is to go.
#[test]
fn a_part_of_a_document_is_not_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = program_path();
    let shell = format!(
        "trap '' XFSZ; ulimit -f 1; exec {program} traffic link --link-speed 100M --html page.html --json -"
    );
    let output = std::process::Command::new("sh")
        .current_dir(directory.path())
        .args(["-c", &shell])
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cannot write page.html: "), "{errors}");
    let document: Result<Value, _> = serde_json::from_slice(&output.stdout);
    assert!(document.is_ok(), "{errors}");
    let left = std::fs::read_dir(directory.path()).expect("the directory is there");
    assert_eq!(left.count(), 0);
}

#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    for arguments in [
        &["--help"][..],
        &["load", "calls", "--help"],
        &["--version"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let output = tandem()
            .args(arguments)
            .stdout(full.expect("a full disk"))
            .output()
            .expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(
            errors.contains("cannot write to standard output"),
            "{errors}"
        );
    }
}

/// What goes to a pipe that nobody reads any more changes no exit status.
#[test]
fn a_closed_pipe_changes_no_status() {
    for (arguments, status) in [
        ("perf client tcp:127.0.0.1:1", 1),
        ("capture analyze nothing.pcap", 1),
        ("load calls --via 127.0.0.1:1 -t tcp -m 1", 255),
        ("lab run nothing", 2),
        ("lab list", 0),
        ("proxy --listen udp:192.0.2.1 --store memory:", 1),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = tandem()
            .args(arguments.split(' '))
            .stdout(writer.try_clone().expect("the same pipe"))
            .stderr(writer)
            .status()
            .expect("it runs");
        assert_eq!(ended.code(), Some(status), "{arguments}");
    }
}
