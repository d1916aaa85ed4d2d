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
    let _ = fs::remove_file(screenshot);
    let log = screenshot.with_extension("requests.json");
    let profile = screenshot.with_extension("profile");
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
        .arg(format!("--window-size={size}"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("--screenshot={}", screenshot.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("timeout is there");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && screenshot.exists(), "{messages}");
    let requests = requests(&fs::read_to_string(&log).expect("a log of requests"));
    let _ = fs::remove_file(&log);
    let _ = fs::remove_dir_all(&profile);
    Opened { messages, requests }
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
