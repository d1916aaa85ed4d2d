//! Pages in a real browser.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What a browser said and did when it opened a page.
#[derive(Debug)]
pub struct Opened {
    /// What it printed: errors of the page are lines with `CONSOLE`.
    pub messages: String,
    /// Addresses that it asked for because of the page, other than files of this host.
    pub requests: Vec<String>,
}

/// Opens a page in Chromium without a window, and takes a picture of it. `size` is that of the window, such as
/// `1280,900`; `flags` are Chromium's.
///
/// # Panics
///
/// When it cannot be opened.
pub fn open_page(
    chromium: &Path,
    page: &Path,
    screenshot: &Path,
    size: &str,
    flags: &[&str],
) -> Opened {
    let log = screenshot.with_extension("requests.json");
    let size = format!("--window-size={size}");
    let net_log = format!("--log-net-log={}", log.display());
    let picture = format!("--screenshot={}", screenshot.display());
    let flags = [flags, &[&*size, &*net_log, &*picture]].concat();
    let messages = run(chromium, page, screenshot, &flags);
    let requests = requests(&fs::read_to_string(&log).expect("a log of requests"));
    let _ = fs::remove_file(&log);
    Opened { messages, requests }
}

/// Prints a page as Chromium prints it, into a PDF file. Returns what it said.
///
/// # Panics
///
/// When it cannot be printed.
pub fn print_page(chromium: &Path, page: &Path, pdf: &Path) -> String {
    let printed = format!("--print-to-pdf={}", pdf.display());
    run(chromium, page, pdf, &["--no-pdf-header-footer", &printed])
}

/// Runs Chromium without a window on a page, until it has made a file. Returns what it said.
fn run(chromium: &Path, page: &Path, made: &Path, flags: &[&str]) -> String {
    let _ = fs::remove_file(made);
    let profile = made.with_extension("profile");
    let _ = fs::remove_dir_all(&profile);
    let output = Command::new("timeout")
        .arg("120")
        .arg(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--enable-logging=stderr",
        ])
        .args(flags)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("timeout is there");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && made.exists(), "{messages}");
    let _ = fs::remove_dir_all(&profile);
    messages
}

/// The addresses in a log of Chromium's network, but for files and for what it asks of its makers.
fn requests(log: &str) -> Vec<String> {
    const MAKERS: [&str; 3] = ["google.com", "googleapis.com", "gstatic.com"];
    let mut requests: Vec<String> = log
        .split("\"url\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|url| {
            let host = url.split('/').nth(2).unwrap_or_default();
            let is_local = ["file:", "data:", "blob:", "about:"]
                .iter()
                .any(|scheme| url.starts_with(scheme));
            let is_of_makers = MAKERS
                .iter()
                .any(|maker| host == *maker || host.ends_with(&format!(".{maker}")));
            !is_local && !is_of_makers
        })
        .map(str::to_owned)
        .collect();
    requests.sort();
    requests.dedup();
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_asks_for_is_told_from_the_rest() {
        let log = r#"{"url":"file:///a.html"},{"url":"https://accounts.google.com/x"},
            {"url":"http://example.org/script.js"},{"url":"data:image/png;base64,x"},
            {"url":"http://notgoogle.com/"}"#;
        assert_eq!(
            requests(log),
            ["http://example.org/script.js", "http://notgoogle.com/"]
        );
    }
}
