//! Keeps `docs/phones.md` true: it names all tests with the phones of others, and no other ones.

use std::collections::BTreeSet;
use std::process::Command;

const PAGE: &str = include_str!("../../../../../docs/phones.md");

#[test]
fn the_page_names_all_tests() {
    let program = std::env::current_exe().expect("this program has a name");
    let mut list = Command::new(program);
    let output = list.args(["--list", "--format", "terse"]).output();
    let output = String::from_utf8(output.expect("it lists them").stdout).expect("names");
    let tests = output.lines().filter_map(|line| {
        let name = line.strip_suffix(": test")?.strip_prefix("peers::")?;
        (!name.starts_with("page::")).then_some(name)
    });
    // The name of a test has words.
    let rows = PAGE.lines().filter(|line| line.starts_with("| "));
    let named = rows.filter_map(|line| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted.filter(|text| text.contains('_')).last()
    });
    let (tests, named): (BTreeSet<_>, BTreeSet<_>) = (tests.collect(), named.collect());
    assert_eq!(tests, named);
}
