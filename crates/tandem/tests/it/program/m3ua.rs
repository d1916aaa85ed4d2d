//! `tandem m3ua` as a person runs it.

use serde_json::Value;

use crate::program::support::tandem;

#[test]
fn a_fail_over_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("m3ua.json");
    let mut command = tandem();
    command
        .args(["m3ua", "perf", "--rate", "1000/s", "--duration", "500ms"])
        .args(["--fail-over", "--json"])
        .arg(&json);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("outage at fail-over"), "{said}");
    let written = std::fs::read_to_string(&json).expect("it is written");
    let document: Value = serde_json::from_str(&written).expect("JSON");
    let figures = &document["runs"][0];
    assert_eq!(figures["sent"], 500, "{document}");
    assert_eq!(figures["duplicates"], 0, "{document}");
    assert!(figures["outage_ms"].as_f64().is_some(), "{document}");
    assert!(
        figures["delay_ms"]["p99"].as_f64() > Some(0.0),
        "{document}"
    );
}

#[test]
fn a_rate_that_cannot_be_is_refused() {
    for rate in ["0/s", "2000000/s", "inf", "much"] {
        let mut command = tandem();
        command.args(["m3ua", "perf", "--rate", rate]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
