//! Phones and servers of other people around `tandem proxy`.

mod baresip;
mod browser;
mod capture;
mod capture_hep;
mod capture_of_load;
mod capture_rtp;
mod kamailio;
mod linphone;
mod phone;
mod proxy;
mod sipp;

use std::time::Duration;

use browser::Browser;
use linphone::Linphone;
use phone::Account;
use proxy::{DOMAIN, PASSWORD, Proxy};
use sipp::{Sipp, scenario};
use test_support::{Baresip, Kamailio};

/// How long anything may take that a phone does by itself.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn baresip_calls_baresip_over_udp() {
    baresip_calls_baresip("udp", "udp");
}

#[test]
fn baresip_calls_baresip_over_tcp() {
    baresip_calls_baresip("tcp", "tcp");
}

#[test]
fn baresip_calls_baresip_over_tls() {
    baresip_calls_baresip("tls", "tls");
}

#[test]
fn baresip_calls_baresip_from_udp_to_tcp() {
    baresip_calls_baresip("udp", "tcp");
}

fn baresip_calls_baresip(caller_transport: &str, callee_transport: &str) {
    let mut proxy = Proxy::start_for_users();
    let callee = Account::new("bob", callee_transport, proxy.port(callee_transport));
    let caller = Account::new("alice", caller_transport, proxy.port(caller_transport));
    let Some(mut bob) = baresip::start(&callee, true) else {
        return;
    };
    let Some(mut alice) = baresip::start(&caller, false) else {
        return;
    };
    proxy.wait_for_registration("alice");
    proxy.wait_for_registration("bob");

    alice.command("dial", &callee.uri());
    alice.wait_for_event("CALL_ESTABLISHED");
    bob.wait_for_event("CALL_ESTABLISHED");
    proxy.wait_for("outcome=\"answered\"");
    alice.command("hangup", "");
    bob.wait_for_event("CALL_CLOSED");
    proxy.wait_for("call ended");

    // The other way round, and given up while it rings: bob calls, alice does not answer.
    bob.command("dial", &caller.uri());
    alice.wait_for_event("CALL_INCOMING");
    bob.wait_for_event("CALL_RINGING");
    bob.command("hangup", "");
    proxy.wait_for("outcome=487 ");
}

/// Three plugins: one that is shipped, one that asks and changes messages in both directions, one that routes.
#[test]
fn baresip_calls_baresip_through_three_plugins() {
    const CALL_LIMIT: &str = include_str!("../../../../proxy/plugins/call_limit.lua");
    const MARK: &str = r#"
        function on_route(request)
          if request.method ~= "INVITE" or request.in_dialog then return end
          local is_known = tandem.has_user("example.org", request.user)
          request:set_header("X-Caller", is_known and "known" or "unknown")
          tandem.log("info", "the caller is " .. request:header("X-Caller"))
        end
        function on_branch(branch) branch:set_header("X-Branch", branch.target) end
        function on_reply(response) response:set_header("X-Reply", response.status) end
        function on_dialog_end() tandem.log("info", "the dialog has ended") end
    "#;
    const NAMES: &str = r#"
        function on_request(request)
          if request.method ~= "INVITE" or request.in_dialog then return end
          if tandem.uri(request.uri).user == "desk" then request.uri = "sip:bob@example.org" end
        end
    "#;
    let plugins = [("call_limit", CALL_LIMIT), ("mark", MARK), ("names", NAMES)];
    let mut proxy = Proxy::start_with_plugins(&plugins);
    let callee = Account::new("bob", "udp", proxy.port("udp"));
    let caller = Account::new("alice", "udp", proxy.port("udp"));
    let Some(mut bob) = baresip::start(&callee, true) else {
        return;
    };
    let Some(mut alice) = baresip::start(&caller, false) else {
        return;
    };
    proxy.wait_for_registration("alice");
    proxy.wait_for_registration("bob");
    // The first call goes to a name that a plugin rewrites.
    for uri in ["sip:desk@example.org", "sip:bob@example.org"] {
        alice.command("dial", uri);
        alice.wait_for_event("CALL_ESTABLISHED");
        bob.wait_for_event("CALL_ESTABLISHED");
        proxy.wait_for("the caller is known");
        alice.command("hangup", "");
        bob.wait_for_event("CALL_CLOSED");
        proxy.wait_for("the dialog has ended");
    }
    proxy.assert_never("plugin failed");
}

#[test]
fn sipp_proves_who_it_is_over_udp() {
    sipp_proves_who_it_is("udp");
}

#[test]
fn sipp_proves_who_it_is_over_tcp() {
    sipp_proves_who_it_is("tcp");
}

