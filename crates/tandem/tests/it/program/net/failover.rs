//! A click on the page cuts a link, and an association goes over to its other path.

use std::time::Duration;

use test_support::{Browser, Peer};

use super::{Networks, program};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_click_cuts_the_path_and_the_association_fails_over() {
    let Some(networks) = Networks::up(&["multihomed"]) else {
        return;
    };
    let mut web = Peer::spawn(&mut networks.command(&["web", "--json"]));
    web.wait_for_output("}\n", LIMIT);
    let printed = web.output();
    let line = printed.lines().find(|line| line.contains("\"url\""));
    let told: serde_json::Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let Some(mut browser) = Browser::open(told["url"].as_str().expect("an address")) else {
        return;
    };
    // Failover after one time-out, and time-outs that a test can wait for.
    let quick = [
        "--set",
        "hb_interval=1s",
        "--set",
        "rto_initial=200ms",
        "--set",
        "rto_min=200ms",
        "--set",
        "path_max_retrans=1",
    ];
    let listen = [
        program(),
        "sctp",
        "listen",
        "--service",
        "echo",
        "--address",
        "10.2.0.2",
        "--address",
        "10.4.0.2",
    ];
    let mut server = Peer::spawn(&mut networks.on("server", &[&listen[..], &quick].concat()));
    server.wait_for_output("9000", LIMIT);
    let connect = [
        program(),
        "sctp",
        "connect",
        "10.2.0.2,10.4.0.2:9000",
        "--address",
        "10.1.0.2",
        "--address",
        "10.3.0.2",
    ];
    let mut client = Peer::spawn(&mut networks.on("client", &[&connect[..], &quick].concat()));
    client.wait_for_output("COMM_UP", LIMIT);
    client.write("before\n");
    client.wait_for_output("before", LIMIT);

    assert!(
        browser.wait_for("document.getElementById('status').textContent.startsWith('since 20')")
    );
    browser.click("[data-switch=upper-client]");
    assert!(
        browser.wait_for(
            "document.querySelector('[data-link=upper-client]').classList.contains('cut')"
        )
    );
    client.write("behind\n");
    client.wait_for_output("ADDR_UNREACHABLE", LIMIT);
    client.wait_for_output("behind", LIMIT);

    browser.click("[data-switch=upper-client]");
    client.wait_for_output("ADDR_AVAILABLE", LIMIT);
}
