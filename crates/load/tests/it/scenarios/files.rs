//! The examples beside this crate.

use std::path::Path;

use load::driver::GeneratorConfig;
use load::record::Party;
use load::scenario::Scenario;

use crate::scenarios::{attempts, config, options};

/// Every file of the directory is sound.
#[test]
fn examples_are_sound() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files = vec![directory];
    let mut read = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a directory");
            files.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else {
            let scenario = Scenario::load(&path, &options());
            let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
            assert!(scenario.remarks.is_empty(), "{}", path.display());
            read += 1;
        }
    }
    assert!(read > 15, "{read}");
}

/// What the manual shows is sound.
#[test]
fn scenarios_of_the_manual_are_sound() {
    let manual = include_str!("../../../../../docs/scenarios.md");
    let mut read = 0;
    for block in manual.split("```toml\n").skip(1) {
        let (text, _) = block.split_once("```").expect("an end");
        let scenario = Scenario::read(Path::new("manual.toml"), text.as_bytes(), &options());
        scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
        read += 1;
    }
    assert_eq!(read, 4);
}

/// Those with two sides do what they say when the sides call each other.
#[tokio::test]
async fn examples_are_carried_out() {
    for (file, count) in [("message", 8), ("prack", 8), ("questions", 8)] {
        let (callers, callees) = carried_out(file, count).await;
        assert_eq!(
            (callers, callees),
            (count as usize, count as usize),
            "{file}"
        );
    }
    // Who is busy is called again, so there are more callees.
    let (callers, callees) = carried_out("busy-sometimes", 40).await;
    assert_eq!(callers, 40);
    assert!(callees > 40, "{callees}");
}

/// How many callers and callees have completed a file's scenario; all have.
async fn carried_out(file: &str, count: u64) -> (usize, usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{file}.toml"));
    let scenario = Scenario::load(&path, &options()).unwrap_or_else(|error| panic!("{error}"));
    let config = GeneratorConfig {
        direct: true,
        ..config(&scenario)
    };
    let attempts = attempts(config, count).await;
    for attempt in &attempts {
        assert!(attempt.is_completed(), "{file}: {attempt:#?}");
    }
    let of = |side| {
        attempts
            .iter()
            .filter(|attempt| attempt.party == side)
            .count()
    };
    (of(Party::Caller), of(Party::Callee))
}
