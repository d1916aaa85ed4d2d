//! Metrics, the status and the page of a gateway that runs.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use sigtran::console::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::console::Console;

const GATEWAY: &str = r#"
    [sctp]
    addresses = ["127.0.0.1"]
    encapsulation_port = 0
    [m3ua]
    gateway = true
    t_r = "60s"
    [metrics]
    listen = "127.0.0.1:0"
    [[peer]]
    name = "one"
    role = "asp"
    address = "127.0.0.1:3201"
    [[peer]]
    name = "two"
    role = "asp"
    address = "127.0.0.1:3202"
    [[application_server]]
    name = "first"
    served_by = "peers"
    peers = ["one"]
    routing_context = 1
    dpc = ["0-0-1"]
    traffic_mode = "loadshare"
    [[application_server]]
    name = "second"
    served_by = "peers"
    peers = ["two"]
    routing_context = 2
    dpc = ["0-0-2"]
"#;

/// An ASP of the gateway at this UDP port.
fn asp(gateway: u16, port: u16, context: u32) -> String {
    format!(
        r#"
        [sctp]
        addresses = ["127.0.0.1"]
        port = {port}
        encapsulation_port = 0
        [[peer]]
        name = "sgp"
        role = "sgp"
        address = "127.0.0.1:2905"
        encapsulation_port = {gateway}
        [[application_server]]
        name = "own"
        served_by = "us"
        peers = ["sgp"]
        routing_context = {context}
        dpc = ["0-0-{context}"]
        [[route]]
        via = "sgp"
        "#
    )
}

/// Headers and body of what is at a path.
async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    (head.to_lowercase(), body.to_owned())
}

/// Where a process is watched.
async fn watched(process: &mut Console) -> SocketAddr {
    let line = process.until("* METRICS ").await;
    let address = line.strip_prefix("* METRICS http://");
    let address = address.and_then(|it| it.strip_suffix("/metrics"));
    address.expect(&line).parse().expect("an address")
}

#[track_caller]
fn has_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "no {line} in {text}");
    }
}

/// Metrics are those that `docs/m3ua.md` has.
fn are_documented(metrics: &str) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/m3ua.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let documented = page.lines().filter_map(|line| {
        let name = line.strip_prefix("| `tandem_m3ua_")?;
        name.split('`').next()
    });
    let documented: BTreeSet<&str> = documented.collect();
    let exposed = metrics.lines().filter_map(|line| {
        let name = line.strip_prefix("tandem_m3ua_")?;
        name.split(['{', ' ']).next()
    });
    assert_eq!(documented, exposed.collect());
}

