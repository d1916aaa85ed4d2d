//! What a run writes: CSV, JSON, a page.

use std::path::Path;

use test_support::{open_page, require_command};

use super::{load, text};
use crate::program::support::Proxy;

#[test]
fn every_attempt_is_a_line_and_the_page_has_its_plots() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| {
        directory
            .path()
            .join(name)
            .to_str()
            .expect("UTF-8")
            .to_owned()
    };
    let (csv, html) = (path("calls.csv"), path("calls.html"));
    let output = load(
        "calls",
        &proxy,
        "udp",
        &[
            "--users", "4", "-r", "100", "-m", "20", "--csv", &csv, "--html", &html,
        ],
    );
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        text(&output)
    );
    let lines = std::fs::read_to_string(&csv).expect("written");
    let mut lines = lines.split("\r\n");
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let at = |name: &str| {
        header
            .iter()
            .position(|column| *column == name)
            .expect(name)
    };
    let rows: Vec<Vec<&str>> = lines
        .filter(|line| !line.is_empty())
        .map(|line| line.split(',').collect())
        .collect();
    let of = |kind: &str, side: &str| {
        let is_wanted = |row: &&Vec<&str>| row[0] == kind && row[at("side")] == side;
        rows.iter().filter(is_wanted).count()
    };
    assert_eq!(of("registration", "caller"), 8);
    assert_eq!(of("call", "caller"), 20);
    assert_eq!(of("call", "callee"), 20);
    for row in &rows {
        assert_eq!(row.len(), header.len(), "{row:?}");
        assert_eq!(row[at("outcome")], "completed", "{row:?}");
        assert_eq!(row[at("status")], "200", "{row:?}");
    }
    // What happens to a call happens in its order.
    let time = |row: &[&str], name: &str| row[at(name)].parse::<f64>().expect(name);
    for row in rows
        .iter()
        .filter(|row| row[0] == "call" && row[at("side")] == "caller")
    {
        assert!(
            time(row, "answered_ms") <= time(row, "acknowledged_ms"),
            "{row:?}"
        );
        assert!(
            time(row, "acknowledged_ms") <= time(row, "bye_ms"),
            "{row:?}"
        );
        assert!(
            time(row, "bye_ms") <= time(row, "bye_answered_ms"),
            "{row:?}"
        );
        assert_eq!(time(row, "peer"), time(row, "user") + 4.0, "{row:?}");
    }
    let page = std::fs::read_to_string(&html).expect("written");
    for title in [
        "Offered and achieved rate",
        "Lateness of the generator",
        "Distribution of delays",
        "Session request delay over time",
        "Final responses over time",
    ] {
        assert!(page.contains(title), "{title}");
    }
}

/// Users of a file authenticate, each with a password of its own.
#[test]
fn users_of_a_file_have_their_names() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let users = directory.path().join("users.csv");
    std::fs::write(&users, "user,password\nalice,a\nbob,b\ncarol,c\ndave,d\n").expect("written");
    let output = load(
        "calls",
        &proxy,
        "udp",
        &[
            "-inf",
            users.to_str().expect("UTF-8"),
            "-r",
            "50",
            "-m",
            "4",
        ],
    );
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        text(&output)
    );
    assert!(
        text(&output).contains("Registered  4 of 4 users"),
        "{}",
        text(&output)
    );
    let mut log = proxy.peer;
    log.wait_for_output("carol@", std::time::Duration::from_secs(20));
}

/// The page in a browser, in light, in dark and as narrow as a phone; pictures of it are kept.
#[test]
fn the_page_opens_in_a_browser_without_a_complaint() {
    let Some(chromium) = require_command("chromium", "chromium") else {
        return;
    };
    let proxy = Proxy::start();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let page = directory.join("load-page.html");
    let html = page.to_str().expect("UTF-8");
    let output = load(
        "calls",
        &proxy,
        "udp",
        &[
            "--users",
            "4",
            "-r",
            "50",
            "--duration",
            "3s",
            "--html",
            html,
        ],
    );
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        text(&output)
    );
    let dark: &[&str] = &["--blink-settings=preferredColorScheme=0"];
    for (look, size, flags) in [
        ("light", "1280,3400", &[][..]),
        ("dark", "1280,3400", dark),
        ("phone", "500,5200", &[][..]),
    ] {
        let picture = directory.join(format!("load-page-{look}.png"));
        let opened = open_page(&chromium, &page, &picture, size, flags);
        assert!(
            !opened.messages.contains("CONSOLE"),
            "{look}: {}",
            opened.messages
        );
        assert_eq!(opened.requests, [""; 0], "{look}");
    }
}
