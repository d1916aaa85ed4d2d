//! `--json -`: the document alone goes to standard output, and what is for people to standard error.

use std::process::Output;

use serde_json::Value;

use crate::program::support::tandem;

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
