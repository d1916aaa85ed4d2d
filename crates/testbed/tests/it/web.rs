//! The page in a real browser, and the HTTP interface beneath it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use test_support::{Browser, require_command, say_skipped};
use testbed::control::{Control, serve};
use testbed::web::Web;
use testbed::{Testbed, Topology, ready_made};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;

/// A network that is up and has a page.
struct Served {
    testbed: Testbed,
    url: String,
    token: String,
    port: u16,
    _runtime: Runtime,
    _directory: tempfile::TempDir,
}

fn served(name: &str) -> Option<Served> {
    let topology = Topology::parse(ready_made(name)?.text, &[]).expect("it is ours");
    let testbed = match Testbed::up(&topology, name, 1) {
        Ok(testbed) => testbed,
        Err(error) => {
            say_skipped(&error.to_string());
            return None;
        }
    };
    let directory = tempfile::tempdir().expect("a directory");
    let socket: PathBuf = directory.path().join("control");
    let runtime = Runtime::new().expect("a runtime");
    let control = Control::new(Arc::clone(testbed.emulator()), testbed.description());
    let web = runtime.block_on(async {
        let listener = UnixListener::bind(&socket).expect("a socket");
        tokio::spawn(serve(listener, Arc::new(control)));
        let address = "127.0.0.1:0".parse().expect("an address");
        Web::bind(address, socket).await.expect("a port")
    });
    let (url, token, port) = (web.url(), web.token().to_owned(), web.address().port());
    runtime.spawn(web.serve());
    Some(Served {
        testbed,
        url,
        token,
        port,
        _runtime: runtime,
        _directory: directory,
    })
}

impl Served {
    /// The status of an answer and its body.
    fn ask(&self, request: &str, headers: &str, body: &str) -> (u16, String) {
        let length = body.len();
        self.send(&format!(
            "{request} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
    }

    fn send(&self, text: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(text.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let body = answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned());
        (status.expect("a status"), body.expect("a body"))
    }

    fn api(&self, request: &str, body: &str) -> (u16, String) {
        let headers = format!(
            "Host: localhost\r\nAuthorization: Bearer {}\r\n",
            self.token
        );
        self.ask(request, &headers, body)
    }

    /// The shortest of some round trips, in milliseconds.
    fn ping(&self, from: &str, to: &str) -> Option<f64> {
        let mut ping = self.testbed.command(from, "ping").expect("a host");
        let output = ping
            .args(["-c", "3", "-i", "0.2", "-W", "5", to])
            .output()
            .expect("ping runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, times) = text.split_once("min/avg/max/mdev = ")?;
        times.split('/').next()?.parse().ok()
    }
}

#[test]
fn the_address_that_it_listens_on_may_be_named() {
    let runtime = Runtime::new().unwrap();
    let bind = Web::bind("127.0.0.2:0".parse().unwrap(), PathBuf::from("/nowhere"));
    let web = runtime.block_on(bind).unwrap();
    let (address, url) = (web.address(), web.url());
    assert!(url.starts_with("http://127.0.0.2:"), "{url}");
    runtime.spawn(web.serve());
    for (host, status) in [("127.0.0.2", "200"), ("127.0.0.3", "403")] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: {host}:{}\r\nConnection: close\r\n\r\n",
            address.port()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status));
    }
}

