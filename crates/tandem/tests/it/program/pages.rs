//! The pages that the program makes, opened in a real browser: nothing on the console, nothing fetched. Their
//! pictures stay in the directory of the test's artefacts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use test_support::{open_page, print_page, require_command};

use crate::program::support::{Proxy, tandem};

#[test]
fn demo_and_capture_pages_show_in_a_browser() {
    let Some(chromium) = require_command("chromium", "chromium") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    // With losses, so that there is something to be seen.
    let output = tandem()
        .args(["demo", "--transport", "udp,tcp,sctp", "--loss", "0,10"])
        .args(["--calls", "40", "--html"])
        .arg(file("demo.html"))
        .arg("--pcap")
        .arg(file("calls.pcapng"))
        .output()
        .expect("it runs");
    check(&output);
    look_at(
        &chromium,
        "demo",
        &file("demo.html"),
        &["<svg", "Numbers behind"],
    );

    let output = tandem()
        .args(["capture", "analyze"])
        .arg(file("calls.pcapng"))
        .arg("--html")
        .arg(file("capture.html"))
        .arg("--chunks")
        .output()
        .expect("it runs");
    check(&output);
    let parts = ["class=\"plot ladder\"", "Responses over time", "SCTP"];
    look_at(&chromium, "capture", &file("capture.html"), &parts);
}

#[test]
fn load_pages_show_in_a_browser() {
    let Some(chromium) = require_command("chromium", "chromium") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let proxy = Proxy::start();
    let via = format!("127.0.0.1:{}", proxy.port("udp"));
    let load = |name: &str, command: &str, options: &[&str]| {
        let page = directory.path().join(format!("{name}.html"));
        let output = tandem()
            .args(["load", command, "--via", &via])
            .args(options)
            .arg("--html")
            .arg(&page)
            .output()
            .expect("it runs");
        // A generator that was too slow leaves a page, too.
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{name}: {errors}"
        );
        page
    };
    let page = load("calls", "calls", &["-r", "100", "-m", "200"]);
    let parts = ["of 200 calls failed", "Distribution of delays"];
    look_at(&chromium, "load", &page, &parts);
    let page = load("ladder", "capacity", &["--ladder", "5,10", "--repeat", "2"]);
    look_at(&chromium, "ladder", &page, &["sessions"]);
}

#[test]
fn a_lab_page_shows_in_a_browser() {
    let Some(chromium) = require_command("chromium", "chromium") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("lab.html");
    let output = tandem()
        .args(["lab", "run", "heartbeat", "--quick", "--html"])
        .arg(&page)
        .output()
        .expect("it runs");
    check(&output);
    let parts = ["Holds: ", "<nav aria-label=\"Contents\">", "Checks"];
    look_at(&chromium, "lab", &page, &parts);
}

#[test]
fn a_sweep_page_shows_in_a_browser() {
    let Some(chromium) = require_command("chromium", "chromium") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("perf.html");
    let output = tandem()
        .args([
            "perf",
            "sweep",
            "--sizes",
            "64,1024,65536",
            "--seconds",
            "0.2",
            "--html",
        ])
        .arg(&page)
        .output()
        .expect("it runs");
    check(&output);
    look_at(&chromium, "perf", &page, &["<svg", "Numbers behind"]);
}

#[test]
fn traffic_pages_show_in_a_browser() {
    let Some(chromium) = require_command("chromium", "chromium") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("traffic.html");
    let output = tandem()
        .args(["traffic", "send", "udp", "--count", "200", "--rate", "2k"])
        .args([
            "--size",
            "64,512",
            "--encryption",
            "none,aes-256-gcm,des-cfb",
        ])
        .args(["--repeat", "2", "--link-speed", "100M", "--html"])
        .arg(&page)
        .output()
        .expect("it runs");
    check(&output);
    let parts = ["<svg", "Numbers behind", "Cost of encryption"];
    look_at(&chromium, "traffic", &page, &parts);

    let page = directory.path().join("link.html");
    let output = tandem()
        .args(["traffic", "link", "--link-speed", "100M", "--html"])
        .arg(&page)
        .output()
        .expect("it runs");
    check(&output);
    look_at(&chromium, "link", &page, &["<svg", "24,224"]);
}

/// Opens a page as on a desk, in the dark, and on a phone, and prints it.
fn look_at(chromium: &Path, name: &str, page: &Path, parts: &[&str]) {
    let text = fs::read_to_string(page).expect("it was written");
    let first = ["<p class=\"headline\">", "<p class=\"when\">20"];
    for part in first.iter().chain(parts) {
        assert!(text.contains(part), "{name} lacks {part}");
    }
    let artefacts = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for (look, size, flags) in [
        ("desk", "1280,2400", &[][..]),
        (
            "dark",
            "1280,2400",
            &["--blink-settings=preferredColorScheme=0"],
        ),
        ("phone", "500,2400", &[]),
    ] {
        let screenshot = artefacts.join(format!("page-{name}-{look}.png"));
        let opened = open_page(chromium, page, &screenshot, size, flags);
        assert!(
            !opened.messages.contains("CONSOLE"),
            "{name}, {look}: {opened:?}"
        );
        assert_eq!(opened.requests, [""; 0], "{name}, {look}");
    }
    let pdf = artefacts.join(format!("page-{name}.pdf"));
    let messages = print_page(chromium, page, &pdf);
    assert!(!messages.contains("CONSOLE"), "{name}: {messages}");
    read_on_paper(name, &text, &pdf);
}

/// Every heading of the page is on the sheets, and no word is beyond their edges.
fn read_on_paper(name: &str, page: &str, pdf: &Path) {
    let Some(pdftotext) = require_command("pdftotext", "poppler-utils") else {
        return;
    };
    let read = |options: &[&str]| {
        let output = Command::new(&pdftotext)
            .args(options)
            .args([pdf, Path::new("-")])
            .output()
            .expect("it runs");
        check(&output);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&read(&[]));
    let headings: Vec<&str> = page
        .split("<h2")
        .skip(1)
        .filter_map(|rest| rest.split_once('>')?.1.split("</h2>").next())
        .filter(|heading| !heading.contains(['<', '&']))
        .collect();
    assert!(!headings.is_empty(), "{name}");
    for heading in headings {
        assert!(
            text.contains(&words(heading)),
            "{name}: {heading} in {text}"
        );
    }
    let number = |line: &str, attribute: &str| -> f64 {
        let value = line
            .split_once(&format!("{attribute}=\""))
            .expect(attribute)
            .1;
        let value = value.split('"').next().and_then(|value| value.parse().ok());
        value.expect("a number")
    };
    let mut width = 0.0;
    for line in read(&["-bbox"]).lines().map(str::trim) {
        if line.starts_with("<page ") {
            width = number(line, "width");
        } else if line.starts_with("<word ") {
            let (begins, ends) = (number(line, "xMin"), number(line, "xMax"));
            assert!(begins >= 0.0 && ends <= width, "{name}: {line}, {width}");
        }
    }
    assert!(width > 0.0, "{name} has no sheet");
}

fn check(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
