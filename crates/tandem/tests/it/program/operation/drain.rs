//! SIGTERM: no new calls, and an end when those under way are set up.

use std::time::Duration;

use test_support::free_udp_port;

use super::sip::Phone;
use super::watching::get;
use super::{PATIENCE, configuration, start};

#[test]
fn it_takes_no_new_calls_and_ends_when_the_others_are_set_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    let more = "[metrics]\nlisten = \"127.0.0.1:0\"\n[shutdown]\ndrain = \"90s\"\n";
    std::fs::write(&file, configuration(more)).expect("written");
    let mut proxy = start(&file);
    proxy.peer.wait_for_output("metrics on http://", PATIENCE);
    let (caller, callee) = (Phone::new(&proxy, "alice"), Phone::new(&proxy, "bob"));
    assert_eq!(callee.register("r1"), 200);
    let contact = format!("Contact: <sip:alice@{}>\r\n", caller.address());
    caller.request(
        "INVITE",
        "sip:bob@127.0.0.1",
        "<sip:bob@127.0.0.1>",
        "c1",
        &contact,
    );
    let invite = callee.receive_one("INVITE ");
    assert_eq!(get(&proxy, "/readyz").0, 200);

    proxy.signal("TERM");
    proxy.peer.wait_for_output("draining", PATIENCE);
    let other = Phone::new(&proxy, "carol");
    let refused = other.ask("INVITE", "sip:bob@127.0.0.1", "bob", "c2", &contact);
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.value("Retry-After"), "5");
    let (status, reason) = get(&proxy, "/readyz");
    assert_eq!((status, reason.as_str()), (503, "draining\n"));
    assert_eq!(get(&proxy, "/healthz").0, 200);
    // Phones stay registered, and the call that rang is answered.
    assert_eq!(callee.register("r2"), 200);
    callee.answer(&invite, "200 OK");
    let answer = caller.receive_one("SIP/2.0 200");
    caller.within("ACK", &answer);
    callee.receive_one("ACK ");

    let status = proxy.peer.wait(Duration::from_secs(100));
    assert_eq!(status.code(), Some(0));
    assert!(proxy.peer.output().contains("drained"));
}

#[test]
fn it_waits_no_longer_than_it_may() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration("[shutdown]\ndrain = \"100ms\"\n")).expect("written");
    let mut proxy = start(&file);
    let (caller, callee) = (Phone::new(&proxy, "alice"), Phone::new(&proxy, "bob"));
    assert_eq!(callee.register("r1"), 200);
    caller.request(
        "INVITE",
        "sip:bob@127.0.0.1",
        "<sip:bob@127.0.0.1>",
        "c1",
        "",
    );
    callee.receive_one("INVITE ");
    proxy.signal("TERM");
    assert_eq!(proxy.peer.wait(PATIENCE).code(), Some(0));
    assert!(proxy.peer.output().contains("not ended in time"));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration("")).expect("written");
    let mut proxy = start(&file);
    let (caller, callee) = (Phone::new(&proxy, "alice"), Phone::new(&proxy, "bob"));
    assert_eq!(callee.register("r1"), 200);
    caller.request(
        "INVITE",
        "sip:bob@127.0.0.1",
        "<sip:bob@127.0.0.1>",
        "c1",
        "",
    );
    callee.receive_one("INVITE ");
    proxy.signal("TERM");
    proxy.peer.wait_for_output("draining", PATIENCE);
    proxy.signal("TERM");
    assert_eq!(proxy.peer.wait(PATIENCE).code(), Some(1));
}

/// The bindings of before, and those of while it drained, are those of the next process.
#[test]
fn bindings_outlive_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    let settings = format!(
        "[[listener]]\ntransport = \"udp\"\naddress = \"127.0.0.1:{}\"\n[shutdown]\ndrain = \"10s\"\n\
         [location]\nstore = \"sqlite:{}\"\n",
        free_udp_port(),
        directory.path().join("location.db").display()
    );
    std::fs::write(&file, settings).expect("written");
    let mut proxy = start(&file);
    let names = ["bob", "carol"];
    let [bob, carol] = names.map(|name| Phone::new(&proxy, name));
    let caller = Phone::new(&proxy, "alice");
    let contact = format!("Contact: <sip:alice@{}>\r\n", caller.address());
    let ring = |name: &str, call: &str| {
        let uri = format!("sip:{name}@127.0.0.1");
        caller.request("INVITE", &uri, &format!("<{uri}>"), call, &contact);
    };
    assert_eq!(bob.register("r1"), 200);
    // A call that is not answered keeps it for as long as it may wait.
    ring("bob", "c1");
    bob.receive_one("INVITE ");
    proxy.signal("TERM");
    proxy.peer.wait_for_output("draining", PATIENCE);
    assert_eq!(carol.register("r1"), 200);
    assert_eq!(proxy.peer.wait(PATIENCE).code(), Some(0));
    assert!(proxy.peer.output().contains("not ended in time"));

    let proxy = start(&file);
    for (phone, name) in [(&bob, names[0]), (&carol, names[1])] {
        let asked = Phone::new(&proxy, name).ask("REGISTER", "sip:127.0.0.1", name, "q", "");
        assert_eq!(asked.status(), 200);
        let expected = format!("sip:{name}@{}", phone.address());
        assert!(asked.value("Contact").contains(&expected), "{asked:?}");
        let call = format!("again-{name}");
        ring(name, &call);
        let invite = loop {
            let invite = phone.receive_one("INVITE ");
            // Before, it may have been sent several times.
            if invite.value("Call-ID") == call {
                break invite;
            }
        };
        phone.answer(&invite, "200 OK");
        caller.within("ACK", &caller.receive_one("SIP/2.0 200"));
        phone.receive_one("ACK ");
    }
}
