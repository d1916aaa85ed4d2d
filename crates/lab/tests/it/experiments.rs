//! All experiments, quick, on simulated hosts: what programs read, what people see, and that chance
//! comes from the seed alone.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::{On, Options, Results, Verdict, experiments};
use serde_json::Value;

const OPTIONS: Options = Options {
    on: On::Sim,
    seed: 1,
    quick: true,
};

#[test]
fn all_experiments_run_on_simulated_hosts_and_none_fails() {
    let results = lab::run(experiments::all(), OPTIONS, &AtomicBool::new(false));
    for result in results.results() {
        let (name, outcome) = (result.experiment.name(), &result.outcome);
        assert_ne!(outcome.verdict, Verdict::Fails, "{name}: {}", outcome.why);
        let runs = result.experiment.on().contains(&On::Sim);
        assert_eq!(outcome.verdict == Verdict::Skipped, !runs, "{name}");
        assert!(!outcome.why.is_empty(), "{name}");
    }
    assert!(!results.any_failed());

    let json = results.to_json().expect("figures");
    is_as_promised(&json);
    let again = lab::run(experiments::all(), OPTIONS, &AtomicBool::new(false));
    let again = again.to_json().expect("figures");
    let differing = json
        .lines()
        .zip(again.lines())
        .find(|(one, other)| one != other);
    assert_eq!(differing, None, "the same seed, and another outcome");
    assert_eq!(json.len(), again.len());

    shows_in_a_browser(&results);
}

/// The members that programs read, and no others.
fn is_as_promised(json: &str) {
    let array: Value = serde_json::from_str(json).expect("JSON");
    let array = array.as_array().expect("an array");
    assert_eq!(array.len(), experiments::all().len());
    for (record, experiment) in array.iter().zip(experiments::all()) {
        let members: Vec<&String> = record.as_object().expect("an object").keys().collect();
        let mut expected = [
            "name",
            "on",
            "ours",
            "published",
            "source",
            "verdict",
            "why",
        ];
        expected.sort_unstable();
        let mut members: Vec<&str> = members.into_iter().map(String::as_str).collect();
        members.sort_unstable();
        assert_eq!(members, expected);
        assert_eq!(record["name"], experiment.name());
        assert_eq!(record["source"], experiment.source());
        assert_eq!(record["on"], "sim");
        let verdict = record["verdict"].as_str().expect("a text");
        assert!(["holds", "differs", "fails", "skipped"].contains(&verdict));
        assert!(record["why"].is_string());
        if verdict != "skipped" {
            assert!(!record["ours"].is_null(), "{record}");
            assert!(!record["published"].is_null(), "{record}");
        }
    }
}

fn shows_in_a_browser(results: &Results) {
    let html = results.to_html("tandem lab run all --quick");
    for experiment in experiments::all() {
        assert!(html.contains(experiment.title()), "{}", experiment.name());
    }
    let Some(chromium) = test_support::require_command("chromium", "chromium") else {
        return;
    };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let page = directory.join("lab-index.html");
    fs::write(&page, &html).expect("a file");
    let screenshot = directory.join("lab-index.png");
    let opened = test_support::open_page(&chromium, &page, &screenshot, "1280,6000", &[]);
    assert!(!opened.messages.contains("CONSOLE"), "{opened:?}");
    assert_eq!(opened.requests, [""; 0]);
    assert!(fs::metadata(&screenshot).expect("a picture").len() > 50_000);
    fits_into_a_phone(&chromium, &html);
}

/// Nothing of the page is wider than a phone, but what is scrolled by itself.
fn fits_into_a_phone(chromium: &Path, html: &str) {
    const WIDE: &str = "as wide as";
    let script = format!(
        "<script>console.error('{WIDE}', document.documentElement.scrollWidth, 'in', innerWidth)</script>"
    );
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let inner = directory.join("lab-inner.html");
    // The page itself lets nothing run.
    let html = html.replacen("default-src 'none'", "script-src 'unsafe-inline'", 1);
    fs::write(&inner, format!("{html}{script}")).expect("a file");
    // A window cannot be so narrow.
    let frame =
        r#"<!DOCTYPE html><iframe src="lab-inner.html" width="390" height="800" style="border:0">"#;
    let outer = directory.join("lab-phone.html");
    fs::write(&outer, frame).expect("a file");
    let screenshot = directory.join("lab-phone.png");
    let opened = test_support::open_page(chromium, &outer, &screenshot, "800,800", &[]);
    let told = format!("{WIDE} 390 in 390");
    assert!(opened.messages.contains(&told), "{}", opened.messages);
}
