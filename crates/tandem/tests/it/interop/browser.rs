//! Chromium with a page of two SIP.js phones: SIP over secure WebSocket, sound over WebRTC.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use test_support::{Peer, require_command, say_skipped, wait_until};

use crate::interop::LIMIT;

/// The library in the page, as it is published. It is taken as it is: modules without dependencies.
const SIP_JS: &str = "https://registry.npmjs.org/sip.js/-/sip.js-0.21.2.tgz";

/// The SHA-256 of that file.
const SIP_JS_SHA256: &str = "abbf374bccf50fdd0f659e24dd70a83a0bad09553bd16fa4b6c94021053f66cb";

/// A browser with the page of phones.
#[derive(Debug)]
pub(crate) struct Browser {
    told: Arc<Mutex<String>>,
    _process: Peer,
    _directory: TempDir,
}

impl Browser {
    /// Opens the page. `server` is the URI of the proxy's WebSocket listener. `None` where Chromium
    /// or SIP.js cannot be had.
    pub(crate) fn open(server: &str, domain: &str, password: &str) -> Option<Browser> {
        let chromium = require_command("chromium", "chromium")?;
        let library = sip_js()?;
        let directory = tempfile::tempdir().expect("a directory");
        let told = Arc::new(Mutex::new(String::new()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let notes = Arc::clone(&told);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A browser that goes away in the middle of a request wants no answer.
                let _ = serve(stream, &library, &notes);
            }
        });
        let page = format!(
            "http://{address}/?server={}&domain={domain}&password={}",
            escape(server),
            escape(password)
        );
        let process = Peer::spawn(
            Command::new(chromium)
                .args([
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-quic",
                ])
                .args(["--no-first-run", "--disable-background-networking"])
                .args(["--disable-component-update", "--disable-sync"])
                .args(["--ignore-certificate-errors", "--enable-logging=stderr"])
                .args([
                    "--use-fake-device-for-media-stream",
                    "--use-fake-ui-for-media-stream",
                ])
                .args(["--allow-loopback-in-peer-connection"])
                .arg(format!("--user-data-dir={}", directory.path().display()))
                .arg(page),
        );
        Some(Browser {
            told,
            _process: process,
            _directory: directory,
        })
    }

    /// Waits until the page has told `text`.
    pub(crate) fn wait_for(&self, text: &str) {
        let told = || self.told.lock().expect("the server goes on").clone();
        wait_until(4 * LIMIT, || {
            let told = told();
            told.contains(text) || told.contains("failed")
        });
        assert!(told().contains(text), "the page told only: {}", told());
    }
}

/// A text as a part of a URI's query.
fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Answers one request for the page or a file of the library, or takes a note.
fn serve(mut stream: TcpStream, library: &Path, told: &Mutex<String>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = if request.starts_with("POST") {
        let mut note = vec![0; length];
        reader.read_exact(&mut note)?;
        let mut told = told.lock().expect("no reader panicked");
        told.push_str(&String::from_utf8_lossy(&note));
        told.push('\n');
        ("200 OK", "text/plain", Vec::new())
    } else if path == "/" {
        (
            "200 OK",
            "text/html",
            include_bytes!("phones.html").to_vec(),
        )
    } else {
        let file = path
            .strip_prefix("/sip.js/")
            .filter(|file| !file.contains(".."))
            .and_then(|file| fs::read(library.join(file)).ok());
        match file {
            Some(text) => ("200 OK", "text/javascript", text),
            None => ("404 Not Found", "text/plain", Vec::new()),
        }
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

/// The directory with the modules of SIP.js, fetched once. `None`, with a line that says why, where it
/// cannot be had.
fn sip_js() -> Option<PathBuf> {
    let curl = require_command("curl", "curl")?;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sip.js-0.21.2");
    let modules = directory.join("package/lib");
    if modules.join("index.js").exists() {
        return Some(modules);
    }
    fs::create_dir_all(&directory).expect("a directory");
    let archive = directory.join("sip.js.tgz");
    let fetched = Command::new(curl)
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "60",
            "--output",
        ])
        .arg(&archive)
        .arg(SIP_JS)
        .status()
        .expect("curl runs");
    if !fetched.success() {
        say_skipped(&format!("{SIP_JS} cannot be fetched"));
        return None;
    }
    let sum = Command::new("sha256sum")
        .arg(&archive)
        .output()
        .expect("sha256sum runs");
    assert!(
        String::from_utf8_lossy(&sum.stdout).starts_with(SIP_JS_SHA256),
        "{SIP_JS} is not what it was"
    );
    let unpacked = Command::new("tar")
        .arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(&directory)
        .status()
        .expect("tar runs");
    assert!(unpacked.success(), "the archive can be unpacked");
    Some(modules)
}