/// bob registers, alice calls him a hundred times; each is asked for a password.
fn sipp_proves_who_it_is(transport: &str) {
    let mut proxy = Proxy::start_for_users();
    let port = proxy.port(transport);
    let answers = scenario("callee.xml");
    let answers = answers.to_str().expect("a UTF-8 path");
    let registers = ["-m", "1", "-oocsf", answers];
    let Some(_bob) = Sipp::start("digest-callee.xml", transport, port, ["bob"; 2], &registers)
    else {
        return;
    };
    proxy.wait_for_registration("bob");
    let calls = ["-m", "100", "-r", "50", "-l", "100"];
    let users = ["alice", "bob"];
    let Some(mut alice) = Sipp::start("digest-caller.xml", transport, port, users, &calls) else {
        return;
    };
    let status = alice.process.wait(2 * LIMIT);
    assert!(status.success(), "not every call came about: {status}");

    // Without the password nothing comes about.
    let stranger = ["mallory", "bob"];
    let one = ["-m", "1"];
    let Some(mut mallory) = Sipp::start("digest-caller.xml", transport, port, stranger, &one)
    else {
        return;
    };
    assert!(!mallory.process.wait(2 * LIMIT).success());
}

#[test]
fn linphone_and_baresip_call_each_other() {
    let mut proxy = Proxy::start_for_users();
    let bob = Account::new("bob", "udp", proxy.port("udp"));
    let carol = Account::new("carol", "udp", proxy.port("udp"));
    let Some(mut baresip) = baresip::start(&bob, true) else {
        return;
    };
    let Some(mut linphone) = Linphone::start(&carol) else {
        return;
    };
    proxy.wait_for_registration("bob");
    proxy.wait_for_registration("carol");

    // Linphone refuses a call while an earlier one is being cleared up: it is called first.
    baresip.command("dial", &carol.uri());
    linphone.wait_for("Receiving new incoming call from");
    linphone.command("answer");
    baresip.wait_for_event("CALL_ESTABLISHED");
    baresip.command("hangup", "");
    baresip.wait_for_event("CALL_CLOSED");
    linphone.wait_for("ended");

    linphone.command(&format!("call {}", bob.uri()));
    linphone.wait_for(&format!("Media streams established with {}", bob.uri()));
    baresip.wait_for_event("CALL_ESTABLISHED");
    linphone.command("terminate all");
    baresip.wait_for_event("CALL_CLOSED");
}

/// Each phone sends everything to its own server, which passes the call on to the other one.
#[test]
fn calls_cross_kamailio_as_the_next_hop_and_as_the_previous_one() {
    for transport in ["udp", "tcp"] {
        let mut proxy = Proxy::start_with_md5();
        let Some(kamailio) = kamailio::before(transport, proxy.port(transport)) else {
            return;
        };
        let alice = Account::new("alice", transport, proxy.port(transport));
        let bob = Account {
            domain: format!("127.0.0.1:{}", kamailio.port),
            ..Account::new("bob", transport, kamailio.port)
        };
        let Some(mut ours) = baresip::start(&alice, true) else {
            return;
        };
        let Some(mut theirs) = baresip::start(&bob, true) else {
            return;
        };
        proxy.wait_for_registration("alice");
        theirs.wait_for_registration();
        let over = |uri: String| format!("{uri};transport={transport}");
        call_and_hang_up(&mut ours, &mut theirs, &over(bob.uri()));
        call_and_hang_up(&mut theirs, &mut ours, &alice.uri());
    }
}

/// The caller calls, the callee answers by itself and hangs up.
fn call_and_hang_up(caller: &mut Baresip, callee: &mut Baresip, uri: &str) {
    caller.command("dial", uri);
    caller.wait_for_event("CALL_ESTABLISHED");
    callee.wait_for_event("CALL_ESTABLISHED");
    callee.command("hangup", "");
    caller.wait_for_event("CALL_CLOSED");
    callee.wait_for_event("CALL_CLOSED");
}

#[test]
fn phones_in_a_browser_call_each_other_over_secure_websocket() {
    let mut proxy = Proxy::start();
    let server = format!("wss://127.0.0.1:{}", proxy.port("wss"));
    let Some(browser) = Browser::open(&server, DOMAIN, PASSWORD) else {
        return;
    };
    browser.wait_for("alice registered");
    proxy.wait_for_registration("bob");
    browser.wait_for("media connected");
    browser.wait_for("call ended");
    proxy.wait_for("outcome=\"answered\"");
}

/// Emulated users at a registrar of somebody else that wants to know who they are.
#[test]
fn emulated_users_authenticate_at_kamailio() {
    let Some(kamailio) = Kamailio::authenticating() else {
        return;
    };
    let via = format!("127.0.0.1:{}", kamailio.port);
    for transport in ["udp", "tcp"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["load", "calls", "--via", &via, "--transport", transport])
            .args(["--users", "3", "-r", "50", "-m", "12"])
            .args(["--auth", "user%d:secret"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        // On a machine that is too busy the run is invalid.
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{said}{complaints}"
        );
        assert!(
            said.contains("Registered  6 of 6 users"),
            "{said}{complaints}"
        );
        assert!(!complaints.contains("remain registered"), "{complaints}");
    }
}
