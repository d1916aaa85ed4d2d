//! A file that changes while the proxy runs.

use std::path::Path;

use super::sip::Phone;
use super::{PATIENCE, configuration, eventually, start};

/// Written beside the file and moved there, as editors and tools do.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(&new, file).expect("moved");
}

#[test]
fn a_change_of_the_file_is_taken_over_and_a_call_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration("")).expect("written");
    let mut proxy = start(&file);
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

    // All that is new goes elsewhere from now on; what rings is answered.
    replace(&file, &configuration("[forwarding]\nmode = \"redirect\"\n"));
    proxy.peer.wait_for_output("reloaded", PATIENCE);
    callee.answer(&invite, "200 OK");
    let answer = caller.receive_one("SIP/2.0 200");
    caller.within("ACK", &answer);
    callee.receive_one("ACK ");
    let other = Phone::new(&proxy, "carol");
    let response = other.ask("INVITE", "sip:bob@127.0.0.1", "bob", "c2", &contact);
    assert_eq!(response.status(), 302);

    caller.within("BYE", &answer);
    let bye = callee.receive_one("BYE ");
    callee.answer(&bye, "200 OK");
    caller.receive_one("SIP/2.0 200");
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration("[forwarding]\nmode = \"redirect\"\n")).expect("written");
    let mut proxy = start(&file);
    let callee = Phone::new(&proxy, "bob");
    assert_eq!(callee.register("r1"), 200);
    replace(&file, &configuration("[forwarding]\nmode = \"sideways\"\n"));
    proxy.signal("HUP");
    proxy.peer.wait_for_output("not reloaded", PATIENCE);
    assert!(
        proxy
            .peer
            .output()
            .contains("tandem.toml:8: forwarding.mode")
    );
    let caller = Phone::new(&proxy, "alice");
    let contact = format!("Contact: <sip:alice@{}>\r\n", caller.address());
    let response = caller.ask("INVITE", "sip:bob@127.0.0.1", "bob", "c1", &contact);
    assert_eq!(response.status(), 302);
}

#[test]
fn what_needs_a_restart_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration("")).expect("written");
    let mut proxy = start(&file);
    replace(&file, &configuration("[registrar]\nmaximum_bindings = 3\n"));
    proxy.signal("HUP");
    proxy.peer.wait_for_output("next start", PATIENCE);
    eventually("the key is named", || {
        proxy.peer.output().contains("registrar.maximum_bindings")
    });
}
