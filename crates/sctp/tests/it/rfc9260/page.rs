//! Keeps `docs/rfc9260.md`, `docs/extensions.md` and `docs/loss-recovery.md` true: what they name exists, and what the first calls open is
//! listed as open.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sctp::EndpointConfig;

/// One row of the tables of a page.
struct Row {
    /// Page and id.
    id: String,
    code: Vec<Reference>,
    tests: Vec<Reference>,
    status: String,
}

/// `file.rs`, or `file.rs::name`.
struct Reference {
    file: String,
    name: Option<String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const RFC_9260: &str = "rfc9260.md";

fn page() -> String {
    fs::read_to_string(repository().join("docs").join(RFC_9260)).expect("the page is there")
}

/// All pages below `docs`.
const PAGES: [&str; 3] = [RFC_9260, "extensions.md", "loss-recovery.md"];

fn references(cell: &str) -> Vec<Reference> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted
        .map(|reference| {
            let (file, name) = match reference.split_once("::") {
                Some((file, name)) => (file, Some(name.to_owned())),
                None => (reference, None),
            };
            Reference {
                file: file.to_owned(),
                name,
            }
        })
        .collect()
}

fn rows() -> Vec<Row> {
    PAGES.iter().flat_map(|page| rows_of(page)).collect()
}

fn rows_of(name: &str) -> Vec<Row> {
    let page = fs::read_to_string(repository().join("docs").join(name)).expect("the page is there");
    let mut rows = Vec::new();
    // There are other tables, too.
    let mut is_of_requirements = false;
    for line in page.lines() {
        if !line.starts_with("| ") {
            is_of_requirements &= line.starts_with("|-");
            continue;
        }
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if cells[0] == "id" {
            is_of_requirements = true;
            continue;
        }
        if !is_of_requirements {
            continue;
        }
        assert_eq!(cells.len(), 6, "cells: {line}");
        rows.push(Row {
            id: format!("{name} {}", cells[0]),
            code: references(cells[3]),
            tests: references(cells[4]),
            status: cells[5].to_owned(),
        });
    }
    rows
}

/// The text of a file that a reference names; `below` is where such files are by default.
fn text_of(file: &str, below: &str) -> Option<String> {
    let path = if file.starts_with("crates/") {
        PathBuf::from(file)
    } else if file.starts_with("src/") {
        Path::new("crates/sctp").join(file)
    } else {
        Path::new(below).join(file)
    };
    fs::read_to_string(repository().join(path)).ok()
}

/// Whether `name` is there as a word of its own.
fn has_word(text: &str, name: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .any(|word| word == name)
}

#[test]
fn what_the_pages_name_exists() {
    let mut missing = Vec::new();
    for row in rows() {
        for (references, below, is_test) in [
            (&row.code, "crates/sctp/src", false),
            (&row.tests, "crates/sctp/tests/it", true),
        ] {
            // What is open may name the test that is to come.
            if is_test && row.status == "open" {
                continue;
            }
            for Reference { file, name } in references {
                let found = text_of(file, below).is_some_and(|text| match name {
                    None => true,
                    Some(name) if is_test => text.contains(&format!("fn {name}(")),
                    Some(name) => has_word(&text, name),
                });
                if !found {
                    let name = name.as_deref().unwrap_or_default();
                    missing.push(format!("{}: {file}::{name}", row.id));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn each_row_says_where_it_stands() {
    let mut ids = BTreeSet::new();
    for row in rows() {
        assert!(ids.insert(row.id.clone()), "{} is there twice", row.id);
        let status = row.status.as_str();
        let is_done = status == "done"
            || ["done:", "done,", "done;", "done ("]
                .iter()
                .any(|start| status.starts_with(start));
        let is_not_applicable = status.starts_with("n/a: ");
        assert!(
            is_done || is_not_applicable || status == "open",
            "{}: {status}",
            row.id
        );
        if is_done {
            assert!(!row.code.is_empty(), "{}: where?", row.id);
            assert!(!row.tests.is_empty(), "{}: which test?", row.id);
        }
    }
    assert!(ids.len() > 300, "{}", ids.len());
}

#[test]
fn what_is_open_is_listed_at_the_head() {
    let page = page();
    let head = page
        .split("\n## ")
        .find(|part| part.starts_with("What is open"));
    let listed: BTreeSet<_> = references(head.expect("a list of what is open"))
        .into_iter()
        .map(|reference| reference.file)
        .collect();
    let open: BTreeSet<_> = rows_of(RFC_9260)
        .into_iter()
        .filter(|row| row.status == "open")
        .map(|row| row.id.replace(&format!("{RFC_9260} "), ""))
        .collect();
    assert_eq!(listed, open);
}

#[test]
fn the_defaults_are_the_recommended_values() {
    let config = EndpointConfig::default();
    let seconds = Duration::from_secs;
    assert_eq!(config.association.path.rto_initial, seconds(1));
    assert_eq!(config.association.path.rto_min, seconds(1));
    assert_eq!(config.association.path.rto_max, seconds(60));
    assert_eq!(config.association.max_burst, 4);
    assert_eq!(
        (
            config.association.path.rto_alpha,
            config.association.path.rto_beta
        ),
        (0.125, 0.25)
    );
    assert_eq!(config.valid_cookie_life, seconds(60));
    assert_eq!(config.association.association_max_retrans, 10);
    assert_eq!(config.association.path.path_max_retrans, 5);
    assert_eq!(config.association.max_init_retransmits, 8);
    assert_eq!(config.association.path.hb_interval, seconds(30));
    assert_eq!(config.association.hb_max_burst, 1);
    assert_eq!(config.association.sack_delay, Duration::from_millis(200));
    // RFC 7829 and RFC 8899.
    assert_eq!(config.association.path.potentially_failed_max_retrans, 0);
    assert_eq!(config.association.path.primary_switchover_max_retrans, None);
    assert_eq!(
        (
            config.association.path.base_mtu,
            config.association.path.max_probes
        ),
        (1200, 3)
    );
    assert!(config.association.path.probe_timer >= seconds(15));
    assert_eq!(config.association.path.pmtu_raise_timer, seconds(600));
}
