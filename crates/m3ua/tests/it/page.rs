//! Keeps `docs/m3ua.md` true: what it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// One row of a table of requirements: its cells.
fn rows() -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/m3ua.md")).expect("the page");
    let mut is_requirement = false;
    let lines = page.lines().filter(|line| {
        let is_header = line.starts_with("| id ");
        is_requirement = is_header || is_requirement && line.starts_with('|');
        is_requirement && !is_header && line.starts_with("| ")
    });
    let rows = lines.map(|line| {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    });
    rows.collect()
}

/// `file.rs::name` in a cell; the name is not always there.
fn references(cell: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.map(|reference| match reference.split_once("::") {
        Some((file, name)) => (file, Some(name)),
        None => (reference, None),
    })
}

fn text_of(file: &str, below: &str) -> Option<String> {
    let path = match file.split_once('/') {
        Some(("crates", _)) => format!("../../{file}"),
        Some(("src", _)) => file.to_owned(),
        _ => format!("{below}/{file}"),
    };
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

fn has_word(text: &str, name: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .any(|word| word == name)
}

#[test]
fn what_the_page_names_exists() {
    let mut missing = Vec::new();
    for row in rows() {
        let [id, _, _, code, tests, _] = &row[..] else {
            panic!("six cells: {row:?}");
        };
        for (cell, below, is_test) in [(code, "src", false), (tests, "tests/it", true)] {
            for (file, name) in references(cell) {
                let found = text_of(file, below).is_some_and(|text| match name {
                    None => true,
                    Some(name) if is_test => text.contains(&format!("fn {name}(")),
                    Some(name) => has_word(&text, name),
                });
                if !found {
                    missing.push(format!("{id}: {file}::{}", name.unwrap_or_default()));
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
        let (id, status) = (&row[0], row[5].as_str());
        assert!(ids.insert(id.clone()), "{id} is there twice");
        let is_done = status == "done" || status.starts_with("done: ");
        let is_not_done = status.starts_with("n/a: ") || status.starts_with("open: ");
        assert!(is_done || is_not_done, "{id}: {status}");
        if is_done {
            assert!(
                row[3].contains('`') && row[4].contains('`'),
                "{id}: where, and which test?"
            );
        }
    }
    assert!(ids.len() > 70, "{}", ids.len());
}
