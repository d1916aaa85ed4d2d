//! Keeps `docs/interop.md` true: the tests that it says have run are there, and no test is missing on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The modules of tests of the peers in one process, in the order of the columns of the page.
const PEERS: [&str; 3] = ["usrsctp", "dcsctp", "sctp_proto"];

/// What stands where a peer lacks something.
const LACKING: &str = "—";

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The tests of this program, without this page's.
fn tests() -> BTreeSet<String> {
    let program = std::env::current_exe().expect("this program has a name");
    let mut list = Command::new(program);
    let output = list.args(["--list", "--format", "terse"]).output();
    let output = String::from_utf8(output.expect("it lists them").stdout).expect("names");
    let names = output
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names
        .filter(|name| !name.starts_with("page::"))
        .map(str::to_owned)
        .collect()
}

/// The text between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether `crates/CRATE/tests/it` has a file of this module with this function: `CRATE: MODULE::FUNCTION`.
fn is_elsewhere(test: &str) -> bool {
    let Some((package, path)) = test.split_once(": ") else {
        return false;
    };
    let Some((module, function)) = path.rsplit_once("::") else {
        return false;
    };
    let file = repository().join("crates").join(package).join("tests/it");
    let file = file.join(module.replace("::", "/"));
    let texts = [file.with_extension("rs"), file.join("mod.rs")]
        .map(|file| fs::read_to_string(file).unwrap_or_default());
    texts
        .iter()
        .any(|text| text.contains(&format!("fn {function}(")))
}

#[test]
fn the_matrix_is_what_is_tested() {
    let page = fs::read_to_string(repository().join("docs/interop.md")).expect("the page");
    let tests = tests();
    let mut named = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, test, usrsctp, dcsctp, sctp_proto, kernel] = cells[..] else {
            panic!("six cells: {line}");
        };
        if test == "test" {
            continue;
        }
        let test = quoted(test).next().expect("a test");
        let (module, function) = test.rsplit_once("::").expect("a module");
        for (peer, cell) in PEERS.into_iter().zip([usrsctp, dcsctp, sctp_proto]) {
            // A test of one peer alone is in no module of a peer.
            let names = [format!("{module}::{peer}::{function}"), test.to_owned()];
            let there: Vec<_> = names.iter().filter(|name| tests.contains(*name)).collect();
            match (cell, &there[..]) {
                ("yes", [name]) => {
                    named.insert((*name).clone());
                }
                ("yes", _) => assert!(is_elsewhere(test), "{peer}: there is no {test}"),
                (LACKING, _) => assert!(!tests.contains(&names[0]), "{peer} has {test}"),
                (other, _) => panic!("{other:?} in {line}"),
            }
        }
        for test in quoted(kernel) {
            assert!(is_elsewhere(test), "there is no {test}");
        }
    }
    assert_eq!(named, tests, "all tests are on the page");
}
