//! The options of SIPp: `docs/scenarios.md` says of each what it is here.

use std::collections::BTreeSet;
use std::process::Command;

use test_support::require_command;

/// The names of options in a text, behind a mark of their own: `   -name`.
fn options<'t>(lines: impl Iterator<Item = &'t str>, before: &str) -> BTreeSet<String> {
    let is_of_name = |character: &char| character.is_ascii_alphanumeric() || *character == '_';
    lines
        .flat_map(|line| line.split(before).skip(1))
        .map(|rest| rest.chars().take_while(is_of_name).collect())
        .collect()
}

#[test]
fn every_option_of_sipp_has_a_row() {
    let Some(program) = require_command("sipp", "sip-tester") else {
        return;
    };
    let output = Command::new(program).arg("-h").output().expect("sipp runs");
    let help = String::from_utf8_lossy(&output.stdout);
    let (help, _) = help
        .split_once("Exit codes:")
        .expect("the end of the options");
    // Texts that go on are further to the right.
    let lines = help.lines().filter(|line| line.starts_with("   -"));
    let theirs = options(lines, "   -");
    assert!(theirs.len() > 100, "{theirs:?}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");
    let text = std::fs::read_to_string(file).expect("the documentation");
    let (_, table) = text.split_once("### Options of SIPp").expect("the table");
    let rows = table.lines().filter(|line| line.starts_with('|'));
    let ours = options(rows.filter_map(|row| row.split('|').nth(1)), "`-");
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
}