#[test]
fn only_who_has_the_token_changes_anything() {
    let Some(served) = served("router") else {
        return;
    };
    let token = format!("Authorization: Bearer {}\r\n", served.token);
    let local = "Host: localhost\r\n";
    let wrong = "Host: localhost\r\nAuthorization: Bearer 0\r\n";
    assert_eq!(served.ask("GET /api/state", local, "").0, 401);
    assert_eq!(served.ask("GET /api/state", wrong, "").0, 401);
    let foreign = format!("Host: example.org\r\n{token}");
    assert_eq!(served.ask("GET /api/state", &foreign, "").0, 403);
    assert_eq!(served.ask("GET /", local, "").0, 200);
    let address = "Host: 127.0.0.2\r\n";
    assert_eq!(
        served.ask("GET /", address, "").0,
        403,
        "it listens on another"
    );
    assert_eq!(served.ask("GET /other", local, "").0, 404);

    let long = " ".repeat(100_000);
    assert_eq!(served.api("POST /api/rules", &long).0, 413);
    let broken = format!("{local}{token}Transfer-Encoding: chunked\r\n");
    let text = format!("POST /api/rules HTTP/1.1\r\n{broken}Connection: close\r\n\r\nnonsense\r\n");
    assert_eq!(served.send(&text).0, 400);

    let (status, body) = served.api("GET /api/network", "");
    assert_eq!(status, 200);
    let network: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(network["nodes"][0]["name"], "client");

    let rule = r#"{"source":"10.1.0.2","delay":"30ms","drop":"1%"}"#;
    let (status, body) = served.api("POST /api/rules", rule);
    assert_eq!(status, 200, "{body}");
    let number = serde_json::from_str::<serde_json::Value>(&body).unwrap()["number"].clone();
    let path = format!("/api/rules/{number}");
    assert_eq!(
        served
            .api(&format!("PATCH {path}"), r#"{"delay":"40ms"}"#)
            .0,
        200
    );
    let state: serde_json::Value =
        serde_json::from_str(&served.api("GET /api/state", "").1).unwrap();
    assert_eq!(state["rules"][0]["rule"]["delay"], "40ms");
    assert_eq!(state["rules"][0]["rule"]["loss"], "1%");
    assert_eq!(served.api(&format!("DELETE {path}"), "").0, 200);
    assert_eq!(served.api(&format!("DELETE {path}"), "").0, 400);

    assert_eq!(
        served
            .api("PUT /api/links/left/both", r#"{"delay":"5ms"}"#)
            .0,
        200
    );
    let (status, body) = served.api("PUT /api/links/left/both", r#"{"delay":"5"}"#);
    assert_eq!(status, 400);
    assert!(body.contains("delay"), "{body}");
    assert_eq!(served.api("POST /api/links/none/cut", "").0, 400);
    assert_eq!(
        served
            .api("PUT /api/links/left/both", &"x".repeat(1 << 17))
            .0,
        413
    );
    let (status, body) = served.api("GET /api/presets", "");
    assert!(status == 200 && body.contains("wifi-50"), "{body}");
}

#[test]
fn what_is_done_on_the_page_happens_to_packets() {
    if require_command("ping", "iputils-ping").is_none() {
        return;
    }
    let Some(served) = served("router") else {
        return;
    };
    let Some(mut browser) = Browser::open(&served.url) else {
        return;
    };
    assert!(browser.wait_for("document.querySelectorAll('#topology .link').length === 2"));
    assert!(
        browser.wait_for("document.getElementById('status').textContent.startsWith('since 20')")
    );
    let headline = |text: &str| {
        format!("document.getElementById('headline').textContent.startsWith('{text}')")
    };
    assert!(browser.wait_for(&headline("All 2 links work; no rule acts.")));
    assert_eq!(
        browser.evaluate("location.search"),
        "",
        "the token is out of sight"
    );
    let quick = served.ping("client", "10.2.0.2").expect("a way");

    // A rule slows pings down.
    browser.fill("#add-rule [name=source]", "10.1.0.2");
    assert!(browser.wait_for("document.querySelectorAll('#rules tbody tr').length === 1"));
    let delay = "#editors .forward [name=delay]";
    assert!(
        browser.wait_for("document.getElementById('selected-heading').textContent === 'Rule 1'")
    );
    browser.fill(delay, "150ms");
    assert!(
        browser
            .wait_for("document.querySelector('#rules tbody').textContent.includes('delay 150ms')")
    );
    let slow = served.ping("client", "10.2.0.2").expect("a way");
    assert!(slow >= 150.0 && quick < slow, "{quick} ms, then {slow} ms");
    // What the page learns meanwhile takes no click from whoever holds the button.
    browser.press("#rules tbody button");
    let shown = browser.evaluate("document.getElementById('status').textContent");
    assert!(browser.wait_for(&format!(
        "document.getElementById('status').textContent !== {shown}"
    )));
    browser.release();
    assert!(browser.wait_for("document.querySelectorAll('#rules tbody tr').length === 0"));

    // What a link does is edited in both directions, by a number and by a slider.
    browser.click("[data-link=left] text");
    assert!(
        browser.wait_for("document.getElementById('selected-heading').textContent === 'Link left'")
    );
    browser.fill(delay, "40ms");
    assert!(
        browser
            .wait_for("document.querySelector('[data-link=left] .words').textContent === '40ms'")
    );
    let slower = served.ping("client", "10.2.0.2").expect("a way");
    assert!(slower >= 80.0, "{slower} ms");
    browser.click("#editors .forward input[type=range]");
    assert!(
        browser
            .wait_for("document.querySelector('[data-link=left] .words').textContent === '500ms'")
    );
    browser.fill(delay, "nonsense");
    assert!(browser.wait_for("document.getElementById('problem').textContent.includes('delay')"));
    browser.fill(delay, "");
    browser.fill("#editors .backward [name=delay]", "");
    assert!(
        browser.wait_for("document.querySelector('[data-link=left] .words').textContent === ''")
    );

    // A click cuts the link, another one heals it.
    browser.click("[data-switch=left]");
    assert!(
        browser.wait_for("document.querySelector('[data-link=left]').classList.contains('cut')")
    );
    assert!(browser.wait_for(&headline("Cut: left; ")));
    assert_eq!(served.ping("client", "10.2.0.2"), None);
    browser.click("[data-switch=left]");
    assert!(
        browser.wait_for("!document.querySelector('[data-link=left]').classList.contains('cut')")
    );
    assert!(served.ping("client", "10.2.0.2").is_some());

    assert!(browser.wait_for("document.querySelectorAll('#plots polyline').length > 0"));
    if let Some(path) = std::env::var_os("TESTBED_SCREENSHOT") {
        browser.screenshot(path.as_ref());
    }
    let own = format!("http://127.0.0.1:{}/", served.port);
    let strangers: Vec<&String> = browser
        .requests()
        .iter()
        .filter(|url| {
            !url.starts_with(&own) && !url.starts_with("data:") && !url.starts_with("about:")
        })
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    // The one that was made on purpose.
    let errors = browser.errors();
    assert!(
        errors.iter().all(|error| error.contains("400")),
        "{errors:?}"
    );
}
