//! Many tests in one run, beside published figures.

use test_support::Peer;

use super::{LONG, assert_consistent, count, number, read, run, text};
use crate::program::support::{send_signal, tandem};

#[test]
fn a_sweep_fills_its_table_page_and_document() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("sweep.json");
    let html = directory.path().join("sweep.html");
    let output = tandem()
        .args(["perf", "sweep", "--sizes", "64,65536", "--seconds", "0.3"])
        .arg("--json")
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains("65,536") && table.contains("Goodput"),
        "{table}"
    );
    let document = read(&json);
    let runs = document["runs"].as_array().expect("runs");
    let made: Vec<(String, u64)> = runs
        .iter()
        .map(|run| {
            let protocol = run["protocol"].as_str().expect("a name");
            (protocol.to_owned(), count(&run["size_bytes"]))
        })
        .collect();
    let expected = [
        ("udp", 64),
        ("tcp", 64),
        ("sctp", 64),
        ("udp", 65_507),
        ("tcp", 65_536),
        ("sctp", 65_536),
    ];
    let expected = expected.map(|(protocol, size)| (protocol.to_owned(), size));
    assert_eq!(made, expected);
    for run in runs {
        assert!(number(&run["goodput_bits_per_second"]) > 0.0, "{run}");
        if run["protocol"] != "udp" {
            assert_consistent(run);
        }
    }
    let page = std::fs::read_to_string(&html).expect("written");
    assert!(page.matches("<svg").count() >= 3);
}

#[test]
fn associations_and_streams_are_counted_beside_the_published_figures() {
    let directory = tempfile::tempdir().expect("a directory");
    for (command, associations, streams, transfers) in [
        ("associations", 50, 2, vec![50]),
        ("streams", 1, 50, vec![50, 100]),
    ] {
        let json = directory.path().join(format!("{command}.json"));
        let mut program = tandem();
        program.args(["perf", command, "--count", "50"]);
        if command == "associations" {
            program.args(["--streams", "2"]);
        }
        let output = program.arg("--json").arg(&json).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output));
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        for figure in ["28.644", "0.134", "59,752", "65,000"] {
            assert!(table.contains(figure), "{figure} in {table}");
        }
        let document = read(&json);
        let run = run(&document);
        assert_eq!(run["associations"], associations, "{run}");
        assert_eq!(run["streams"], streams, "{run}");
        assert!(number(&run["start_up_seconds"]) > 0.0, "{run}");
        assert!(count(&run["server_memory_up_kib"]) > 0, "{run}");
        let messages: Vec<u64> = run["transfers"]
            .as_array()
            .expect("transfers")
            .iter()
            .map(|transfer| count(&transfer["messages"]))
            .collect();
        assert_eq!(messages, transfers, "{run}");
        assert_eq!(run["published"].as_array().map(Vec::len), Some(9));
    }
}

#[test]
fn an_interrupted_sweep_shows_and_writes_what_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let html = directory.path().join("sweep.html");
    let mut command = tandem();
    command.args([
        "perf",
        "sweep",
        "--sizes",
        "64,128",
        "--seconds",
        "1",
        "--html",
    ]);
    let mut sweep = Peer::spawn(command.arg(&html));
    // The first test is over.
    sweep.wait_for_output("1/6", LONG);
    send_signal(sweep.id(), "INT");
    assert_eq!(sweep.wait(LONG).code(), Some(130), "{}", sweep.output());
    assert!(
        sweep.output().contains("Page with plots"),
        "{}",
        sweep.output()
    );
    let page = std::fs::read_to_string(&html).expect("it was written");
    assert!(
        page.contains("<p class=\"headline\">Interrupted after "),
        "{page}"
    );
}
