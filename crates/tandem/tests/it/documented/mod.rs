//! Every command in the README, in `docs/` and in the examples of `--help` is run, or at least held against the
//! command line that the program accepts.
//!
//! [`texts`] finds the commands, [`table`] says what becomes of each, and [`run`] does it. A command that is not in
//! the table fails the test: add it there.

mod run;
mod table;
mod texts;

use std::collections::BTreeSet;
use std::sync::Mutex;

use table::{Entry, How, TABLE};
use texts::Text;

/// Commands of other programs that stand in the texts, by how they begin, and why they are not run here.
const OTHERS: &[(&str, &str)] = &[
    (
        "/usr/lib/usrsctp/",
        "a peer, run by the tests of interoperation",
    ),
    (
        "cargo run --profile dist -p versus",
        "benchmarks: they take long",
    ),
    (
        "cargo run --release -p versus",
        "benchmarks: they take long",
    ),
    ("cargo install", "builds the program"),
    ("curl", "needs the token that the page's server has made"),
    ("git ", "needs another repository"),
    ("journalctl", "needs a host with systemd"),
    ("man tandem", "needs installed manual pages"),
    ("mkdir", "a step of an installation"),
    ("openssl", "another program, run by the tests of TLS"),
    ("podman", "needs a container engine"),
    (
        "scripts/",
        "the project's own scripts, some of which run this test",
    ),
    ("sipp", "a peer, run by the tests of interoperation"),
    ("sudo apt", "changes the host"),
    ("sudo chgrp", "changes the host"),
    ("sudo runuser", "needs the user of an installed package"),
    ("sudo scripts/", "changes the host"),
    ("sudo systemctl", "needs a host with systemd"),
    ("sudoedit", "changes the host"),
    ("tshark", "another program, run by the tests of captures"),
];

fn entry(command: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.command == command)
}

/// Does with the commands of some texts what the table says, several at a time.
fn check(texts: &[Text]) {
    let mut left: Vec<&Text> = texts.iter().collect();
    // A command that stands in several places is run once.
    let mut seen = BTreeSet::new();
    left.retain(|text| seen.insert(&text.command));
    let left = Mutex::new(left);
    let problems = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(text) = left.lock().expect("no panic").pop() else {
                        return;
                    };
                    if let Err(problem) = check_one(text) {
                        let problem = format!("{}: {}\n    {problem}", text.place, text.command);
                        problems.lock().expect("no panic").push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

fn check_one(text: &Text) -> Result<(), String> {
    if text.is_mention {
        return run::parsed(&text.command);
    }
    if OTHERS
        .iter()
        .any(|(begin, _)| text.command.starts_with(begin))
    {
        return Ok(());
    }
    let Some(entry) = entry(&text.command) else {
        return Err("it is not in the table of tests/it/documented/table.rs".to_owned());
    };
    run::parsed(&entry.command_line())?;
    match entry.how {
        How::Parsed(_) => Ok(()),
        How::Run => run::run(entry),
    }
}

/// Checks the commands of some pages.
fn pages(names: &[&str]) {
    let found: Vec<Text> = names.iter().flat_map(|name| texts::of_page(name)).collect();
    assert!(!found.is_empty());
    check(&found);
}

/// Checks the examples in the help of some commands, and of all beneath them.
fn help(commands: &[&str]) {
    let found: Vec<Text> = commands
        .iter()
        .flat_map(|command| texts::of_help(command))
        .collect();
    check(&found);
}

#[test]
fn commands_of_the_readme_are_accepted() {
    pages(&[
        "README.md",
        "docs/demo.md",
        "docs/documents.md",
        "docs/install.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ]);
}

#[test]
fn commands_of_the_pages_on_sctp_and_flood_are_accepted() {
    pages(&[
        "docs/sctp.md",
        "docs/extensions.md",
        "docs/interop.md",
        "docs/flood.md",
        "docs/m3ua.md",
        "docs/phone.md",
        "docs/phones.md",
        "docs/loss-recovery.md",
        "docs/multipath.md",
    ]);
}

#[test]
fn commands_of_the_pages_on_proxy_and_capture_are_accepted() {
    pages(&[
        "docs/extending.md",
        "docs/plugins.md",
        "docs/proxy.md",
        "docs/proxy-rules.md",
        "docs/security.md",
        "docs/capture.md",
    ]);
}

#[test]
fn commands_of_the_page_on_load_are_accepted() {
    pages(&["docs/load.md", "docs/scenarios.md"]);
}

#[test]
fn commands_of_the_pages_on_perf_and_traffic_are_accepted() {
    pages(&["docs/perf.md", "docs/traffic.md"]);
}

#[test]
fn commands_of_the_pages_on_networks_are_accepted() {
    pages(&[
        "docs/net.md",
        "docs/link.md",
        "docs/emulator.md",
        "docs/lab.md",
        "docs/rfc9260.md",
        "ARCHITECTURE.md",
        "benches/README.md",
    ]);
}

#[test]
fn commands_of_the_help_on_capture_and_flood_are_accepted() {
    help(&["capture", "flood", "man", "completions"]);
}

#[test]
fn commands_of_the_help_on_lab_and_demo_are_accepted() {
    help(&["", "lab", "demo"]);
}

#[test]
fn commands_of_the_help_on_load_are_accepted() {
    help(&["load"]);
}

#[test]
fn commands_of_the_help_on_net_are_accepted() {
    help(&["net"]);
}

#[test]
fn commands_of_the_help_on_perf_and_traffic_are_accepted() {
    help(&["perf", "traffic"]);
}

#[test]
fn commands_of_the_help_on_proxy_and_sctp_are_accepted() {
    help(&["proxy", "sctp", "phone", "m3ua"]);
}

#[test]
fn every_page_is_looked_at() {
    let looked_at = include_str!("mod.rs");
    for name in texts::page_names() {
        assert!(
            looked_at.contains(&format!("\"{name}\"")),
            "{name} is in no test"
        );
    }
}

#[test]
fn every_entry_of_the_table_stands_in_a_text() {
    let mut texts = texts::of_help("");
    for command in texts::commands() {
        texts.extend(texts::of_help(&command));
    }
    for name in texts::page_names() {
        texts.extend(texts::of_page(&name));
    }
    let standing: BTreeSet<String> = texts.into_iter().map(|text| text.command).collect();
    let stale = TABLE.iter().map(|entry| entry.command);
    let stale: Vec<&str> = stale
        .filter(|command| !standing.contains(*command))
        .collect();
    assert!(stale.is_empty(), "in no text: {stale:#?}");
}
