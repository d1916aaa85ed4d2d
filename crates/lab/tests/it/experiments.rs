//! All experiments, quick, on simulated hosts: what programs read, what people see, and that chance
//! comes from the seed alone.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::{Experiment, On, Options, Verdict, experiments};
use sctp::Profile;
use serde_json::Value;

const OPTIONS: Options = Options {
    on: On::Sim,
    seed: 1,
    quick: true,
    profile: Profile::Signalling,
};

/// A test for each experiment, so that they run side by side, and the list of those that have one.
macro_rules! experiments_that_run {
    ($($test:ident: $name:literal,)*) => {
        const TESTED: &[&str] = &[$($name),*];

        $(
            #[test]
            fn $test() {
                runs_and_repeats($name);
            }
        )*
    };
}

experiments_that_run! {
    throughput_by_size: "throughput-by-size",
    throughput_by_delay: "throughput-by-delay",
    fairness: "fairness",
    bandwidth_share: "bandwidth-share",
    failover: "failover",
    heartbeat: "heartbeat",
    head_of_line: "head-of-line",
    handshake: "handshake",
    transfers: "transfers",
    streams_or_associations: "streams-or-associations",
    flood: "flood",
    calls_through_two_proxies: "calls-through-two-proxies",
    calls_during_path_failure: "calls-during-path-failure",
    wireless: "wireless",
    single_session: "single-session",
    calls_under_loss: "calls-under-loss",
    losses_by_region: "losses-by-region",
    multipath: "multipath",
    throughput_by_round_trip: "throughput-by-round-trip",
    server_under_load: "server-under-load",
    signalling_gateway: "signalling-gateway",
}

#[test]
fn every_experiment_has_a_test() {
    let names = experiments::all()
        .iter()
        .map(|experiment| experiment.name());
    assert_eq!(names.collect::<Vec<_>>(), TESTED);
}

/// An experiment obeys its law, and the same seed gives the same outcome.
fn runs_and_repeats(name: &str) {
    let experiment = experiments::by_name(name).expect("an experiment");
    let run = || lab::run(&[experiment], OPTIONS, &AtomicBool::new(false));
    let results = run();
    for result in results.results() {
        let outcome = &result.outcome;
        assert_ne!(outcome.verdict, Verdict::Fails, "{name}: {}", outcome.why);
        let runs = result.experiment.on().contains(&On::Sim);
        assert_eq!(outcome.verdict == Verdict::Skipped, !runs, "{name}");
        assert!(!outcome.why.is_empty(), "{name}");
    }
    assert!(!results.any_failed());

    let json = results.to_json().expect("figures");
    is_as_promised(&json, experiment);
    let again = run().to_json().expect("figures");
    let differing = json
        .lines()
        .zip(again.lines())
        .find(|(one, other)| one != other);
    assert_eq!(differing, None, "the same seed, and another outcome");
    assert_eq!(json.len(), again.len());
}

/// The members that programs read, and no others.
fn is_as_promised(json: &str, experiment: &dyn Experiment) {
    let array: Value = serde_json::from_str(json).expect("JSON");
    let array = array.as_array().expect("an array");
    assert_eq!(array.len(), 1);
    for record in array {
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

/// With plots, tables and ladders of several experiments.
#[test]
fn the_page_shows_in_a_browser() {
    let shown: Vec<_> = ["bandwidth-share", "handshake", "single-session", "fairness"]
        .into_iter()
        .filter_map(experiments::by_name)
        .collect();
    let results = lab::run(&shown, OPTIONS, &AtomicBool::new(false));
    let html = results.to_html("tandem lab run all --quick");
    for experiment in shown {
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
