//! A browser that a test drives: it clicks, types, and looks at what the page shows.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

use crate::packages::require_command;
use crate::peer::Peer;
use crate::wait::wait_until;

/// How long the browser may take for anything: the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Chromium without a window, with one page, driven by its DevTools protocol.
#[derive(Debug)]
pub struct Browser {
    connection: WebSocket<TcpStream>,
    last_command: u64,
    /// Where the mouse is.
    mouse: [f64; 2],
    requests: Vec<String>,
    errors: Vec<String>,
    _process: Peer,
    _profile: TempDir,
}

impl Browser {
    /// Starts it with a page. `None`, and a line with the reason, where there is no Chromium: the test then ends early.
    ///
    /// # Panics
    ///
    /// When it cannot be driven.
    pub fn open(url: &str) -> Option<Browser> {
        let chromium = require_command("chromium", "chromium")?;
        let profile = tempfile::tempdir().expect("a directory");
        let process = Peer::spawn(
            Command::new(chromium)
                .args(["--headless", "--no-sandbox", "--disable-gpu"])
                .args(["--disable-quic", "--no-first-run", "--disable-sync"])
                .args(["--disable-background-networking", "--hide-scrollbars"])
                .args(["--disable-component-update", "--remote-debugging-port=0"])
                .arg("--window-size=1280,1100")
                .arg(format!("--user-data-dir={}", profile.path().display()))
                .arg("about:blank"),
        );
        let told = profile.path().join("DevToolsActivePort");
        let port = || -> Option<u16> {
            let text = std::fs::read_to_string(&told).ok()?;
            text.lines().next()?.parse().ok()
        };
        assert!(
            wait_until(LIMIT, || port().is_some()),
            "{}",
            process.output()
        );
        let port = port().expect("it was there");
        let mut target = None;
        let is_there = wait_until(LIMIT, || {
            target = page_target(port);
            target.is_some()
        });
        assert!(is_there, "no page: {}", process.output());
        let target = target.expect("it was there");
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("its port");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        let (connection, _) = tungstenite::client(&target, stream).expect("its protocol");
        let mut browser = Browser {
            connection,
            last_command: 0,
            mouse: [0.0; 2],
            requests: Vec::new(),
            errors: Vec::new(),
            _process: process,
            _profile: profile,
        };
        for domain in ["Network", "Runtime", "Log", "Page"] {
            browser.command(&format!("{domain}.enable"), json!({}));
        }
        browser.command("Page.navigate", json!({ "url": url }));
        let loaded = "document.readyState === 'complete' && location.href !== 'about:blank'";
        assert!(browser.wait_for(loaded), "{url} is not loaded");
        Some(browser)
    }

    /// The value of an expression of JavaScript in the page.
    ///
    /// # Panics
    ///
    /// When it throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let result = self.command("Runtime.evaluate", parameters);
        assert!(
            result.get("exceptionDetails").is_none(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true; false when that takes too long.
    pub fn wait_for(&mut self, expression: &str) -> bool {
        wait_until(LIMIT, || {
            // While a page is loaded there is none to ask.
            let parameters = json!({ "expression": expression, "returnByValue": true });
            let result = self.command("Runtime.evaluate", parameters);
            result["result"]["value"] == true
        })
    }

    /// Clicks on the middle of the element that a selector of CSS finds.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn click(&mut self, selector: &str) {
        self.press(selector);
        self.release();
    }

    /// The first half of a click.
    ///
    /// # Panics
    ///
    /// When there is no such element.
    pub fn press(&mut self, selector: &str) {
        let middle = format!(
            "(() => {{ const at = document.querySelector({}); at.scrollIntoView({{ block: 'center' }}); \
             const box = at.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        );
        let middle = self.evaluate(&middle);
        self.mouse = [0, 1].map(|at| middle[at].as_f64().expect("a number"));
        self.mouse_event("mouseMoved", "none");
        self.mouse_event("mousePressed", "left");
    }

    /// The second half of a click, where the first one was.
    pub fn release(&mut self) {
        self.mouse_event("mouseReleased", "left");
    }

    fn mouse_event(&mut self, kind: &str, button: &str) {
        let [x, y] = self.mouse;
        self.command(
            "Input.dispatchMouseEvent",
            json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 }),
        );
    }

    /// Replaces what stands in a field by typing, and leaves the field by Enter.
    pub fn fill(&mut self, selector: &str, text: &str) {
        self.click(selector);
        let select = format!("document.querySelector({}).select()", json!(selector));
        self.evaluate(&select);
        self.command("Input.insertText", json!({ "text": text }));
        for kind in ["keyDown", "keyUp"] {
            self.command(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": "Enter", "code": "Enter", "text": "\r",
                        "windowsVirtualKeyCode": 13 }),
            );
        }
    }

    /// Takes a picture of the page, as PNG.
    ///
    /// # Panics
    ///
    /// When that fails, or it cannot be written.
    pub fn screenshot(&mut self, path: &Path) {
        let result = self.command("Page.captureScreenshot", json!({ "format": "png" }));
        let picture = base64(result["data"].as_str().expect("a picture"));
        std::fs::write(path, picture).expect("a file");
    }

    /// The addresses that the page has asked for so far.
    pub fn requests(&mut self) -> &[String] {
        // What was told meanwhile is read with the next answer.
        self.evaluate("0");
        &self.requests
    }

    /// What went wrong in the page so far.
    pub fn errors(&mut self) -> &[String] {
        self.evaluate("0");
        &self.errors
    }

    fn command(&mut self, method: &str, parameters: Value) -> Value {
        self.last_command += 1;
        let command = json!({ "id": self.last_command, "method": method, "params": parameters });
        self.connection
            .send(Message::text(command.to_string()))
            .expect("the browser listens");
        loop {
            let message = self.connection.read().expect("the browser answers");
            let Message::Text(text) = message else {
                continue;
            };
            let mut answer: Value = serde_json::from_str(&text).expect("JSON");
            if answer["id"] == self.last_command {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            Some("Runtime.exceptionThrown") => self.errors.push(parameters.to_string()),
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                self.errors.push(parameters["entry"].to_string());
            }
            _ => {}
        }
    }
}

/// Where the browser's page is driven.
fn page_target(port: u16) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let request =
        format!("GET /json/list HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // Some versions keep the connection; the list is whole when it can be read.
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).ok()?;
        answer.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&answer);
        let list = text
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.trim().to_owned());
        if let Some(Ok(Value::Array(targets))) = list.map(|list| serde_json::from_str(&list)) {
            let page = targets.iter().find(|target| target["type"] == "page")?;
            return Some(page["webSocketDebuggerUrl"].as_str()?.to_owned());
        }
        if count == 0 {
            return None;
        }
    }
}

/// Octets from base64 (RFC 4648 section 4).
fn base64(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(value).map(u32::from).collect();
    let mut octets = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let missing = 4 - group.len();
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * missing);
        let [_, all @ ..] = bits.to_be_bytes();
        octets.extend_from_slice(&all[..3_usize.saturating_sub(missing)]);
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_read() {
        // RFC 4648 section 10.
        for (text, octets) in [
            ("Zm9vYmFy", "foobar"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
        ] {
            assert_eq!(base64(text), octets.as_bytes());
        }
    }
}
