//! Keeps `docs/proxy-rules.md` true: what it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of the page's rows: id, level, what, where, test, status.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(repository().join("docs/proxy-rules.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|line| {
        let line = line.trim_matches('|');
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    });
    cells
        .filter(|cells: &Vec<String>| cells[0] != "id")
        .collect()
}

/// Each `file.rs` or `file.rs::name` of a cell.
fn references(cell: &str) -> Vec<(&str, Option<&str>)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted
        .map(|reference| match reference.split_once("::") {
            Some((file, name)) => (file, Some(name)),
            None => (reference, None),
        })
        .collect()
}

/// The text of a file that a reference names; `below` is where such files are by default.
fn text_of(file: &str, below: &str) -> Option<String> {
    let path = match file.starts_with("crates/") {
        true => PathBuf::from(file),
        false => Path::new(below).join(file),
    };
    fs::read_to_string(repository().join(path)).ok()
}

/// Whether code, not a comment, has `name` as a word of its own.
fn has_word(text: &str, name: &str) -> bool {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .any(|word| word == name)
}

#[test]
fn what_the_page_names_exists() {
    let rows = rows();
    assert!(rows.len() > 80);
    let mut missing = Vec::new();
    for cells in &rows {
        assert_eq!(cells.len(), 6, "{cells:?}");
        for (cell, below, is_test) in [
            (&cells[3], "crates/proxy/src/core", false),
            (&cells[4], "crates/proxy/tests/it", true),
        ] {
            for (file, name) in references(cell) {
                let found = text_of(file, below).is_some_and(|text| match name {
                    None => true,
                    Some(name) if is_test => text.contains(&format!("fn {name}(")),
                    Some(name) => has_word(&text, name),
                });
                if !found {
                    missing.push(format!("{}: {file} {name:?}", cells[0]));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn each_row_says_where_it_stands() {
    let mut ids = BTreeSet::new();
    for cells in rows() {
        assert!(ids.insert(cells[0].clone()), "{} is there twice", cells[0]);
        let status = cells[5].as_str();
        let is_known = status == "open"
            || status.starts_with("n/a: ")
            || status == "done"
            || ["done:", "done,", "done;", "done "]
                .iter()
                .any(|start| status.starts_with(start));
        assert!(is_known, "{}: {status}", cells[0]);
        let is_proved = !cells[4].is_empty();
        assert_eq!(is_proved, status.starts_with("done"), "{}", cells[0]);
    }
}

/// `docs/security.md` names tests: with their files, and below a file that was named before.
#[test]
fn what_the_page_of_security_names_exists() {
    let page = fs::read_to_string(repository().join("docs/security.md")).expect("the page");
    let mut missing = Vec::new();
    let mut named = 0;
    for paragraph in page.split("\n\n").filter(|text| text.starts_with("Tests")) {
        let below = paragraph.split('`').nth(1).unwrap_or_default();
        let below = match paragraph.starts_with("Tests (") {
            true => below,
            false => "",
        };
        let mut text = None;
        for quoted in paragraph.split('`').skip(1).step_by(2) {
            let (file, test) = match quoted.split_once("::") {
                Some((file, test)) => (Some(file), Some(test)),
                None if quoted.ends_with(".rs") => (Some(quoted), None),
                None if quoted == below => continue,
                None => (None, Some(quoted)),
            };
            if let Some(file) = file {
                text = text_of(file, below);
            }
            let is_there = text
                .as_ref()
                .is_some_and(|text| test.is_none_or(|test| text.contains(&format!("fn {test}("))));
            named += 1;
            if !is_there {
                missing.push(quoted);
            }
        }
    }
    assert!(missing.is_empty() && named > 30, "{named}, {missing:#?}");
}
