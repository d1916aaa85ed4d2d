//! `tandem lab` on real sockets: an experiment whose server is this program in a process of its own.

use serde_json::Value;
use test_support::say_skipped;

use crate::program::lab::may_be_skipped;
use crate::program::support::tandem;

#[test]
fn a_server_in_a_process_of_its_own_is_looked_at_on_another_host() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("results.json");
    let output = tandem()
        .env("XDG_RUNTIME_DIR", directory.path())
        .args(["lab", "run", "streams-or-associations"])
        .args(["--quick", "--on", "net", "--json"])
        .arg(&json)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let results = std::fs::read_to_string(&json).unwrap_or_else(|_| panic!("{said}"));
    let results: Value = serde_json::from_str(&results).expect("JSON");
    let result = &results[0];
    let why = result["why"].as_str().expect("a text");
    if result["verdict"] == "skipped" {
        assert!(may_be_skipped(why), "{why}");
        return say_skipped(why);
    }
    assert_ne!(result["verdict"], "fails", "{why}");
    assert!(output.status.success(), "{said}");
    let number = |what: &Value| what.as_f64().expect("a number");
    for (name, packets) in [("associations", 4000.0), ("streams", 4.0)] {
        let ours = &result["ours"][name];
        assert!(number(&ours["set_up_packets"]) >= packets, "{ours}");
        assert!(number(&ours["server_memory_up_kib"]) > 0.0, "{ours}");
        assert!(number(&ours["server_processor_s"]) >= 0.0, "{ours}");
    }
}