#[tokio::test]
async fn metrics_status_and_page_of_a_gateway() {
    let port = test_support::free_udp_port();
    let configuration = GATEWAY.replace(
        "encapsulation_port = 0",
        &format!("encapsulation_port = {port}"),
    );
    let quiet = || Options {
        quiet: true,
        ..Options::default()
    };
    let mut gateway = Console::start(configuration, quiet());
    let address = watched(&mut gateway).await;
    let one = Console::start(asp(port, 3201, 1), quiet());
    gateway.until("* AS first AS-ACTIVE").await;
    let mut two = Console::start(asp(port, 3202, 2), quiet());
    gateway.until("* AS second AS-ACTIVE").await;
    two.until("* SELF sgp ASP-ACTIVE").await;
    for _ in 0..3 {
        two.command("/send 0-0-1 hello").await;
        two.until("= SENT").await;
    }
    two.command("/send 0-0-5 nowhere").await;
    two.until("* MTP-PAUSE 0-0-5").await;

    let (head, metrics) = get(address, "/metrics").await;
    assert!(head.contains("application/openmetrics-text"), "{head}");
    has_lines(
        &metrics,
        &[
            r#"tandem_m3ua_association_up{peer="one",role="asp"} 1.0"#,
            r#"tandem_m3ua_association_congested{peer="one"} 0.0"#,
            r#"tandem_m3ua_association_queued_messages{peer="one"} 0.0"#,
            r#"tandem_m3ua_asp_state{peer="one",as="first",state="ASP-ACTIVE"} 1.0"#,
            r#"tandem_m3ua_asp_state{peer="one",as="first",state="ASP-DOWN"} 0.0"#,
            r#"tandem_m3ua_as_state{as="first",state="AS-ACTIVE"} 1.0"#,
            r#"tandem_m3ua_as_state{as="first",state="AS-PENDING"} 0.0"#,
            r#"tandem_m3ua_as_waiting_messages{as="first"} 0.0"#,
            r#"tandem_m3ua_destinations{state="available"} 2.0"#,
            r#"tandem_m3ua_messages_total{type="DATA",direction="received"} 4"#,
            r#"tandem_m3ua_messages_total{type="DATA",direction="sent"} 3"#,
            r#"tandem_m3ua_data_total{network_appearance="",dpc="0-0-1",si="SCCP",direction="received"} 3"#,
            r#"tandem_m3ua_data_total{network_appearance="",dpc="0-0-1",si="SCCP",direction="sent"} 3"#,
            r#"tandem_m3ua_data_total{network_appearance="",dpc="other",si="other",direction="received"} 1"#,
            r#"tandem_m3ua_drops_total{reason="no_route"} 1"#,
            r#"tandem_m3ua_drops_total{reason="pending_full"} 0"#,
            r#"tandem_sctp_associations_left_out{} 0.0"#,
        ],
    );
    assert!(
        metrics.contains("tandem_m3ua_relayed_total{} 3\n"),
        "{metrics}"
    );
    assert!(metrics.contains("tandem_sctp_path_active{association=\"one\","));
    assert!(metrics.contains("process_cpu_seconds_total"));

    are_documented(&metrics);

    // An AS without ASP is pending, and a message waits for T(r).
    one.quit().await;
    gateway.until("* AS first AS-PENDING").await;
    two.command("/send 0-0-1 waits").await;
    two.until("= SENT").await;
    let waiting = async || {
        let (_, metrics) = get(address, "/metrics").await;
        metrics.contains("tandem_m3ua_as_waiting_messages{as=\"first\"} 1.0\n")
    };
    crate::over_udp::until("it waits", waiting).await;
    let (head, json) = get(address, "/status").await;
    assert!(head.contains("application/json"), "{head}");
    let status: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let at = |pointer: &str| {
        status
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer}: {json}"))
    };
    assert_eq!(at("/peers/0/name"), "one");
    assert!(at("/peers/0/association").is_null());
    assert_eq!(at("/peers/0/states/0/state"), "ASP-DOWN");
    assert_eq!(at("/peers/1/states/0/state"), "ASP-ACTIVE");
    assert_eq!(at("/application_servers/0/state"), "AS-PENDING");
    assert_eq!(at("/application_servers/0/waiting"), 1);
    assert_eq!(at("/application_servers_with_asps"), 2);
    assert_eq!(at("/active_application_servers"), 1);
    assert_eq!(at("/destinations/0/destination"), "0-0-1");
    assert_eq!(at("/destinations/0/via/0/0"), "first");
    assert_eq!(at("/traffic/0/received"), 4);

    let (head, page) = get(address, "/").await;
    assert!(
        head.contains("text/html") && head.contains("refresh: 5"),
        "{head}"
    );
    let headline = "1 of 2 peers are connected; 1 of 2 application servers are active.";
    for text in [
        headline,
        "AS-PENDING",
        "second ASP-ACTIVE",
        "other",
        "no_route",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert_eq!(get(address, "/healthz").await.1, "ok\n");
    assert_eq!(get(address, "/readyz").await.1, "ready\n");
    assert!(get(address, "/other").await.0.starts_with("http/1.1 404"));
    two.quit().await;
    gateway.quit().await;
    assert!(
        TcpStream::connect(address).await.is_err(),
        "it still listens"
    );
}

/// Those who watch are served while the thread of the engine does something else.
#[tokio::test]
async fn those_who_watch_have_a_thread_of_their_own() {
    let mut gateway = Console::start(GATEWAY.to_owned(), Options::default());
    let address = watched(&mut gateway).await;
    let asked = thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        io::Result::Ok(answer)
    });
    // The engine's thread is this one, and waits.
    let answer = asked.join().expect("no panic").expect("an answer");
    assert!(answer.ends_with("ok\n"), "{answer}");
    gateway.quit().await;
}
